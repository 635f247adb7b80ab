# SPDX-License-Identifier: MIT
"""liblinnos and liblinnos-cluster: what they call, and the programs of their pages."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from c_library import CLibrary, built_as_installed, names
from replaying import BUILT, LIBRARY

from linnapp import __version__

HEADERS = [LIBRARY / "include" / "linnos_choose.h", LIBRARY / "include" / "liblinnos.h"]
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
    losetup = subprocess.run(
        ["/sbin/losetup", "--find", "--show", "--sector-size", str(block_bytes), image],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if losetup.returncode:
        pytest.skip(f"no loop device with blocks of {block_bytes} bytes here: {losetup.stderr}")
    device = losetup.stdout.strip()
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


def test_library_has_no_state_except_error_texts_and_an_open_device(built: Path) -> None:
    """The texts are those of each thread. The pointers of `strings` are never written."""
    listed = BUILDS.symbols("liblinnos.a")
    # Compilers append suffixes to the names of static variables.
    found = re.findall(r" [bBdDcC] (\w+)(?:\.\w+)*$", listed, re.MULTILINE)
    assert {*found} == {"error_text", "device_fd", "strings"}


#: Surrounds the loop of linnos_queue_prep_read(3) with far more simultaneous reads than the ring
#: has entries. Each is hedged, and one replica is shorter than the others.
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
    result = subprocess.run(
        [tmp_path / "p", *replicas], capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, (result.returncode, result.stderr)
    hedges, failovers = map(int, re.findall(r"\d+", result.stdout))
    assert hedges > 100 and failovers > 0


ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "cluster" / "client"
CLUSTER = CLibrary(SOURCE, ROOT / "build" / "cluster")


def test_cluster_library_neither_prints_nor_does_io_nor_reads_the_clock() -> None:
    CLUSTER.make("all")
    assert names(CLUSTER.symbols("liblinnos-cluster.a", "-u"), r" U (\w+)") <= {
        *("crypto_generichash", "sodium_memcmp", "sodium_is_zero"),
        *("calloc", "free", "memcpy", "memset", "memcmp", "vsnprintf", "__vsnprintf_chk"),
        *("exp2", "log2", "fmin", "fmax", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"),
        *(f"pthread_mutex_{verb}" for verb in ("init", "destroy", "lock", "unlock")),
        *("__tls_get_addr", "getrandom", "__errno_location", "strerror"),
    }


#: Surrounds the man page's example with a node that fails and one read of each outcome.
FAILING_OVER = """
#include <linnos_cluster.h>
#include <stdio.h>
static struct linnos_cluster *cluster;
static uint32_t nodes[] = {7, 3, 5};
static unsigned int asked, broken;
static uint64_t now(void) { static uint64_t ns; return ns += 100000; }
static int read_from(uint32_t node) { asked |= 1u << node; return broken >> node & 1; }
static int example(uint64_t bytes, unsigned int n)
{
EXAMPLE
	return failed;
}
int main(void)
{
	struct linnos_cluster_options o = LINNOS_CLUSTER_OPTIONS_INIT;
	struct linnos_cluster_stats stats;

	if (linnos_cluster_create(&cluster, 8, &o))
		return 1;
	broken = 1u << 7 | 1u << 3;
	printf("%d ", example(4096, 3));
	printf("%u, ", asked & 1u << 5);
	broken |= 1u << 5;
	asked = 0;
	printf("%d ", example(4096, 3));
	printf("%u, %d", asked, example(4096, LINNOS_CLUSTER_CANDIDATES + 1));
	linnos_cluster_get_stats(cluster, &stats, sizeof(stats));
	printf(", %d\\n", stats.sent == stats.ended && stats.errors + 1 == stats.sent);
	linnos_cluster_free(cluster);
	return 0;
}
"""


def test_man_page_example_retries_until_a_node_answers(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "linnos_cluster.3").read_text().replace("\\-", "-")
    (example,) = re.findall(r"^\.EX\n(.*?)^\.EE$", page, re.M | re.S)
    root = tmp_path / "opt"
    CLUSTER.make("install", f"PREFIX={root}")
    (tmp_path / "p.c").write_text(FAILING_OVER.replace("EXAMPLE", example))
    program = built_as_installed(
        tmp_path / "p.c", root, "liblinnos-cluster", ["-lsodium", "-lm", "-pthread"]
    )
    stdout = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    # The intact replica answers; none of the queried ones answers; there are too many candidates.
    assert stdout == f"0 {1 << 5}, 1 {1 << 7 | 1 << 3 | 1 << 5}, -1, 1\n"


def test_program_can_use_both_libraries(built: Path, tmp_path: Path) -> None:
    CLUSTER.make("all")
    (tmp_path / "p.c").write_text(
        "#include <liblinnos.h>\n#include <linnos_cluster.h>\n#include <stdio.h>\n"
        "int main(void)\n{\n\tstruct linnos_cluster *c;\n\tstruct linnos_predictor *k;\n"
        "\tlinnos_cluster_create(&c, 0, 0);\n\tlinnos_predictor_create(&k, 0, 0, 0);\n"
        '\tprintf("%s|%s", linnos_cluster_error(), linnos_error());\n\treturn 0;\n}\n'
    )
    subprocess.run(
        ["gcc", f"-I{ROOT / 'liblinnos/include'}", f"-I{SOURCE}", "-o", tmp_path / "p",
         tmp_path / "p.c", CLUSTER.out / "liblinnos-cluster.a",
         built / "liblinnos.a", "-luring", "-lsodium", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip
    stdout = subprocess.run([tmp_path / "p"], capture_output=True, text=True, check=True).stdout
    cluster, replicas = stdout.split("|")
    assert cluster.startswith("n_nodes is 0") and replicas and "nodes" not in replicas
