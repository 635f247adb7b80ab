# SPDX-License-Identifier: MIT
"""`make deb`: the packages contain the right files and enable nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

needed = ("dpkg-deb", "dpkg-shlibdeps", "dpkg-buildflags", "pkg-config", "make")
missing = [tool for tool in needed if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
]

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "kernel"
#: A build date in 2023.
BUILT_S = 1_700_000_000
HAS_LIBRADOS = Path("/usr/include/rados/librados.h").exists()
CEPH = ("liblinnos-ceph-dev", "liblinnos-ceph1")
OTHERS = (
    *("liblinnos-cluster-dev", "liblinnos-cluster1", "liblinnos-dev", "liblinnos1"),
    *("linnos-agent", "linnos-dkms", "linnos-tools"),
)
NAMES = tuple(sorted((*CEPH * HAS_LIBRADOS, *OTHERS)))

#: The compiler of a machine on which librados-dev is not installed.
WITHOUT_ENGINES = """\
#!/bin/sh
case " $* " in *rados/librados.h*) exit 1; esac
exec gcc "$@"
"""


def output_of(*command: str | Path, umask: int = -1, **environment: str) -> str:
    return subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        umask=umask,
    ).stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the packages as a user with a restrictive umask; build twice, at first without those
    of storage engines. Return them by name.
    """
    out = tmp_path_factory.mktemp("deb")
    compiler = tmp_path_factory.mktemp("compiler") / "gcc"
    compiler.write_text(WITHOUT_ENGINES)
    compiler.chmod(0o755)
    contents = []
    for names, environment in ((OTHERS, {"CC": str(compiler)}), (NAMES, {})):
        result = subprocess.run(
            [ROOT / "packaging" / "build.sh", out],
            check=True,
            capture_output=True,
            text=True,
            umask=0o077,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(BUILT_S), **environment},
        )
        found = {path.name.split("_")[0]: path for path in sorted(out.iterdir())}
        assert tuple(found) == names
        left_out = "`make ceph` installs it" in result.stderr
        assert ("liblinnos-ceph1" in names) != left_out
        contents.append([found[name].read_bytes() for name in OTHERS])
    assert contents[0] == contents[1], "equal sources give equal packages"
    return found


