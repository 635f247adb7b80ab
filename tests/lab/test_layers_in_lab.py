# SPDX-License-Identifier: MIT
"""`linnapp layers` names the layer of an injected delay and its length."""

from __future__ import annotations

from pathlib import Path

import pytest

from linnapp.insight.layers import LAYERS, Layers, layers_of

#: Depth of fio, and the drive's depth where that is limited.
DEPTH, TAGS = 16, 4
DELAY_US = 700


def means_us(found: Layers) -> dict[str, float]:
    return {layer: found.mean_us(layer) for layer in LAYERS}


def most_changed(before: Layers, after: Layers) -> str:
    return max(LAYERS, key=lambda layer: abs(after.mean_us(layer) - before.mean_us(layer)))


@pytest.mark.lab
def test_delays_are_found_where_they_were_put(boot, tmp_path: Path) -> None:
    fio = (
        "fio --name=x --filename=/dev/flash0 --rw=randread --bs=4k --direct=1 --ioengine=libaio"
        f" --iodepth={DEPTH} --number_ios=3000 --clocksource=clock_gettime --randseed=1"
        " --output-format=json --output=$OUT/"
    )
    queue = "/sys/block/flash0/queue"
    record = "linnapp trace /dev/flash0 -o $OUT/"
    boot(
        f"{record}plain -- {fio}plain.json\n"
        f"rule flash0 late op=read frequency=all fault=delay latency_us={DELAY_US}\n"
        f"{record}late -- {fio}late.json\n"
        # Few tags: an I/O without a tag waits for a request.
        f"echo {TAGS} >{queue}/nr_requests\n"
        f"{record}tags -- {fio}tags.json\n"
        # Equally few tags, and a scheduler with spare requests, in which I/Os wait.
        f"echo mq-deadline >{queue}/scheduler; echo {4 * DEPTH} >{queue}/nr_requests\n"
        f"{record}sched -- {fio}sched.json\n"
    )
    found = {
        name: layers_of(tmp_path / name / "flash0.blk")
        for name in ("plain", "late", "tags", "sched")
    }
    assert most_changed(found["plain"], found["late"]) == "drive"
    late_us = found["late"].mean_us("drive") - found["plain"].mean_us("drive")
    assert late_us == pytest.approx(DELAY_US, rel=0.05)
    # A closed loop: TAGS reads are at the drive, and the others wait. A thread without a tag waits
    # in io_submit(), so only one read waits there; in a scheduler all the others wait.
    for name, layer, waiting in (("tags", "request", 1), ("sched", "issue", DEPTH - TAGS)):
        means, total = means_us(found[name]), found[name].total.mean_us
        assert means[layer] / total == pytest.approx(waiting / (waiting + TAGS), rel=0.05)
        assert means["drive"] / total == pytest.approx(TAGS / (waiting + TAGS), rel=0.05)
        assert most_changed(found["late"], found[name]) == layer


@pytest.mark.lab
def test_the_drives_that_serve_a_command_are_found(boot) -> None:
    fio = (
        "fio --name=x --filename=/run/mnt/file --size=8m --direct=1 --clocksource=clock_gettime"
        " --randseed=1 --output=/dev/null --bs="
    )
    random = f"{fio}4k --number_ios=200 --rw=rand"
    result = boot(
        "mkfs.ext4 -q /dev/flash1; mount /dev/flash1 /run/mnt\n"
        f"{fio}64k --rw=write\n"
        f"linnapp layers --json -- {random}read >$OUT/reads.json\n"
        f"linnapp layers --json --writes -- {random}write >$OUT/writes.json\n"
        "linnapp layers -- cat /run/mnt/file >/dev/null\n"
        # Data in the page cache is not read from the drive.
        "status=0; linnapp layers -- cat /run/mnt/file 2>$OUT/cached >/dev/null || status=$?\n"
        "test $status = 1\n"
    )
    for kind in ("reads", "writes"):
        (found,) = result.json(f"{kind}.json")["recordings"]
        assert found["name"] == "flash1" and found["ios"] >= 200
    cached = result.text("cached")
    assert "none of /dev/flash0, /dev/flash1, /dev/flash2" in cached
    assert "drop_caches" in cached
