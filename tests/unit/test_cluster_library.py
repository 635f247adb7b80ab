# SPDX-License-Identifier: MIT
"""liblinnos-cluster: what it calls, its installation, and the programs of its pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from c_library import CLibrary, built_as_installed, names

from linnapp import __version__

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "cluster" / "client"
BUILT = ROOT / "build" / "cluster"
HEADER = SOURCE / "linnos_cluster.h"
BUILDS = CLibrary(SOURCE, BUILT)


@pytest.fixture(scope="module")
def built() -> Path:
    BUILDS.make("all")
    return BUILT


def test_library_neither_prints_nor_does_io_nor_reads_the_clock(built: Path) -> None:
    assert names(BUILDS.symbols("liblinnos-cluster.a", "-u"), r" U (\w+)") <= {
        *(f"crypto_auth_hmacsha256_{step}" for step in ("init", "update", "final")),
        *("sodium_memcmp", "sodium_is_zero"),
        *("calloc", "free", "memcpy", "memset", "memcmp", "vsnprintf", "__vsnprintf_chk"),
        *("exp2", "log2", "fmin", "fmax", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"),
        *(f"pthread_mutex_{verb}" for verb in ("init", "destroy", "lock", "unlock")),
        *("__tls_get_addr", "getrandom", "__errno_location", "strerror"),
    }


@pytest.mark.parametrize("how", ["shared", "static"])
def test_example_program_builds_with_installed_files_and_runs(tmp_path: Path, how: str) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text()
    (said,) = re.findall(r"^    (\d+ slow, \d+ redirected, \d+ copies)$", page, re.M)
    root = tmp_path / "opt"
    BUILDS.make("install", f"PREFIX={root}")
    program = ROOT / "cluster" / "client" / "examples" / "choose.c"
    static = ["-lsodium", "-lm", "-pthread"] if how == "static" else None
    shutil.copy(program, tmp_path / "p.c")
    built_as_installed(tmp_path / "p.c", root, "liblinnos-cluster", static)
    ran = subprocess.run(
        [tmp_path / "p"], env={"LD_LIBRARY_PATH": f"{root}/lib"}, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == (0, f"{said}\n")
    installed = {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}
    assert installed == {
        "include/linnos_cluster.h", "include/linnos_choose.h",
        *(f"lib/liblinnos-cluster{end}" for end in (".a", ".so", ".so.1", f".so.{__version__}")),
        "lib/pkgconfig/liblinnos-cluster.pc", "share/man/man3/linnos_cluster.3",
    }  # fmt: skip
    BUILDS.make("uninstall", f"PREFIX={root}")
    left = {path.name for path in root.rglob("*") if not path.is_dir()}
    assert left == {"linnos_choose.h"}


#: Around the man page's example: a node that fails, and one read of each outcome.
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
    BUILDS.make("install", f"PREFIX={root}")
    (tmp_path / "p.c").write_text(FAILING_OVER.replace("EXAMPLE", example))
    program = built_as_installed(
        tmp_path / "p.c", root, "liblinnos-cluster", ["-lsodium", "-lm", "-pthread"]
    )
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    # answered by the one that is whole; by none, though all were asked; too many candidates
    assert said == f"0 {1 << 5}, 1 {1 << 7 | 1 << 3 | 1 << 5}, -1, 1\n"


def test_program_can_use_both_libraries(built: Path, tmp_path: Path) -> None:
    CLibrary(ROOT / "liblinnos", ROOT / "build" / "liblinnos").make("all")
    (tmp_path / "p.c").write_text(
        "#include <liblinnos.h>\n#include <linnos_cluster.h>\n#include <stdio.h>\n"
        "int main(void)\n{\n\tstruct linnos_cluster *c;\n\tstruct linnos_predictor *k;\n"
        "\tlinnos_cluster_create(&c, 0, 0);\n\tlinnos_predictor_create(&k, 0, 0, 0);\n"
        '\tprintf("%s|%s", linnos_cluster_error(), linnos_error());\n\treturn 0;\n}\n'
    )
    subprocess.run(
        ["gcc", f"-I{ROOT / 'liblinnos/include'}", f"-I{SOURCE}", "-o", tmp_path / "p",
         tmp_path / "p.c", built / "liblinnos-cluster.a",
         ROOT / "build" / "liblinnos" / "liblinnos.a", "-luring", "-lsodium", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip
    said = subprocess.run([tmp_path / "p"], capture_output=True, text=True, check=True).stdout
    cluster, replicas = said.split("|")
    assert cluster.startswith("n_nodes is 0") and replicas and "nodes" not in replicas
