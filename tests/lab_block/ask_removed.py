# SPDX-License-Identifier: MIT
"""Run in the guest as ``ask_removed.py STAYS GOES``: query both until the second is removed.

The second stays open all the time, and is queried as the first and as the second drive.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ask import Drive, ask

stays, goes = (os.open(f"/dev/{name}", os.O_RDONLY) for name in sys.argv[1:])
path = Path("/sys/block", sys.argv[2])
while path.exists():
    ask([stays, goes])
    ask([goes, stays])
    time.sleep(0.0003)
for fds in ([stays, goes], [goes, stays]):
    answer = ask(fds)
    assert answer.drives[fds.index(goes)] == Drive("gone"), answer
    assert answer.best == {fds.index(stays)}, answer
