# SPDX-License-Identifier: MIT
"""liblinnos: what it calls, its modules, its installation, and the programs of its pages."""

from __future__ import annotations

import os
import re
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from c_library import CLibrary, built_as_installed, names
from replaying import BUILT, LIBRARY

from linnapp import __version__

HEADERS = [LIBRARY / "include" / "linnos_choose.h", LIBRARY / "include" / "liblinnos.h"]
#: Except for functions of another library.
PAGES = sorted(
    page
    for page in (LIBRARY.parent / "docs").glob("*.3")
    if page.stem not in {"linnos_cluster", "linnos_ceph"}
)
BUILDS = CLibrary(LIBRARY, BUILT)


@pytest.fixture(scope="module")
def built() -> Path:
    BUILDS.make("all")
    return BUILT


DECLARED = "".join(header.read_text() for header in HEADERS)


@pytest.mark.parametrize("block_bytes", [512, 4096, 16384, 65536])
def test_drives_of_any_block_size_are_read_directly(
    built: Path, tmp_path: Path, block_bytes: int
) -> None:
    """Blocks larger than 4 KiB need Linux 6.15."""
    image = tmp_path / "image"
    image.write_bytes(os.urandom(1 << 20))
    made = subprocess.run(
        ["/sbin/losetup", "--find", "--show", "--sector-size", str(block_bytes), image],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"no loop device with blocks of {block_bytes} bytes here: {made.stderr}")
    device = made.stdout.strip()
    try:
        BUILDS.passes("test_rings", "device_alignment_is_its_block_size",
                      LINNOS_DEVICE=device, LINNOS_BLOCK_BYTES=str(block_bytes))  # fmt: skip
    finally:
        subprocess.run(["/sbin/losetup", "--detach", device], check=True)


def test_header_has_the_version_of_the_project() -> None:
    parts = re.findall(r"^#define LIBLINNOS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", DECLARED, re.M)
    assert ".".join(parts) == __version__


def test_library_neither_prints_nor_exits(built: Path) -> None:
    calls = names(BUILDS.symbols("liblinnos.a", "-u"), r" U (\w+)")
    assert "preadv" in calls
    forbidden = {"exit", "_exit", "abort", "printf", "fprintf", "puts", "fputs", "perror"}
    assert not calls & (forbidden | {"stdout", "stderr", "__assert_fail", "__fprintf_chk"})


def test_library_has_no_state_except_the_error_text_of_each_thread(built: Path) -> None:
    """It has no other variable; read-only data is no state."""
    listed = BUILDS.symbols("liblinnos.a")
    assert re.findall(r" [bBdDcC] (\w+)$", listed, re.MULTILINE) == ["error_text"]


def test_modules_call_each_other_in_one_direction_only(built: Path) -> None:
    """No module is called by one that it calls, and predictor/ calls nothing in io/."""
    defined, used = {}, {}
    for module in (*LIBRARY.glob("predictor/*.c"), *LIBRARY.glob("io/*.c")):
        nm = ["nm", built / "obj" / f"{module.stem}.o"]
        listed = subprocess.run(nm, check=True, capture_output=True, text=True).stdout
        defined |= dict.fromkeys(re.findall(r" [TDBR] (\w+)$", listed, re.M), module.stem)
        used[module.stem] = set(re.findall(r" U (\w+)$", listed, re.M))
    calls = {
        module: {defined[name] for name in names if name in defined}
        for module, names in used.items()
    }
    assert {"array", "queue", "read", "uring", "choose"} <= set(calls)
    TopologicalSorter(calls).prepare()
    of_io = {path.stem for path in (LIBRARY / "io").glob("*.c")}
    for path in (LIBRARY / "predictor").glob("*.c"):
        assert not calls[path.stem] & of_io


PROGRAM = """
#include <liblinnos.h>
#include <stdio.h>
int main(void)
{
	const char *paths[] = {"/nowhere"};
	struct linnos_options options = LINNOS_OPTIONS_INIT;
	struct linnos_array *array;
	int error = linnos_array_open(&array, 1, paths, 0, &options);

	printf("%d %s\\n", error, linnos_error());
	return linnos_array_close(array);
}
"""


