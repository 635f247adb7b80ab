# SPDX-License-Identifier: MIT
"""A drive with two paths: its head accepts no hint; removing a path leaks no in-flight count."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_log import PANIC_WHEN_HUNG

pytestmark = pytest.mark.qemu

# Reads and checked writes of the head, which the paths' disks cut into parts, while one path after
# the other is removed and returns: I/O on a removed path is sent on the other path, and the parts
# of split I/O may use two paths.
SCRIPT = """
. $TESTS/lib.sh
enforce_on_paths() {{
    for path in $paths; do
        wait_for [ -e /sys/block/$path/linnos/mode ]
        enforce $path {model}
        echo 8 >/sys/block/$path/queue/max_sectors_kb
    done
}}

find_head
ls -d /sys/block/$head/linnos >$OUT/head 2>/dev/null || true
python3 - /dev/$head >$OUT/hinted <<'END'
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
try:
    os.preadv(fd, [mmap.mmap(-1, 4096)], 0, 0x8000)
except OSError as error:
    print(error.errno)
END
load /dev/$head --fill --count 1 >/dev/null
load /dev/$head --workers 6 --pages 16 --plain --seconds 600 \\
    --stop-file /run/stop >$OUT/reads &
readers=$!
verify_load /dev/$head
replace_paths 3 enforce_on_paths
enforce_on_paths
sleep 1
touch /run/stop
wait $readers
end_load
for path in $paths; do
    cat /sys/kernel/debug/block/$path/rqos/linnos/in_flight >>$OUT/in_flight
    cat /sys/block/$path/linnos/stats/revoked >>$OUT/revoked
done
"""


def test_paths_are_removed_and_return_under_load(boot_qemu, queue_model: Path) -> None:
    result = boot_qemu(
        SCRIPT.format(model=queue_model), n_drives=1, n_paths=2, kernel_args=PANIC_WHEN_HUNG
    )
    assert result.text("head") == "", "a head has no policy of its own"
    assert result.text("hinted") == "95\n", "EOPNOTSUPP"
    reads = result.json("reads")
    assert reads["admitted"] > 100
    assert reads["wrong_data"] == reads["errors"] == reads["gone"] == reads["revoked"] == 0
    assert set(result.words("revoked")) == {"0"}
    assert set(result.text("in_flight").splitlines()) == {"0 pages, 0 reads"}
