# SPDX-License-Identifier: MIT
"""linnos-agent on drives of the lab's kernel: it reports what the kernel predicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from linnapp.lab.guest import REPOSITORY
from linnapp.model import LatencyModel

pytestmark = pytest.mark.lab

AGENT = REPOSITORY / "build" / "agent" / "linnos-agent"
MODELS = REPOSITORY / "models" / "example"
#: known, state: linnos-agent(8)
OFF, VERDICT, LATENCY = 1, 4, 5
PENDING_KNOWN, PENDING_PAGES = 256, 512

#: Queries each drive, by the agent and directly by the kernel's ioctl, without a pause.
ASK = """
import fcntl, json, os, socket, struct, sys
where = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
where.connect(("127.0.0.1", 7316))
BLKEXPECT = 3 << 30 | 16 << 16 | 0x12 << 8 | 160
answers = []
for k in range(3):
    where.send(struct.pack("<4sBBHQH6xII32x", b"LNAG", 1, 1, 3, k, k, 4096, 7))
    answer = struct.unpack("<4sBBHQHHHHIII4xQQ8x", where.recv(200))
    drive = os.open(f"/dev/flash{k}", os.O_RDONLY)
    asked = bytearray(struct.pack("<IIIIiIII", 3, 1, 4096, 0, drive, 0, 0, 7))
    fcntl.ioctl(drive, BLKEXPECT, asked)
    kernel = struct.unpack("<IIIIiIII", asked)
    answers.append({"known": answer[7], "state": answer[8], "latency_us": answer[10],
                 "pending": answer[11], "kernel": [kernel[5], kernel[6], kernel[7]]})
print(json.dumps(answers))
"""


def test_agent_reports_the_predictions_of_the_kernel(boot, tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(ASK)
    drives = "".join(f"drive /dev/flash{k}\n" for k in range(3))
    (tmp_path / "agent.conf").write_text(f"{drives}listen 127.0.0.1\nallow 127.0.0.1\n")
    latency = next((MODELS / "latency").glob("*.linnos"))
    assert LatencyModel.load(latency).n_trees >= 16
    result = boot(
        f'cd "$OUT"\n{AGENT} --config agent.conf 2>agent.log & agent=$!\nsleep 0.1\n'
        "python3 ask.py\n"
        f"linnapp upload --model {MODELS}/flash0.linnos --device /dev/flash0 --mode observe\n"
        f"linnapp upload --model {latency} --device /dev/flash1 --mode observe\n"
        "dd if=/dev/flash1 of=/dev/null bs=4k count=50 iflag=direct 2>/dev/null\n"
        "python3 ask.py\n"
        # eight megabytes are in flight during the query
        "dd if=/dev/flash1 of=/dev/null bs=8M count=1 iflag=direct 2>/dev/null & sleep 0.0005\n"
        "python3 ask.py\n"
        "kill $agent; wait $agent; echo $?\n"
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("[")]
    off, on, busy = (json.loads(line) for line in lines)
    assert [drive["known"] for drive in off] == [OFF] * 3
    assert [drive["known"] for drive in on] == [VERDICT, LATENCY, OFF]
    for answer in (*off, *on):
        # the kernel's bits of the state, and all other fields, are equal
        assert [answer["known"], answer["state"] & 255, answer["latency_us"]] == answer["kernel"]
        # LinnOS counts pages
        assert answer["state"] & ~255 == PENDING_KNOWN | (answer["known"] != OFF and PENDING_PAGES)
        assert answer["pending"] == 0
    assert on[1]["latency_us"] > 0
    assert busy[1]["pending"] > 100 and busy[1]["latency_us"] > on[1]["latency_us"]
    assert result.stdout.split()[-1] == "0"
    assert (
        "answered 9 queries; ignored 0 from other addresses" in (tmp_path / "agent.log").read_text()
    )
