# SPDX-License-Identifier: MIT
"""`linnapp keep`, the watchdog, on the booted kernel: ten seconds here stand for ten minutes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from md_arrays import recent_model
from test_enable import UNIT, bounding_set

from linnapp.drive.drives_conf import DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.lab.array import Array

pytestmark = pytest.mark.lab

#: A network that predicts slow for every read, although training expected few. The kernel's own
#: probes of a refusing drive would correct this at once, so they are off at first.
REFUSED = """
export LINNAPP_STATE=$OUT/state LINNAPP_CONF=$OUT/drives.conf
linnos=/sys/block/flash0/linnos
cat $OUT/never.linnos >$linnos/model
for name in probe_after_us probe_after_revokes; do echo 0 >$linnos/$name; done
echo enforce >$linnos/mode
python3 {hinted} /dev/flash0 1000000 & load=$!
# with the capabilities of the unit
setpriv --bounding-set=-all,{capabilities} \\
    linnapp keep --window 10 --every 1 2>>$OUT/log & keep=$!
for _ in $(seq 120); do
    [ "$(cat $linnos/mode)" = observe ] && break
    sleep 0.5
done
cat $linnos/mode >$OUT/mode
linnapp status --json >$OUT/status
linnapp exporter --once >$OUT/metrics
kill $keep $load
wait $keep || echo $? >$OUT/ended
linnapp disable
ls $OUT/state/switched-back.json >$OUT/left 2>/dev/null || true
"""


def test_keeper_resets_a_drive_with_unexpected_refusals(boot, tmp_path: Path) -> None:
    model = recent_model()
    model.output_bias[1] = 10**9
    model.save(tmp_path / "never.linnos")
    test = {"true_fast": 950, "false_submit": 0, "true_slow": 50, "false_revoke": 0}
    record = {"model_id": model.model_id, "test": test}
    (tmp_path / "never.json").write_text(json.dumps(record))
    conf = tmp_path / "drives.conf"
    save_conf(conf, DrivesConf({"/dev/flash0": DriveEntry("enforce", tmp_path / "never.linnos")}))
    hinted = Path(__file__).with_name("hinted_reads.py")
    capabilities = bounding_set(UNIT.with_name("linnapp-keep.service"))
    text = boot(
        REFUSED.format(hinted=hinted, capabilities=capabilities),
        Array(n_drives=1, size_mb=64, precondition=False),
    ).text
    print(text("log"))
    assert text("mode") == "observe\n"
    assert "% of the hinted reads are refused (expected from training: 5%, the bound is 20%)" in (
        text("log")
    )
    assert "reset: flash0: " in text("log") and "for 10 seconds" in text("log")
    assert set(json.loads(text("status"))["switched_back"]) == {"flash0"}
    assert 'linnos_switched_back_timestamp_seconds{device="flash0"} ' in text("metrics")
    assert text("ended") == "143\n" and text("left") == ""
    assert not load_conf(conf).drives
