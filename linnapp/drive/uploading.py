# SPDX-License-Identifier: MIT
"""Give a drive its model and keep the previous one, so that the upload can be undone."""

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
    """Upload a model atomically, check that the kernel has it, then set the mode.

    Parameters
    ----------
    model : Model or LatencyModel
        Or a fitted predictor, see :mod:`linnapp.learn.fitted`.
    device : path
        ``/dev/nvme0n1``, the disk's bare name, or a partition, which stands for its disk.
    mode : {"off", "observe", "enforce"}, optional
        Does not change unless given.
    warn : callable
        Called when the previous model cannot be kept for ``linnapp upload --previous``.

    Raises
    ------
    DeviceError
        If there is no such disk, its kernel lacks LinnOS, or it cannot be written.
    ModelError
        If the kernel does not support or refuses the model; the old one is then still active.
    ValueError
        If the mode is unknown.
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
    """Upload a model and keep the previous one; raises the errors of :func:`upload`.

    `warn` is called when the previous model cannot be kept.
    """
    active = drive.read_model()
    drive.upload(model)
    md.restart_guards(drive.name)
    if active is not None and active != model.to_bytes():
        try:
            state.save_previous_model(drive.name, active)
        except LinnappError as error:
            warn(f"`linnapp upload --previous` will not work: {error}")
    # If the time cannot be saved, the model's age is shown as unknown.
    with contextlib.suppress(LinnappError):
        state.save_upload(drive.name, model.model_id)