@pytest.mark.parametrize("how", ["shared", "static"])
def test_program_builds_with_installed_files(tmp_path: Path, how: str) -> None:
    root = tmp_path / "opt"
    BUILDS.make("install", f"PREFIX={root}")
    (tmp_path / "p.c").write_text(PROGRAM)
    static = ["-luring", "-lm", "-pthread"] if how == "static" else None
    built_as_installed(tmp_path / "p.c", root, "liblinnos", static)
    ran = subprocess.run(
        [tmp_path / "p"], env={"LD_LIBRARY_PATH": f"{root}/lib"}, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == (0, "-2 replica /nowhere: No such file or directory\n")
    (tmp_path / "p").unlink()
    (tmp_path / "p.c").unlink()
    installed = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert installed == {
        "include/liblinnos.h", "include/linnos_choose.h",
        "lib/liblinnos.a", "lib/liblinnos.so", "lib/liblinnos.so.1",
        f"lib/liblinnos.so.{__version__}", "lib/pkgconfig/liblinnos.pc",
        *(f"share/man/man3/{page.name}" for page in PAGES),
    }  # fmt: skip
    BUILDS.make("uninstall", f"PREFIX={root}")
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir()]


#: Around the loop of linnos_queue_prep_read(3): far more reads at once than the ring has entries,
#: each of which is hedged, and one replica that ends early.
AROUND_LOOP = """
#include <liblinnos.h>
#include <liburing.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define AT_ONCE 32
#define READS 4000
static void finished(void *user, ssize_t result);
LOOP
static struct linnos_array *array;
static struct linnos_queue *queue;
static struct io_uring ring;
static char bufs[AT_ONCE][4096];
static unsigned int begun, done;

static void begin(char *buf)
{
	struct iovec iov = {.iov_base = buf, .iov_len = 4096};
	off_t offset = 4096 * (begun++ % 64);

	memset(buf, 0, 4096);
	if (linnos_queue_prep_read(queue, get_sqe(&ring), &iov, 1, offset, NULL, buf))
		exit(2);
}

static void finished(void *user, ssize_t result)
{
	if (result != 4096 || memchr(user, 0, 4096))
		exit(3);
	if (++done == READS) {
		struct linnos_stats s;

		linnos_array_get_stats(array, &s, sizeof(s));
		printf("%llu hedges, %llu failovers\\n", (unsigned long long)s.hedges,
			(unsigned long long)s.failovers);
		exit(0);
	}
	if (begun < READS)
		begin(user);
}

int main(int argc, char **argv)
{
	struct linnos_options o = LINNOS_OPTIONS_INIT;
	struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE, .cq_entries = 4 * AT_ONCE};

	o.hedge_us = 1;
	o.max_duplicates = 90;
	if (linnos_array_open(&array, argc - 1, (const char **)argv + 1, NULL, &o) ||
		linnos_queue_create(&queue, array, NULL) ||
		io_uring_queue_init_params(4, &ring, &p))
		return 1;
	for (unsigned int i = 0; i < AT_ONCE; i++)
		begin(bufs[i]);
	serve(queue, &ring);
}
"""


def test_man_page_loop_works_with_a_full_ring(built: Path, tmp_path: Path) -> None:
    page = (LIBRARY.parent / "docs" / "linnos_queue_prep_read.3").read_text()
    example = page[page.index(".SH EXAMPLES") :]
    (loop,) = re.findall(r"^\.nf\n(.*?)^\.fi$", example, re.M | re.S)
    (tmp_path / "p.c").write_text(AROUND_LOOP.replace("LOOP", loop.replace("\\-", "-"), 1))
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-Wall", "-Werror", "-g", f"-I{LIBRARY}/include", "-o",
         tmp_path / "p", tmp_path / "p.c", built / "liblinnos.a", "-luring", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip
    replicas = [tmp_path / f"r{k}" for k in range(3)]
    for replica in replicas:
        replica.write_bytes(b"x" * (64 * 4096))
    os.truncate(replicas[1], 32 * 4096)
    ran = subprocess.run(
        [tmp_path / "p", *replicas], capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, (ran.returncode, ran.stderr)
    hedges, failovers = map(int, re.findall(r"\d+", ran.stdout))
    assert hedges > 100 and failovers > 0


def test_core_alone_works_as_its_page_says(built: Path, tmp_path: Path) -> None:
    page = (LIBRARY.parent / "docs" / "liblinnos.md").read_text()
    (said,) = re.findall(r"^    (\d+ hedged, \d+ slow)$", page, re.M)
    program = LIBRARY / "examples" / "choose.c"
    subprocess.run(
        ["gcc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{LIBRARY}/include",
         "-o", tmp_path / "p", program, built / "liblinnos.a", "-luring", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip
    ran = subprocess.run([tmp_path / "p"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, f"{said}\n")
