# SPDX-License-Identifier: MIT
"""Run in the guest as ``cut_upload.py DISK FIRST SECOND``: an upload that loses its end.

The kernel cannot refuse a file that was cut off between two pages, because the rest may still be
written. The first model must stay active, ``linnapp`` must notice, and the kernel must say so when
the next file is begun.
"""

from __future__ import annotations

import sys
from pathlib import Path

from linnapp.drive.sysfs import Drive
from linnapp.errors import ModelError
from linnapp.model import Model

PAGE = 4096
disk, first_path, second_path = sys.argv[1:]
drive = Drive(disk)
first, second = (Model.from_bytes(Path(path).read_bytes()) for path in (first_path, second_path))
drive.upload(first)

whole = Model.to_bytes
for pages in range(1, 9):
    Model.to_bytes = lambda model, pages=pages: whole(model)[: pages * PAGE]  # type: ignore[method-assign]
    try:
        drive.upload(second)
        sys.exit(f"{pages} pages of a model were taken for all of it")
    except ModelError as error:
        print(f"{pages} pages: {error}")
    Model.to_bytes = whole  # type: ignore[method-assign]
    if drive.model_id != first.model_id or drive.read_model() != first.to_bytes():
        sys.exit(f"{pages} pages: the first model is not active any more")
drive.upload(second)
if drive.model_id != second.model_id:
    sys.exit("the second model is not active")
