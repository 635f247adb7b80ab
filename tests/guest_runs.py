# SPDX-License-Identifier: MIT
"""Run a shell script in a guest, whatever its kernel, and read the files that it wrote."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linnapp.lab.guest import Guest, Result


@dataclass(frozen=True)
class GuestResult:
    """The result of a script in a guest; `out` is the folder that the script sees as ``$OUT``."""

    status: int
    stdout: str
    stderr: str
    dmesg: str
    out: Path

    def text(self, name: str) -> str:
        """Return the content of a file that the script wrote."""
        return (self.out / name).read_text()

    def words(self, name: str) -> list[str]:
        return self.text(name).split()

    def numbers(self, name: str) -> list[int]:
        return [int(word) for word in self.words(name)]

    def json(self, name: str) -> Any:
        return json.loads(self.text(name))

    def json_lines(self, name: str) -> list[Any]:
        return [json.loads(line) for line in self.text(name).splitlines()]


def run_script(
    run: Callable[..., Result], guest: Guest, script: str, out: Path, *, check: bool = True
) -> GuestResult:
    """Boot a guest with `run`, and run a script in it; the test fails if the script does."""
    stdout, stderr = io.BytesIO(), io.BytesIO()
    result = run(["sh", "-ec", script], guest, stdout=stdout, stderr=stderr)
    output, errors = (each.getvalue().decode(errors="replace") for each in (stdout, stderr))
    assert not (check and result.status), (
        f"status {result.status} of {shlex.quote(script)}\n{output}\n{errors}\n"
        + result.dmesg[-3000:]
    )
    return GuestResult(result.status, output, errors, result.dmesg, out)
