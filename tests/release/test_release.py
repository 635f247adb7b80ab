# SPDX-License-Identifier: MIT
"""Install each file of a release in an empty place and use it there: `make test-release`.

The tests need root for chroots and containers, and the network for packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELEASE = Path(os.environ.get("LINNOS_RELEASE", ROOT / "build" / "release"))
VERSION = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)[0]
KERNEL = f"linnos-lab-kernel-{VERSION}"
CODE_NAMES = {12: "bookworm", 13: "trixie"}

pytestmark = pytest.mark.release
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="chroots and containers need root")


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Run a command that must succeed, without this project's folders in its environment."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("LINNOS_")
    }
    inherited["PATH"] = os.defpath + ":/usr/sbin:/sbin"
    result = subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(RELEASE / name) as archive:
        archive.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    return top


def sums(folder: Path) -> dict[str, str]:
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty virtual environment with the wheel."""
    venv = tmp_path_factory.mktemp("wheel") / "venv"
    run("/usr/bin/python3", "-m", "venv", venv)
    run(venv / "bin" / "pip", "install", "-q", *RELEASE.glob("linnapp-*.whl"))
    return venv


@pytest.fixture(scope="module", params=CODE_NAMES)
def debian(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, Path]]:
    """Create an empty Debian of each release; yield its number and its folder."""
    number = request.param
    folder = tmp_path_factory.mktemp("debian") / CODE_NAMES[number]
    run("debootstrap", "--variant=minbase", CODE_NAMES[number], folder)
    shutil.copy("/etc/resolv.conf", folder / "etc")
    yield number, folder
    shutil.rmtree(folder)


def test_checksums_are_those_of_all_files() -> None:
    files = {str(p.relative_to(RELEASE)): p for p in RELEASE.rglob("*") if p.is_file()}
    del files["SHA256SUMS"]
    assert sums(RELEASE) == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()
    }


def test_changelog_has_a_version_and_a_date() -> None:
    changelog = (RELEASE / "CHANGELOG.md").read_text()
    assert re.search(rf"^\*\*Version {VERSION}, 20\d\d-\d\d-\d\d\.\*\*$", changelog, re.M)


def test_wheel_is_for_debian_12_and_later_and_has_complete_metadata(environment: Path) -> None:
    (wheel,) = RELEASE.glob("linnapp-*.whl")
    (minor,) = re.findall(r"-py3-none-manylinux_2_(\d+)_x86_64\.whl$", wheel.name)
    assert int(minor) <= 36
    program = (
        "import json; from importlib.metadata import metadata; "
        "print(json.dumps(metadata('linnapp').json))"
    )
    found = json.loads(run(environment / "bin" / "python", "-c", program))
    assert found["license_expression"] == "MIT" and len(found["classifier"]) > 5
    assert found["summary"] and found["author"] and len(found["description"]) > 1000
    assert found["description_content_type"].startswith("text/markdown")
    assert found["project_url"]
    assert {"train", "figures", "fleet", "watch", "exporter"} <= set(found["provides_extra"])


def test_wheel_says_what_to_do_without_the_lab_kernel_and_then_runs_the_demo(
    environment: Path, tmp_path: Path
) -> None:
    linnapp = environment / "bin" / "linnapp"
    for command in (("demo",), ("tour",), ("lab", "run", "--", "true")):
        result = subprocess.run([linnapp, *command], cwd=tmp_path, capture_output=True, text=True)
        assert (
            result.returncode == 1 and f"tar -xf {KERNEL}.tar.xz -C {environment}" in result.stderr
        )
    run("tar", "-xf", RELEASE / f"{KERNEL}.tar.xz", "-C", environment)
    assert run(linnapp, "lab", "run", "--", "uname", "-r", cwd=tmp_path).endswith("-linnos\n")
    shown = run(linnapp, "demo", "--seed", "7", cwd=tmp_path)
    out = tmp_path / "out" / "linnapp-demo"
    for policy in ("baseline", "linnos", "fastest"):
        written = json.loads((out / "replays" / f"{policy}.json").read_text())
        assert re.search(rf"^{policy}  +{written['mean_us']:.1f}  ", shown, re.M)
    assert (out / "picture.svg").is_file() and "Next: sudo linnapp check" in shown


def test_sdist_is_installed_in_an_empty_environment(tmp_path: Path) -> None:
    run("/usr/bin/python3", "-m", "venv", tmp_path / "venv")
    bin_folder = tmp_path / "venv" / "bin"
    run(bin_folder / "pip", "install", "-q", *RELEASE.glob("linnapp-*.tar.gz"))
    run(bin_folder / "linnapp", "generate", "demo", "--duration", "0.1", "-o", "w", cwd=tmp_path)
    shown = run(bin_folder / "linnapp", "inspect", "w/flash0.iolog", cwd=tmp_path)
    assert "reads" in shown
    assert "--policy" in run(bin_folder / "replayer", "--help")


PROGRAM = """
#include <liblinnos.h>
int main(void) { linnos_array_close(0); return 0; }
"""


