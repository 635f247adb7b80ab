# SPDX-License-Identifier: MIT
"""linnos-agent on Debian's own kernels without linnos.ko: it watches the drives by BPF."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from debian import DEBIAN, debian_kernel

from linnapp.lab.guest import REPOSITORY

AGENT = REPOSITORY / "build" / "agent" / "linnos-agent"
MODEL = REPOSITORY / "models" / "example" / "latency" / "flash0.linnos"
#: linnos-agent(8): the format of an answer, and bits of its state.
GONE, LATENCY, NO_KERNEL = 3, 5, 65535
STALE, PENDING_KNOWN, PENDING_PAGES = 2, 256, 512

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(not AGENT.exists(), reason="no linnos-agent: `make agent`"),
]

#: Query a drive N times; print [known, state, latency_us, pending] of each answer.
ASK = """
import json, socket, struct, sys, time
drive, times = int(sys.argv[1]), int(sys.argv[2])
mine = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
mine.bind("")
told = []
for cookie in range(times):
    question = struct.pack("<4sBBHQH6xII32x", b"LNAG", 1, 1, 1, cookie, drive, 4096, 0)
    mine.sendto(question, "/run/agent")
    answer = struct.unpack("<4sBBHQHHHHIII4xQQ8x", mine.recv(200))
    told.append([answer[7], answer[8], answer[10], answer[11]])
    time.sleep(0.02)
print(json.dumps(told))
"""

SCRIPT = """
. $TESTS/lib.sh
busy() {{ read reads writes </sys/block/nvme0n1/inflight && [ $((reads + writes)) -gt 16 ]; }}
ask() {{ python3 -S -E $OUT/ask.py $1 $2 >$OUT/$3; }}
{agent} --config $OUT/agent.conf 2>$OUT/said &
agent=$!
wait_for [ -S /run/agent ]
ask 0 1 new
ask 1 1 without
dd if=/dev/nvme0n1 of=/dev/null bs=4k count=50 iflag=direct 2>/dev/null
ask 0 1 calm
for scheduler in none mq-deadline; do
    echo $scheduler >/sys/block/nvme0n1/queue/scheduler
    fio --name=load --filename=/dev/nvme0n1 --allow_file_create=0 --rw=randrw --bs=256k \\
        --direct=1 --ioengine=libaio --iodepth=64 --time_based --runtime=600 >/dev/null &
    fio=$!
    wait_for busy
    ask 0 40 busy-$scheduler
    kill -INT $fio
    wait $fio || true
    # ends that were missed are found out
    ask 0 40 idle-$scheduler
done
echo 1 >$(readlink -f /sys/block/nvme0n1/device/device)/remove
ask 0 1 gone
echo 1 >/sys/bus/pci/rescan
wait_for [ -b /dev/nvme0n1 ]
sleep 1.1
ask 0 1 back
dd if=/dev/nvme0n1 of=/dev/null bs=4k count=50 iflag=direct 2>/dev/null
ask 0 1 calm-again
grep -E 'CapEff|VmHWM' /proc/$agent/status >$OUT/status
kill $agent
wait $agent
"""


@pytest.mark.parametrize("name", DEBIAN)
def test_predictions_follow_the_load(name: str, tmp_path: Path) -> None:
    kernel = debian_kernel(name, ours=False)
    (tmp_path / "ask.py").write_text(ASK)
    (tmp_path / "agent.conf").write_text(
        f"drive /dev/nvme0n1 {MODEL}\ndrive /dev/nvme1n1\nsocket /run/agent\n"
    )
    kernel.boot(SCRIPT.format(agent=AGENT), tmp_path)

    def told(place: str) -> list[list[int]]:
        answers: list[list[int]] = json.loads((tmp_path / place).read_text())
        return answers

    said = (tmp_path / "said").read_text()
    assert said.startswith("linnos-agent: answered "), said
    # a drive without a configured model is unchanged
    assert told("without") == [[NO_KERNEL, PENDING_KNOWN, 0, 0]]
    watched = PENDING_KNOWN | PENDING_PAGES
    for place in ("new", "back"):
        assert [told(place)[0][k] for k in (0, 1, 3)] == [LATENCY, watched | STALE, 0]
    for place in ("calm", "calm-again", "idle-none", "idle-mq-deadline"):
        known, state, calm_us, pending = told(place)[-1]
        assert (known, state & watched, pending) == (LATENCY, watched, 0)
    for scheduler in ("none", "mq-deadline"):
        busy = told(f"busy-{scheduler}")
        assert {known for known, *_ in busy} == {LATENCY}
        # 64 reads and writes of 64 pages at most, whether the drive has them or the scheduler; on
        # a busy machine not each time
        many = sorted(us for _, _, us, pending in busy if pending >= 8 * 64)
        assert many and many[len(many) // 2] > 4 * calm_us
        assert max(pending for *_, pending in busy) <= 64 * 64
    assert told("gone") == [[GONE, 0, 0, 0]]
    # the agent has dropped its capabilities
    assert "CapEff:\t0000000000000000" in (tmp_path / "status").read_text()
