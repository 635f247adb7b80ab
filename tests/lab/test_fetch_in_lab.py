# SPDX-License-Identifier: MIT
"""`linnapp fetch` brings models of a fleet from a server to the kernel."""

from __future__ import annotations

import lzma
import os
import subprocess
from pathlib import Path

import pytest

from linnapp.lab.array import Array
from linnapp.model import load_model

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "traces" / "recorded"

SCRIPT = """
export LINNAPP_STATE=$OUT/state LINNAPP_CONF=$OUT/etc/drives.conf
found() # NAME: what the drives have
{
    cat /sys/block/flash[01]/linnos/model_id /sys/block/flash[01]/linnos/mode >$OUT/found_$1
}
ip link set lo up
python3 -m http.server --bind 127.0.0.1 --directory $OUT/models 8000 2>$OUT/served &
server=$!
until python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8000))' 2>/dev/null; do
    sleep 0.1
done
wanted="/dev/flash0=host7/fio /dev/flash1=host7/pgbench"
linnapp fetch http://127.0.0.1:8000 $wanted --mode observe >$OUT/fetched
found fetched
linnapp fetch http://127.0.0.1:8000 $wanted >$OUT/again
kill $server
# One that is cut off leaves what there was.
! linnapp fetch $OUT/bad /dev/flash0=host7/fio 2>$OUT/refused || exit 1
found refused
linnapp restore >$OUT/restored
found restored
"""


@pytest.mark.lab
def test_models_of_a_fleet_reach_the_kernel(boot, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    traces = tmp_path / "traces" / "host7"
    traces.mkdir(parents=True)
    for name in ("fio", "pgbench"):
        packed = (RECORDED / f"{name}.blk.xz").read_bytes()
        (traces / f"{name}.blk").write_bytes(lzma.decompress(packed))
    # A second array, or host7 would be the whole fleet and have no name.
    (tmp_path / "traces" / "host8").mkdir()
    (tmp_path / "traces" / "host8" / "fio.blk").symlink_to(traces / "fio.blk")
    subprocess.run(
        ["linnapp", "fleet", tmp_path / "traces", "-o", tmp_path / "models", "--kind", "latency",
         "--workers", "1"],
        env={**os.environ, "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"}, check=True,
    )  # fmt: skip
    trained = tmp_path / "models" / "host7"
    models = [load_model(trained / f"{name}.linnos") for name in ("fio", "pgbench")]
    bad = tmp_path / "bad" / "host7"
    bad.mkdir(parents=True)
    (bad / "fio.json").write_bytes((trained / "pgbench.json").read_bytes())
    (bad / "fio.linnos").write_bytes((trained / "pgbench.linnos").read_bytes()[:-1])
    boot(SCRIPT, Array(precondition=False))
    found = [model.model_id for model in models] + ["observe"] * 2
    for step in ("fetched", "refused", "restored"):
        assert (tmp_path / f"found_{step}").read_text().split() == found
    assert "it had none" in (tmp_path / "fetched").read_text()
    assert (tmp_path / "again").read_text().count("has it already") == 2
    assert "truncated" in (tmp_path / "refused").read_text()
    # The record of a latency model, which is looked for first, is not there.
    served = (tmp_path / "served").read_text()
    assert served.count("GET /host7/") == 10 and served.count('.latency.json HTTP/1.1" 404') == 4
