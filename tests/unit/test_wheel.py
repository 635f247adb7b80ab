# SPDX-License-Identifier: MIT
"""`pip wheel .` makes a package that works in an empty environment, outside of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from test_training import array_trace

from linnapp.trace.workload import profile_names

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that `pip wheel .` makes."""
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", directory, ROOT], check=True
    )
    (built,) = directory.glob("linnapp-*.whl")
    return built


@pytest.fixture(scope="module")
def linnapp(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel with its dependencies only; return its command."""
    environment = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", environment / "bin" / "python"),
            *("install", "-q", "--no-compile", "--disable-pip-version-check", wheel),
        ],
        check=True,
    )
    return environment / "bin" / "linnapp"


def test_a_wheel_holds_the_core_and_the_profiles(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for library in "liblinnapp_native.so", "liblinnos_engine.so":
        assert f"linnapp/native/{library}" in names
    for header in "text_trace", "liblinnos", "linnos_choose":
        assert f"linnapp/native/{header}.h" in names
    for profile in profile_names():
        assert f"linnapp/profiles/{profile}.toml" in names
    assert "linnapp/prior/prior.linnos" in names
    missing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "linnapp").rglob("*")
        if path.is_file()
        and path.suffix in (".py", ".txt", ".sh", ".service", ".timer", ".yaml", ".json")
    } - names
    assert not missing
    # The wheel is for this machine only, but for every Python 3.
    assert "-py3-none-linux_" in wheel.name


def test_the_wheel_works_in_an_empty_environment(
    linnapp: Path, queue_model: Path, tmp_path: Path
) -> None:
    """These commands need the compiled core: text and blktrace readers, writer, engine."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("LINN", "PYTHON"))
    }

    def run(*arguments: str) -> str:
        result = subprocess.run(
            [linnapp, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert [line.split()[0] for line in run("generate", "--list").splitlines()] == profile_names()
    run("generate", "demo", "-o", "made", "--duration", "1", "--drives", "1")
    assert "(iolog:" in run("inspect", "made/flash0.iolog")
    array_trace(tmp_path / "az.blk", 1, 200)
    assert "200 reads" in run("inspect", "az.blk")
    digits = np.random.default_rng(1).integers(0, 10, (100, 31), dtype=np.uint8)
    digits[::2, 12:14] = 0
    np.save(tmp_path / "f.npy", digits)
    pending = digits[:, 12:15].astype(int) @ [100, 10, 1]
    for engine in "c", "numpy":
        output = run(
            "predict", "--model", str(queue_model), "--features", "f.npy", "--engine", engine
        )
        assert [int(word) for word in output.split()] == (pending > 12).astype(int).tolist()
    assert run("help", "formats").startswith("FORMATS")
