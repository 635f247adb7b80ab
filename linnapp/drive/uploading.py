# SPDX-License-Identifier: MIT
"""Gives a drive its model, and keeps the one before for the way back."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable

from linnapp.arguments import check_choice
from linnapp.drive import md, state
from linnapp.drive.sysfs import MODES, Drive
from linnapp.errors import LinnappError
from linnapp.files import AnyPath
from linnapp.model import LatencyModel, Model


def upload(
    model: Model | LatencyModel,
    device: AnyPath,
    *,
    mode: str | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> Drive:
    """Give a drive its model, atomically, check that the kernel has it, then switch the mode.

    Parameters
    ----------
    model : Model or LatencyModel
        Or what was fitted, see :mod:`linnapp.learn.fitted`.
    device : path
        ``/dev/nvme0n1``, a partition, whose disk is then meant, or the disk's bare name.
    mode : {"off", "observe", "enforce"}, optional
        Left as it is unless given.
    warn : callable
        Told when the model that was active cannot be kept for ``linnapp upload --previous``.

    Raises
    ------
    DeviceError
        If there is no such disk, its kernel lacks LinnOS, or it cannot be written.
    ModelError
        If the kernel does not run such a model, or refused it; the old one is then still active.
    ValueError
        If there is no such mode.
    """
    if mode is not None:
        check_choice("mode", mode, MODES)
    model = getattr(model, "model_", model)
    drive = Drive(os.fspath(device))
    replace_model(drive, model, warn)
    if mode is not None:
        drive.set_mode(mode)
    return drive


def replace_model(drive: Drive, model: Model | LatencyModel, warn: Callable[[str], None]) -> None:
    """Give a drive its model, and keep the one that was active; errors as :func:`upload` has them.

    `warn` is told when that cannot be kept.
    """
    active = drive.read_model()
    drive.upload(model)
    md.restart_guards(drive.name)
    if active is not None and active != model.to_bytes():
        try:
            state.save_previous_model(drive.name, active)
        except LinnappError as error:
            warn(f"`linnapp upload --previous` will not work: {error}")
    # Where nothing can be remembered, the model's age is shown as unknown.
    with contextlib.suppress(LinnappError):
        state.save_upload(drive.name, model.model_id)
