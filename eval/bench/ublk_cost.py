# SPDX-License-Identifier: MIT
"""The cost of linnos-ublk compared with md raid1, each a mirror of three drives.

The instructions of the program, the kernel and the server are counted together. They do not
include the cache misses of switches between processes.
"""

from __future__ import annotations

import shlex

from eval.bench.instructions import Case, count
from eval.bench.kernel import latency_model
from eval.cache import ROOT

SERVER = ROOT / "build" / "ublk"
_DRIVES = " ".join(f"/dev/nullb{k}" for k in range(3))
_WITH_MODELS = " ".join(f'/dev/nullb{k}="$model"' for k in range(3))


def _served(name: str, options: str, drives: str) -> Case:
    # The guest cannot write to the host's folder.
    begin = (
        "mountpoint -q /var/lib || mount -t tmpfs none /var/lib\n"
        f"linnos-ublk --json --assume-clean {options} {drives} >/run/said & server=$!\n"
        'until grep -q ready /run/said; do kill -0 "$server"; sleep 0.01; done'
    )
    end = 'kill "$server"; wait "$server"; : >/run/said'
    return Case(name, begin, end, "/dev/ublkb0")


def ublk_cost() -> None:
    """Instructions of a read and a write through linnos-ublk and md raid1 on Debian's kernel."""
    cases = (
        Case("a drive, no mirror", f"model={shlex.quote(str(latency_model()))}"),
        Case(
            "md raid1",
            f"mdadm -q --build /dev/md0 --level=1 --raid-devices=3 --assume-clean {_DRIVES}",
            "mdadm -q --stop /dev/md0",
            "/dev/md0",
        ),
        _served("linnos-ublk, in turn", "--margin 100 --probe-after-ms 0", _DRIVES),
        _served("linnos-ublk, no models", "", _DRIVES),
        _served("linnos-ublk, models", "", _WITH_MODELS),
        _served("linnos-ublk, hedged", "--hedge-percentile 95", _WITH_MODELS),
    )
    count("ublk_cost", cases, 3, reference=1, modules=("ublk_drv", "raid1"), path=(SERVER,))