def test_c_library_and_crate_are_built_and_used(tmp_path: Path) -> None:
    library = unpack(f"liblinnos-{VERSION}.tar.xz", tmp_path / "library")
    run(
        "make",
        "-C",
        library / "liblinnos",
        f"PREFIX={tmp_path}/installed",
        f"OUT={tmp_path}/out",
        "install",
    )
    (tmp_path / "p.c").write_text(PROGRAM)
    found = f"{tmp_path}/installed/lib/pkgconfig"
    flags = run("pkg-config", "--cflags", "--libs", "liblinnos", PKG_CONFIG_PATH=found).split()
    run("cc", "-o", tmp_path / "p", tmp_path / "p.c", *flags)
    run(tmp_path / "p", LD_LIBRARY_PATH=f"{tmp_path}/installed/lib")
    crate = unpack(f"linnos-{VERSION}.crate", tmp_path / "crate")
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not installed")
    os_path = f"{Path(cargo).parent}:{os.defpath}"
    installed = f"{tmp_path}/installed/lib"
    run(cargo, "test", "--offline", "--lib", cwd=crate, PATH=os_path, LINNOS_LIB_DIR=installed)


def test_lab_kernel_comes_with_its_licence_and_complete_source(tmp_path: Path) -> None:
    """The source is in the same place, with its checksum, as section 3 of the GPL requires."""
    kernel = unpack(f"{KERNEL}.tar.xz", tmp_path / "kernel")
    assert (RELEASE / f"{KERNEL}.tar.xz").stat().st_size < 8e6
    assert "GNU GENERAL PUBLIC LICENSE" in (kernel / "COPYING").read_text()
    readme = (kernel / "README.md").read_text()
    for name in re.findall(r"`([\w.-]+\.tar\.xz)`", readme):
        assert (RELEASE / name).is_file()
    assert sums(RELEASE)["linux-source-6.12.tar.xz"] in readme and "@" not in readme
    source = unpack(f"{KERNEL}-source.tar.xz", tmp_path / "source")
    for name in ("config", "COPYING", "kernel/build.sh", "kernel/linnos", "core/linnos_drive.c"):
        assert (source / name).exists()


@pytest.mark.long
def test_source_of_the_lab_kernel_gives_that_kernel(tmp_path: Path) -> None:
    """It takes as long as building a kernel, without ccache."""
    kernel = unpack(f"{KERNEL}.tar.xz", tmp_path / "kernel")
    source = unpack(f"{KERNEL}-source.tar.xz", tmp_path / "source")
    linux = unpack("linux-source-6.12.tar.xz", tmp_path / "linux")
    run(source / "kernel" / "build.sh", "um", "--ksrc", linux, CCACHE_DISABLE="1")
    run("strip", source / "build" / "linux-um" / "linux")
    assert (source / "build/linux-um/linux").read_bytes() == (kernel / "linux").read_bytes()


@needs_root
def test_packages_are_installed_in_an_empty_debian(debian: tuple[int, Path]) -> None:
    number, folder = debian
    packages = [p for p in (RELEASE / f"debian-{number}").iterdir() if "dkms" not in p.name]
    assert len(packages) >= 6
    for package in packages:
        shutil.copy(package, folder / "root")
    script = """
        export DEBIAN_FRONTEND=noninteractive
        apt-get -q update
        apt-get -q install -y --no-install-recommends /root/*.deb gcc libc6-dev pkgconf
        cd /root && linnapp generate demo --duration 0.1 -o w && linnapp inspect w/flash0.iolog
        for program in replayer linnos-ublk linnos-agent; do $program --help >/dev/null; done
        printf '#include <liblinnos.h>\nint main(void) { linnos_array_close(0); return 0; }\n' >p.c
        gcc p.c -o p $(pkg-config --cflags --libs liblinnos) && ./p
    """
    assert "reads" in run("chroot", folder, "sh", "-ec", script, LANG="C.UTF-8", HOME="/root")


@needs_root
@pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")
def test_container_runs_tour_and_demo_as_an_ordinary_user(
    debian: tuple[int, Path], tmp_path: Path
) -> None:
    number, folder = debian
    base, image = f"localhost/linnos-base:{number}", f"localhost/linnos:{number}"
    run("tar", "-C", folder, "--exclude=./root/*", "-cf", tmp_path / "base.tar", ".")
    run("podman", "import", tmp_path / "base.tar", base)
    run("podman", "build", "-q", "-t", image, "--build-arg", f"BASE={base}", RELEASE)
    shown = run("podman", "run", "--rm", image, "sh", "-ec", "id -u; linnapp demo; linnapp tour")
    assert not shown.startswith("0\n")
    assert "Without a policy the slowest 1 % of reads take" in shown
    assert "While flash1 was slow" in shown


@pytest.mark.long
@needs_root
def test_release_is_equal_when_another_user_builds_it_elsewhere_later(tmp_path: Path) -> None:
    """Build a clone of another name without ccache: all files of the release have the same bytes.

    The packages for the other Debian are built in its folder, which needs root; the user's name and
    home folder differ all the same.
    """
    clone = tmp_path / "another-name"
    run("git", "clone", "-q", ROOT, clone)
    run("chown", "-R", "nobody", clone)
    run(
        "packaging/release.sh", "build/release", cwd=clone, CCACHE_DISABLE="1", USER="nobody",
        LOGNAME="nobody", HOME=str(tmp_path), TZ="Asia/Tokyo", LANG="C",
    )  # fmt: skip
    assert sums(clone / "build" / "release") == sums(RELEASE)
