# SPDX-License-Identifier: MIT
"""A machine as Debian's installer leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from debian_machine import Machine
from walk import FOLDER


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    image = FOLDER / "debian.img"
    assert image.exists(), f"{image}: no disk; `make test-machine` makes it"
    machine = Machine(image, FOLDER / "key", tmp_path)
    try:
        yield machine
    finally:
        machine.stop()
