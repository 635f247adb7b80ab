# SPDX-License-Identifier: MIT
"""A build of one part installs only the packages that it needs; both Debian releases have them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTS = sorted((ROOT / "packaging" / "apt").glob("*.txt"))
INSTALL = ROOT / "packaging" / "apt" / "install.sh"
RELEASES = {"12": "bookworm", "13": "trixie"}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def lists(target: str) -> set[str]:
    """Return the package lists that make reads for a target, in a clone without a build."""
    planned = subprocess.run(
        ["make", "--dry-run", "BUILD=no/such", "VENV=no/such/venv", target],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return set(re.findall(r"packaging/apt/(\S+)\.txt", planned))


LAB = {"libraries", "programs", "lab"}


@pytest.mark.parametrize(
    ("target", "needed"),
    [
        ("liblinnos", {"libraries"}),
        ("install-lib", {"libraries"}),
        ("cluster", {"libraries", "cluster"}),
        ("agent", {"libraries", "cluster"}),
        ("install-ceph", {"libraries", "cluster", "librados"}),
        ("replayer", {"libraries", "programs"}),
        ("native", {"libraries", "programs"}),
        ("demo", LAB),
        ("tour", LAB),
        ("kernel", LAB),
        ("build", {*LAB, "cluster", "build"}),
        ("test", {*LAB, "cluster", "build", "fuzz"}),
        ("deps-ceph", {"libraries", "cluster", "librados", "ceph"}),
    ],
)
def test_target_installs_only_the_lists_it_needs(target: str, needed: set[str]) -> None:
    assert lists(target) == needed


def os_release(tmp_path: Path, identity: str, version: str, name: str) -> dict[str, str]:
    """Return the environment in which install.sh finds another distribution."""
    path = tmp_path / "os-release"
    path.write_text(f'ID={identity}\nVERSION_ID="{version}"\nPRETTY_NAME="{name}"\n')
    return {**os.environ, "OS_RELEASE": str(path)}


def packages(path: Path, version: str) -> list[str]:
    """Return the packages of a list on a Debian release, as install.sh reads them."""
    script = INSTALL.read_text()
    program = re.search(r"awk -v version=\S+ '\n(.*?)' \"\$@\"", script, re.DOTALL)
    assert program
    return subprocess.run(
        ["awk", "-v", f"version={version}", program[1], path],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip


def test_no_package_is_in_two_lists_of_one_target() -> None:
    named = [
        package
        for path in LISTS
        if path.stem in {"libraries", "cluster", "programs", "lab", "build", "librados", "fuzz"}
        for package in packages(path, "13")
    ]
    assert len(named) == len(set(named))


@pytest.fixture(scope="session", params=RELEASES)
def candidates(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, set[str]]:
    """Return a Debian release and those of the lists' packages that apt could install there.

    apt reads the release's lists in a folder of its own.
    """
    version: str = request.param
    release = RELEASES[version]
    if not shutil.which("apt-get") or not KEYRING.exists():
        pytest.skip("there is no apt-get with Debian's keys here")
    root = tmp_path_factory.mktemp(f"apt-{release}")
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (root / folder).mkdir(parents=True)
    (root / "status").touch()
    (root / "sources.list").write_text(
        "".join(
            f"deb [signed-by={KEYRING}] http://deb.debian.org/{archive} main\n"
            for archive in (f"debian {release}", f"debian-security {release}-security")
        )
    )
    settings = {
        "Dir::State": root / "state",
        "Dir::State::status": root / "status",
        "Dir::Cache": root / "cache",
        "Dir::Etc::sourcelist": root / "sources.list",
        **dict.fromkeys(("Dir::Etc::parts", "Dir::Etc::main"), "/dev/null"),
        **dict.fromkeys(("Dir::Etc::sourceparts", "Dir::Etc::preferencesparts"), "/dev/null"),
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "",
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
    }
    (root / "apt.conf").write_text("".join(f'{k} "{v}";\n' for k, v in settings.items()))

    def apt(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "APT_CONFIG": str(root / "apt.conf")}
        return subprocess.run(words, env=environment, capture_output=True, text=True)

    updated = apt("apt-get", "-q", "update")
    if updated.returncode:
        reason = (updated.stderr.strip() or "no reason given").splitlines()[-1]
        pytest.skip(f"apt-get cannot read the lists of {release}: {reason}")
    named = {name for path in LISTS for name in packages(path, version)}
    policy = apt("apt-cache", "policy", *sorted(named))
    assert not policy.returncode, policy.stderr
    found = re.findall(
        r"^(\S+):\n  Installed: .*\n  Candidate: [^(\s]", policy.stdout, re.MULTILINE
    )
    return version, set(found)


@pytest.mark.nightly
@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_debian_release_has_every_package_of_a_list(
    candidates: tuple[str, set[str]], path: Path
) -> None:
    version, found = candidates
    assert set(packages(path, version)) <= found


@pytest.mark.parametrize(
    ("identity", "version", "name"),
    [
        ("ubuntu", "24.04", "Ubuntu 24.04.3 LTS"),
        ("fedora", "43", "Fedora Linux 43 (Server Edition)"),
        ("debian", "11", "Debian GNU/Linux 11 (bullseye)"),
        ("debian", "", "Debian GNU/Linux forky/sid"),
        ("arch", "", "Arch Linux"),
    ],
)
def test_install_names_the_distribution_and_installs_nothing_when_it_is_not_supported(
    tmp_path: Path, identity: str, version: str, name: str
) -> None:
    environment = os_release(tmp_path, identity, version, name)
    # apt and dpkg are replaced by programs that fail.
    for command in ("apt-get", "dpkg-query", "sudo"):
        (tmp_path / command).write_text("#!/bin/sh\necho used >&2\nexit 9\n")
        (tmp_path / command).chmod(0o755)
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"

    def install(*names: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [INSTALL, *(INSTALL.with_name(f"{name}.txt") for name in names)],
            env=environment, capture_output=True, text=True,
        )  # fmt: skip

    refused = install("libraries", "programs", "lab")
    assert refused.returncode == 1
    assert f"this is {name}; " in refused.stderr
    assert "Debian 13 and 12 only" in refused.stderr
    assert "pip install ." in refused.stderr
    # Programs can be built there with packages that the user has installed.
    built = install("libraries", "programs")
    assert built.returncode == 0
    assert f"this is {name}" in built.stderr
    assert "libjansson-dev" in built.stderr
    assert "used" not in refused.stderr + built.stderr