@pytest.fixture(scope="module")
def unpacked(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack all of them into one tree."""
    root = tmp_path_factory.mktemp("root")
    for package in packages.values():
        output_of("dpkg-deb", "-x", package, root)
    return root


def test_packages_contain_their_files_and_share_none(packages: dict[str, Path]) -> None:
    holds = {
        name: {line.split()[5] for line in output_of("dpkg-deb", "-c", package).splitlines()}
        for name, package in packages.items()
    }
    for name, files in {
        "linnos-tools": (
            *("./usr/share/man/man1/linnapp.1.gz", "./usr/share/man/man8/linnos-ublk.8.gz"),
            "./usr/lib/systemd/system/linnapp-exporter.service",
            "./usr/share/bash-completion/completions/linnapp",
            "./usr/lib/python3/dist-packages/linnapp/monitoring/hour.html.j2",
        ),
        "linnos-agent": (
            *("./usr/share/man/man8/linnos-agent.8.gz", "./etc/linnos/"),
            "./usr/share/doc/linnos-agent/agent.conf",
        ),
        "liblinnos-dev": ("./usr/share/man/man3/linnos_pread.3.gz",),
        "liblinnos-cluster-dev": ("./usr/share/man/man3/linnos_cluster.3.gz",),
        "liblinnos-ceph-dev": ("./usr/share/man/man3/linnos_ceph.3.gz",),
    }.items():
        assert name not in NAMES or set(files) <= holds[name]
    for name in (name for name in NAMES if name.endswith("1")):
        assert any(path.endswith(f"/{name.removesuffix('1')}.so.1") for path in holds[name])
    for name, files in holds.items():
        assert f"./usr/share/doc/{name}/copyright" in files
        others = set().union(*(holds[other] for other in NAMES if other != name))
        assert not {path for path in files & others if not path.endswith("/")}


def test_dkms_source_contains_no_kernel_files(packages: dict[str, Path], unpacked: Path) -> None:
    package = packages["linnos-dkms"]
    assert output_of("dpkg-deb", "-f", package, "Architecture").strip() == "all"
    version = output_of("dpkg-deb", "-f", package, "Version").strip()
    source = unpacked / "usr" / "src" / f"linnos-{version}"
    conf = (source / "dkms.conf").read_text()
    assert f'PACKAGE_VERSION="{version}"' in conf
    # DKMS would fail the kernel's package if it built them by itself, and could not.
    assert not re.search(r"^AUTOINSTALL", conf, re.M)
    assert "BUILD_EXCLUSIVE_KERNEL" not in conf
    assert os.access(source / "module" / "build.sh", os.X_OK)
    # The fault target compiles the rules of the emulated drives.
    folders = (KERNEL / "linnos", KERNEL / "module", KERNEL / "flashsim", ROOT / "core")
    ours = {path.name for folder in folders for path in folder.rglob("*")}
    found = {path.name for path in source.rglob("*.[ch]")}
    assert {"linnos_tap.c", "block_io_start.c"} <= found and "blk-linnos-array.c" in found
    assert found - ours <= {path.name for path in (KERNEL / "module" / "compat").rglob("*.h")}
    scripts = unpacked.parent / "linnos-dkms-scripts"
    output_of("dpkg-deb", "-e", package, scripts)
    for script in ("postinst", "prerm"):
        output_of("sh", "-n", scripts / script)
        assert f"VERSION={version}\n" in (scripts / script).read_text()


def test_packages_depend_on_the_libraries_they_need(packages: dict[str, Path]) -> None:
    needs = {name: output_of("dpkg-deb", "-f", path, "Depends") for name, path in packages.items()}
    version = output_of("dpkg-deb", "-f", packages["liblinnos1"], "Version").strip()
    assert f"liblinnos1 (= {version})" in needs["liblinnos-dev"]
    # linnos_cluster.h includes a header of liblinnos-dev
    assert f"liblinnos-dev (= {version})" in needs["liblinnos-cluster-dev"]
    for library in ("libc6", "liburing2"):
        assert library in needs["liblinnos1"] and library in needs["linnos-tools"]
    assert "liburing-dev" in needs["liblinnos-dev"].replace(",", " ").split()
    assert "python3-click" in needs["linnos-tools"]
    assert "libsodium23" in needs["liblinnos-cluster1"]
    assert "libsodium-dev" in needs["liblinnos-cluster-dev"]
    if HAS_LIBRADOS:
        words = re.findall(r"[^ ,\n]+", needs["liblinnos-ceph1"])
        assert {"liblinnos-cluster1", "librados2"} <= set(words)
        for name in ("liblinnos-ceph1", "liblinnos-cluster-dev"):
            assert f"{name} (= {version})" in needs["liblinnos-ceph-dev"]
        assert "librados-dev" in needs["liblinnos-ceph-dev"]


def test_installed_command_runs(unpacked: Path, tmp_path: Path) -> None:
    modules = unpacked / "usr" / "lib" / "python3" / "dist-packages"
    command = [sys.executable, unpacked / "usr" / "bin" / "linnapp"]
    shown = subprocess.run(
        [*command, "generate", "demo", "--duration", "0.01", "-o", tmp_path / "w"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(modules), "PYTHONSAFEPATH": "1"},
    )
    assert (tmp_path / "w" / "flash0.iolog").exists(), shown.stderr
    assert "--policy" in output_of(unpacked / "usr" / "bin" / "replayer", "--help")
    assert "--compare" in output_of(unpacked / "usr" / "sbin" / "linnos-ublk", "--help")
    assert "--check" in output_of(unpacked / "usr" / "sbin" / "linnos-agent", "--help")
    unit = unpacked / "usr" / "lib" / "systemd" / "system" / "linnos-agent.service"
    assert "\nExecStart=/usr/sbin/linnos-agent\n" in unit.read_text()
    # Processes that train drives in parallel run the command's file first, under another name.
    script = (
        "import runpy, sys; sys.modules['linnapp.cli'] = None; "
        "runpy.run_path(sys.argv[1], run_name='__mp_main__')"
    )
    output_of(sys.executable, "-c", script, command[1])


def test_packages_switch_nothing_on_and_name_no_path_of_the_build_machine(
    packages: dict[str, Path], unpacked: Path, tmp_path: Path
) -> None:
    output_of("dpkg-deb", "-e", packages["linnos-tools"], tmp_path)
    for script in ("postinst", "prerm", "postrm"):
        output_of("sh", "-n", tmp_path / script)
        text = (tmp_path / script).read_text()
        assert not re.search(r"\b(enable|start|restart|preset)\b|/sys/", text), script
    for path in unpacked.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            assert str(ROOT).encode() not in content and b"/tmp/tmp." not in content, path


@pytest.mark.parametrize(
    ("name", "header", "call"),
    [
        ("liblinnos", "liblinnos.h", "linnos_array_close(0)"),
        ("liblinnos-cluster", "linnos_cluster.h", "linnos_cluster_free(0)"),
        pytest.param(
            *("liblinnos-ceph", "linnos_ceph.h", "linnos_ceph_close(0)"),
            marks=pytest.mark.skipif(not HAS_LIBRADOS, reason="no librados: `make ceph`"),
        ),
    ],
)
def test_a_program_is_built_against_a_library(
    unpacked: Path, tmp_path: Path, name: str, header: str, call: str
) -> None:
    (config,) = (unpacked / "usr" / "lib").glob("*/pkgconfig")
    (tmp_path / "p.c").write_text(f"#include <{header}>\nint main(void) {{ {call}; return 0; }}\n")
    flags = output_of(
        *("pkg-config", "--cflags", "--libs", name),
        PKG_CONFIG_PATH=str(config),
        PKG_CONFIG_SYSROOT_DIR=str(unpacked),
    ).split()
    output_of("cc", "-o", tmp_path / "p", tmp_path / "p.c", *flags)
    output_of(tmp_path / "p", LD_LIBRARY_PATH=str(config.parent))
    needed = output_of("objdump", "-p", tmp_path / "p")
    assert f"{name}.so.1" in needed


@pytest.mark.skipif(shutil.which("lintian") is None, reason="lintian is not installed")
def test_lintian_finds_nothing(packages: dict[str, Path]) -> None:
    """There are no errors, and no warnings except overridden ones, which have a reason."""
    result = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error,warning", *packages.values()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr
