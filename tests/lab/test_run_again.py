# SPDX-License-Identifier: MIT
"""Targets of `make` in README and CONTRIBUTING can be run again in the same clone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eval import demo, demo_cluster
from eval.host import train
from linnapp.lab.cluster import AGENT, CLUSTER_KERNEL, missing
from linnapp.lab.guest import DEFAULT_PATH

ROOT = Path(__file__).parents[2]

#: Targets that are run, with variables that make them short.
RUN = {
    "help": (),
    "liblinnos": (),
    "install-lib": ("DESTDIR=installed",),
    "ublk": (),
    "agent": (),
    "cluster": (),
}

#: Targets that only run with --dry-run, and the reason.
ASKED = {
    "deb": "a minute; what it calls is run twice by test_deb.py",
    "fuzz": "ten minutes; what it calls is run twice by test_fuzz.py",
    "test": "is what runs this",
    "test-qemu": "builds a kernel and boots it often under emulation",
    "test-debug": "builds a kernel and boots it often under KASAN",
    "test-machine": "builds a kernel's packages and installs a whole Debian; root",
    "demo-cluster": "wants packages and a kernel of its own; run below",
    "tour": "boots the lab for a minute; its lines are run twice by test_lab_run.py",
    "bench": "minutes, and measures",
    "docs": "fetches what makes a site of pages",
    "eval": "hours",
    "eval-cluster": "wants packages and a kernel of its own; many minutes",
    "eval-ceph": "wants packages and a kernel of its own; many minutes",
    "eval-simulation": "minutes, and measures",
    "eval-functions": "unpacks Debian's kernel and boots it under emulation",
    "eval-filesystems": "hours",
    "eval-apps": "wants packages of its own",
    "eval-traces": "minutes a trace",
    "eval-replicated": "hours",
    "eval-probing": "hours",
    "eval-guarded": "an hour, and measures",
    "eval-stock": "builds a kernel; many minutes",
}


#: Targets that run before or besides these tests.
ALREADY = {"build", "lint", "demo"}


def test_every_documented_target_is_listed() -> None:
    told = "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    named = set(re.findall(r"(?:`|^ {4})make ([a-z][a-z0-9._-]*)", told, re.MULTILINE))
    assert named == RUN.keys() | ASKED.keys() | ALREADY


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the sources into a folder without a build; it borrows this clone's environment."""
    place = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    (place / ".venv").mkdir()
    (place / ".venv" / "bin").symlink_to(ROOT / ".venv" / "bin")
    (place / ".venv" / ".installed").write_text(f"{place}\n")
    (place / "build").mkdir()
    for name in (".deps-libraries", ".deps"):
        (place / "build" / name).touch()
    return place


def make(clone: Path, *arguments: str) -> str:
    """Return the output of make; packages are installed, even if package lists are new."""
    there = (
        "requirements.txt",
        "pyproject.toml",
        "packaging/apt/build.txt",
        "packaging/apt/libraries.txt",
    )
    old = [word for name in there for word in ("-o", name)]
    ran = subprocess.run(
        ["make", *old, *arguments],
        cwd=clone, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


@pytest.mark.long
@pytest.mark.parametrize("target", RUN)
def test_target_runs_twice(clone: Path, target: str) -> None:
    for _ in range(2):
        make(clone, target, *RUN[target])


@pytest.mark.parametrize("target", ASKED)
def test_long_target_exists(clone: Path, target: str) -> None:
    """Long targets are not run here; their documentation says if they can be run again."""
    asked = make(clone, "--dry-run", target)
    assert re.search(r"-m (pytest|eval)|lab run|build_site|packaging/build.sh|-C tests/fuzz", asked)


@pytest.mark.lab
@pytest.mark.long
def test_demo_repeats_exactly_after_a_run_on_another_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All runs use one folder: a second of workload, one epoch and few policies."""
    rows = ("baseline", "heimdall", "linnos", "lowest")
    monkeypatch.setattr(demo, "ROWS", tuple(row for row in demo.ROWS if row.name in rows))

    def train_briefly(traces: list[Path], models: Path, log: Path, *options: str) -> list[Path]:
        brief = () if "latency" in options else ("--epochs", "1", "--bias", "2")
        return train(traces, models, log, *options, *brief)

    monkeypatch.setattr(demo, "train", train_briefly)
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "own.iolog"

    def run(*arguments: str) -> list[float]:
        monkeypatch.setattr(sys, "argv", ["demo", "--seconds", "1", *arguments])
        demo.main()
        runs = json.loads(Path("out/demo/summary.json").read_text())["runs"]
        assert [each["name"] for each in runs] == list(rows)
        assert not any(each["data_errors"] for each in runs)
        return [each["mean_us"] for each in runs]

    first = run()
    shutil.copy(tmp_path / "out" / "demo" / "workload" / "flash0.iolog", own)
    of_own = run("--trace", str(own))
    assert of_own != first
    # Earlier output has no effect: all digits are as in a new clone.
    assert run() == first


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.skipif(
    not (CLUSTER_KERNEL.exists() and AGENT.exists()) or bool(missing("gluster", DEFAULT_PATH)),
    reason="what it needs is not there: `make kernel-cluster agent cluster deps-gluster`",
)
def test_cluster_demo_runs_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One round of bursts and few rules."""
    rules = ("round-robin", "own-latency", "library", "library-hedge", "oracle")
    monkeypatch.setattr(demo_cluster, "ORDER", rules)
    monkeypatch.setattr(sys, "argv", ["demo-cluster", "--rounds", "1"])
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out" / "demo-cluster"
    taken = []
    for _ in range(2):
        demo_cluster.main()
        assert "liblinnos-cluster takes " in capsys.readouterr().out
        runs = json.loads((out / "summary.json").read_text())["runs"]
        assert [run["policy"] for run in runs] == list(rules)
        taken.append({run["policy"]: run["mean_us"] for run in runs})
        assert (out / "figure.png").stat().st_size > 10_000
        (out / "figure.png").unlink()
    # All is measured again. The timing of GlusterFS's threads varies by some clock steps.
    assert taken[0] == pytest.approx(taken[1], rel=0.01)
    assert taken[0]["oracle"] < taken[0]["library"] < taken[0]["round-robin"]
