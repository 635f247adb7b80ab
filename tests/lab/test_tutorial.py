# SPDX-License-Identifier: MIT
"""The commands of docs/tutorial.md run and print the output that it shows.

``LINNOS_TUTORIAL=1`` writes the output into the page instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
#: A block of commands, and the output shown below it, if any.
STEP = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
END_OF_STEP = "-- end of step --"
NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+")


def steps() -> list[tuple[str, str]]:
    """Return commands and their documented output."""
    return [(step[1], step[2] or "") for step in STEP.finditer(PAGE.read_text())]


def printed(commands: list[str]) -> list[str]:
    """Return the output of each block; all run in one shell."""
    shutil.rmtree(ROOT / "out" / "tutorial", ignore_errors=True)
    script = "set -e\n" + "".join(f"{each}echo '{END_OF_STEP}'\n" for each in commands)
    result = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT, check=False, capture_output=True, text=True,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
    )  # fmt: skip
    outputs = result.stdout.split(f"{END_OF_STEP}\n")
    assert result.returncode == 0 and len(outputs) == len(commands) + 1, (
        result.stdout + result.stderr
    )
    return [
        "".join(f"{line.rstrip()}\n" for line in output.splitlines()) for output in outputs[:-1]
    ]


def words(text: str) -> list[str]:
    """Return the text without numbers and drawings, because the layout is not compared."""
    return NUMBER.sub("N", re.sub(r"[▁-█]", " ", text)).split()


def near(shown: str, found: str) -> bool:
    """Return true within the effects of rounding on other CPUs; a burst is a factor of ten."""
    a, b = (abs(float(number.replace(",", ""))) for number in (shown, found))
    return abs(a - b) <= 0.5 * max(a, b) or max(a, b) < 20


@pytest.mark.lab
def test_tutorial_commands_print_what_the_page_shows() -> None:
    found = printed([commands for commands, _ in steps()])
    if os.environ.get("LINNOS_TUTORIAL"):
        blocks = iter(found)

        def with_output(step: re.Match[str]) -> str:
            output = next(blocks)
            return f"```sh\n{step[1]}```\n" + (f"\n```text\n{output}```\n" if output else "")

        PAGE.write_text(STEP.sub(with_output, PAGE.read_text()))
        return
    for (commands, shown), now in zip(steps(), found, strict=True):
        assert words(now) == words(shown), commands
        far = [
            (a, b)
            for a, b in zip(NUMBER.findall(shown), NUMBER.findall(now), strict=True)
            if not near(a, b)
        ]
        # The few reads of a tail vary by chance.
        assert len(far) <= 3, (commands, far)
