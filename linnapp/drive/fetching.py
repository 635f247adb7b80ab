# SPDX-License-Identifier: MIT
"""Fetch models that were trained elsewhere and give them to this machine's drives.

A store is the output of `linnapp fleet` and `linnapp train`: for each drive a model and a record.
The record is written last and holds the model's id. A drive that already has the model with that
id is not changed. A fetched model must pass all checks of the kernel and match its record. It is
stored on this machine and entered in ``drives.conf``, so that it can be restored after a reboot,
when the store may be unreachable.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from linnapp.drive import state
from linnapp.drive.deployment import replace_model
from linnapp.drive.drives_conf import DriveEntry, DrivesConf, load_conf, save_conf
from linnapp.drive.journal import Log
from linnapp.drive.stable_ids import identity_of, name_to_keep
from linnapp.drive.sysfs import Drive, observed
from linnapp.drive.units import enable_unit
from linnapp.errors import LinnappError, ModelError
from linnapp.files import AnyPath, replace_text
from linnapp.model import LATENCY_SUFFIX, SUFFIX, LatencyModel, Model, load_model, model_from_bytes

#: Limit that no model or record reaches.
_MAX_BYTES = 64 << 20
_TIMEOUT_S = 30.0


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects from https to an address without TLS."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.startswith("https://"):
            raise LinnappError(f"{req.full_url}: leads to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_HttpsRedirects)


class ModelStore:
    """The models in a directory or at an address that begins with http:// or https://."""

    def __init__(self, where: str) -> None:
        self.where = where.rstrip("/") or "/"
        scheme = where.partition("://")[0].lower() if "://" in where else None
        if scheme not in (None, "http", "https"):
            raise LinnappError(f"{where}: expected a directory, or http:// or https://")
        self._is_remote = scheme is not None

    def read(self, name: str) -> bytes:
        """Read a file of the store; `name` may be a path with folders."""
        parts = name.split("/")
        if not all(parts) or ".." in parts:
            raise LinnappError(f"{name!r}: not the name of a model, such as array7/nvme0n1")
        path = f"{self.where}/{name}"
        try:
            with self._open(name) as stream:
                data: bytes = stream.read(_MAX_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise LinnappError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        if len(data) > _MAX_BYTES:
            raise LinnappError(f"{path}: larger than any model, which has {_MAX_BYTES} bytes")
        return data

    def _open(self, name: str) -> Any:
        if self._is_remote:
            return _OPENER.open(f"{self.where}/{urllib.parse.quote(name)}", timeout=_TIMEOUT_S)
        return Path(self.where, name).open("rb")

    def preferred(self, name: str) -> str:
        """Return the name of a drive's latency model, or `name` if the store has none for it.

        If a server does not answer, the latency model is preferred, because the server may have
        one.
        """
        latency = name + LATENCY_SUFFIX.removesuffix(SUFFIX)
        try:
            self._open(f"{latency}.json").close()
        except (FileNotFoundError, NotADirectoryError):
            return name
        except (OSError, http.client.HTTPException, ValueError) as error:
            if 400 <= getattr(error, "code", 0) < 500:
                return name
        return latency

    def record(self, name: str) -> tuple[str, str]:
        """Return the id of a drive's model and the text of its record."""
        try:
            text = self.read(f"{name}.json").decode()
            found = json.loads(text)["model_id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        if not isinstance(found, str) or not re.fullmatch("[0-9a-f]{8}", found):
            raise LinnappError(f"{self.where}/{name}.json: not a record, which has a model_id")
        return found, text

    def model(self, name: str, model_id: str) -> Model | LatencyModel:
        """Return the model of a drive, which must have this id."""
        path = f"{self.where}/{name}{SUFFIX}"
        model = model_from_bytes(self.read(f"{name}{SUFFIX}"), path)
        if model.model_id != model_id:
            raise ModelError(
                f"{path}: model {model.model_id}, its record is of {model_id}: it is being "
                "trained again, or half copied; fetch it again when that is done"
            )
        return model


def fetch(
    store: ModelStore,
    wanted: Mapping[str, str | None],
    conf_path: AnyPath,
    *,
    mode: str | None = None,
    log: Log = print,
) -> list[str]:
    """Give drives their models from a store, each independently, and return the errors.

    `wanted` maps each device to its name in the store without a suffix, ``array7/nvme0n1``; None
    stands for the device's own name. Unless `mode` is given, the mode is the one in drives.conf, or
    else does not change. A file that is not a model, or a model that the kernel refuses, changes
    nothing.
    """
    failures = []
    with state.alone():
        conf = load_conf(conf_path)
        was_empty = conf.is_empty
        for device, name in wanted.items():
            try:
                drive = observed(device)
                conf = conf.updated(_fetch(store, name or drive.name, drive, conf, mode, log))
                save_conf(conf_path, conf)
            except LinnappError as error:
                failures.append(f"{device}: {error}")
        if was_empty and not conf.is_empty:
            enable_unit(conf_path, log)
    return failures


def _fetch(
    store: ModelStore, name: str, drive: Drive, conf: DrivesConf, mode: str | None, log: Log
) -> DrivesConf:
    """Give a drive its model and return its entry in drives.conf."""
    keep = name_to_keep(drive.name)
    path = state.drive_directory(drive.name) / f"fetched{SUFFIX}"
    name = store.preferred(name)
    model_id, record = store.record(name)
    model = None
    with contextlib.suppress(ModelError):  # No model was fetched before.
        model = load_model(path)
    if model is None or model.model_id != model_id:
        model = store.model(name, model_id)
    previous_id = drive.model_id
    if previous_id != model_id:
        replace_model(drive, model, log)
    model.save(path)
    # `linnapp keep` reads it.
    replace_text(path.with_suffix(".json"), record)
    entry = conf.drives.get(keep, DriveEntry(drive.mode))
    known = identity_of(drive.name)
    entry = dataclasses.replace(entry, model=path, mode=mode or entry.mode, identity=known)
    drive.set(entry.mode)
    had = "has it already" if previous_id == model_id else f"it had {previous_id or 'none'}"
    log(f"{drive.name}: model {model_id} ({store.where}/{name}), mode {entry.mode}; {had}")
    return DrivesConf({keep: entry})
