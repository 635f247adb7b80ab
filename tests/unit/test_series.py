# SPDX-License-Identifier: MIT
"""kernel/series.sh exports a complete series, whose first patches do not need the later ones."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERIES = ROOT / "kernel" / "series.sh"
OWNER = "Jane Doe <jane@example.org>"
#: Only the patches from this number on may add these words.
FIRST = {
    "linnos": 2, "blk-linnos-array": 3, "BLKEXPECT\\b": 4, "LATCRIT": 5, "REVOKED": 6,
    "linnos_net": 7,
}  # fmt: skip


def export(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SERIES, *arguments],
        env={**os.environ, "BUILD": str(out)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def patches(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the patches for 6.12, without the cover letter."""
    out = tmp_path_factory.mktemp("series")
    result = export(out, "6.12", "--sign-off", OWNER)
    assert result.returncode == 0, result.stderr
    return [path.read_text() for path in sorted(out.glob("series/6.12/000[1-9]-*.patch"))]


@pytest.mark.long
def test_series_adds_every_file(patches: list[str]) -> None:
    added = set(re.findall(r"^--- /dev/null\n\+\+\+ b/(.*)$", "".join(patches), re.MULTILINE))
    linnos, core = ROOT / "kernel" / "linnos", ROOT / "core"
    assert {f"block/linnos/{path.name}" for path in linnos.iterdir() if path.is_file()} <= added
    assert {f"block/linnos/core/{path.name}" for path in core.glob("*.[ch]")} <= added
    for headers in (linnos / "include", core / "uapi"):
        prefix = "include/uapi/" if headers.name == "uapi" else "include/"
        found = {prefix + str(path.relative_to(headers)) for path in headers.rglob("*.h")}
        assert found and found <= added
    assert "Documentation/ABI/testing/sysfs-block-linnos" in added


@pytest.mark.long
@pytest.mark.parametrize(("name", "first"), FIRST.items())
def test_series_adds_nothing_for_later_patches(patches: list[str], name: str, first: int) -> None:
    # the ABI document and the statistics, which both kinds of read share, are added as a whole
    allowed = re.compile(r"LINNOS_STAT_\w+|LINNOS_MODEL_\w+|EOPNOTSUPP")
    for patch in patches[: first - 1]:
        for part in patch.split("\ndiff --git ")[1:]:
            if part.startswith("a/Documentation/"):
                continue
            lines = [allowed.sub("", line) for line in part.splitlines() if line[:1] == "+"]
            assert not [line for line in lines if re.search(name, line)]
    assert re.search(rf"^\+.*{name}", patches[first - 1], re.MULTILINE)


@pytest.mark.long
def test_series_has_no_code_for_programs_or_the_module(patches: list[str]) -> None:
    assert not re.search(
        r"^\+#\s*(if|ifdef|ifndef|elif).*\b(__KERNEL__|MODULE)\b", "".join(patches), re.MULTILINE
    )


@pytest.mark.long
def test_series_is_signed_off_by_the_owner(patches: list[str]) -> None:
    assert len(patches) == 8
    for patch in patches:
        assert f"\nFrom: {OWNER}\n" in patch
        assert f"\nSigned-off-by: {OWNER}\n" in patch
    assert f"\n+M:\t{OWNER}\n" in patches[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["5.10"], "no series for Linux 5.10, only for 6.12 7.3"),
        (["6.12", "--sign-off", "Jane"], '"Jane" is not a name and an address'),
        (["6.12", "--sources", "/nonexistent"], "no /nonexistent/linux-source-6.12.tar.xz"),
    ],
)
def test_series_rejects_bad_arguments(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = export(tmp_path, *arguments)
    assert result.returncode == 1
    assert message in result.stderr
