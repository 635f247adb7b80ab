# SPDX-License-Identifier: MIT
"""functions.py OUT PROGRAM DRIVE FILE_SYSTEM BYTES:CALLS...: trace functions of reads and writes.

The file is on a new file system; OUT gets a line of JSON for each size, operation and state.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from linnapp.insight.function_recording import FunctionRecording, prepared

FOLDER = Path("/run/mnt")


def trace(
    recording: FunctionRecording, program: str, operation: str, state: str, size: str, calls: str
) -> dict[str, Any]:
    """Run the program once, traced."""
    subprocess.run(["sync"], check=True)
    times, status = recording.record([program, operation, str(FOLDER / "file"), size, calls])
    found = [call for call in times.calls if call.name == operation]
    if status or times.missed or len(found) != 1:
        raise SystemExit(f"{operation} {size}: status {status}, {times.missed} times events lost")
    return {
        "operation": operation,
        "allocated": state == "allocated",
        "bytes": int(size),
        **found[0].to_json(recording.overhead),
        "overhead_ns": recording.overhead.function_ns,
    }


def main() -> None:
    out, program, drive, system, *sizes = sys.argv[1:]
    subprocess.run([f"mkfs.{system}", "-q", drive], check=True)
    subprocess.run(["mount", drive, str(FOLDER)], check=True)
    file = FOLDER / "file"
    found = []
    with prepared() as recording:
        # The first accesses to a file system are not what is measured.
        for operation in ("write", "read"):
            recording.record([program, operation, str(FOLDER / "other"), "4096", "8"])
        for each in sizes:
            size, calls = each.split(":")
            file.unlink(missing_ok=True)
            found.append(trace(recording, program, "write", "new", size, calls))
            found.append(trace(recording, program, "write", "allocated", size, calls))
            found.append(trace(recording, program, "read", "allocated", size, calls))
            file.unlink()
            with file.open("wb") as hole:
                hole.truncate(int(size) * int(calls))
            found.append(trace(recording, program, "read", "new", size, calls))
    Path(out).write_text("".join(json.dumps(each) + "\n" for each in found))


if __name__ == "__main__":
    main()
