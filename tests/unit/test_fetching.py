# SPDX-License-Identifier: MIT
"""`linnapp fetch` from a directory and from servers, on plain files in place of sysfs."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_sysfs import FakeSysfs
from trees_by_hand import random_trees

from linnapp.drive.drives_conf import DriveEntry, load_conf
from linnapp.drive.fetching import ModelStore
from linnapp.errors import LinnappError
from linnapp.model import LatencyModel

Run = Callable[..., Any]


@pytest.fixture
def block(sysfs: FakeSysfs) -> Path:
    return sysfs.block


def put(store: Path, name: str, seed: int = 0) -> LatencyModel:
    """Put a model and its record into a store."""
    model = random_trees(seed)
    path = store / f"{name}.linnos"
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    path.with_suffix(".json").write_text(json.dumps({"model_id": model.model_id, "seed": seed}))
    return model


class Files(http.server.SimpleHTTPRequestHandler):
    """Serve a directory and remember requests; two paths get wrong answers on purpose."""

    asked: list[str] = []  # noqa: RUF012
    elsewhere = ""

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/models/cut.json":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"model_id"')
        elif self.path == "/models/moved.json":
            self.send_response(302)
            self.send_header("Location", self.elsewhere)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path, certificate: Path | None = None) -> Iterator[str]:
    """Yield the address of a server of a directory."""

    class OfFolder(Files):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words, directory=str(folder))

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OfFolder)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' * (certificate is not None)}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_drives_get_their_models_and_keep_them_without_the_store(
    tmp_path: Path, block: Path, run: Run
) -> None:
    store = tmp_path / "store"
    first, second = put(store, "host7/sda", 1), put(store, "other", 2)
    words = ("fetch", store, "sda=host7/sda", "sdb=other", "--mode", "observe")
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert f"sda: model {first.model_id} ({store}/host7/sda), mode observe" in result.output
    assert "linnapp restore --conf" in result.output
    for drive, model in (("sda", first), ("sdb", second)):
        assert (block / drive / "linnos" / "model_id").read_text().strip() == model.model_id
        assert (block / drive / "linnos" / "mode").read_text().strip() == "observe"
    stored = tmp_path / "state" / "sda" / "fetched.linnos"
    conf = load_conf(tmp_path / "etc" / "drives.conf")
    assert len(conf.drives) == 2
    assert conf.drives[str(tmp_path / "by-id" / "wwn-sda")] == DriveEntry("observe", stored)
    # `linnapp keep` reads it there.
    assert stored.with_suffix(".json").read_text() == (store / "host7/sda.json").read_text()

    # The record is enough if the model is stored already.
    (store / "host7/sda.linnos").unlink()
    (store / "other.linnos").unlink()
    result = run(*words)
    assert result.exit_code == 0 and result.output.count("has it already") == 2
    assert "restore" not in result.output
    for file in ("model_id", "mode"):
        (block / "sda" / "linnos" / file).write_text("none\n" if file == "model_id" else "off\n")
    result = run(*words)
    assert result.exit_code == 0 and "it had none" in result.output
    # The store is missing, as after a reboot.
    for file in store.rglob("*.json"):
        file.unlink()
    (block / "sda" / "linnos" / "model_id").write_text("none\n")
    assert run("restore").exit_code == 0
    assert (block / "sda" / "linnos" / "model_id").read_text().strip() == first.model_id
    assert run(*words).exit_code == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("model", "corrupt: checksum"),
        ("cut", "truncated or padded"),
        ("other", "it is being trained again, or half copied; fetch it again"),
        ("record", "not a record, which has a model_id"),
        ("id", "not a record, which has a model_id"),
        ("missing", "store/sda.json: No such file or directory"),
    ],
)
def test_fetch_changes_nothing_when_a_file_is_damaged(
    tmp_path: Path, block: Path, run: Run, damage: str, message: str
) -> None:
    store = tmp_path / "store"
    active, good = put(store, "sda", 1), put(store, "sdb", 3)
    assert run("fetch", store, "sda", "sdb").exit_code == 0
    conf = (tmp_path / "etc" / "drives.conf").read_text()
    put(store, "sda", 2)
    model, record = store / "sda.linnos", store / "sda.json"
    data = model.read_bytes()
    if damage == "model":
        model.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "cut":
        model.write_bytes(data[:-1])
    elif damage == "other":
        random_trees(9).save(model)
    elif damage == "missing":
        record.unlink()
    else:
        record.write_text("[1]" if damage == "record" else '{"model_id": "../../etc"}')
    result = run("fetch", store, "sda", "sdb")
    assert result.exit_code == 1 and message in result.output and "sda: " in result.output
    assert isinstance(result.exception, LinnappError) and "1 of 2 drives failed" in str(
        result.exception
    )
    assert f"sdb: model {good.model_id}" in result.output
    assert (block / "sda" / "linnos" / "model_id").read_text().strip() == active.model_id
    assert (tmp_path / "etc" / "drives.conf").read_text() == conf
    assert LatencyModel.load(tmp_path / "state" / "sda" / "fetched.linnos") == active


def test_latency_model_of_a_store_is_preferred_even_if_it_cannot_be_read(
    tmp_path: Path, block: Path, run: Run
) -> None:
    put(tmp_path, "sda", 1)
    latency = put(tmp_path, "sda.latency", 2)
    assert (
        f"model {latency.model_id} ({tmp_path}/sda.latency)" in run("fetch", tmp_path, "sda").output
    )
    (tmp_path / "sda.latency.json").unlink()
    (tmp_path / "sda.latency.json").mkdir()
    with pytest.raises(LinnappError, match="sda.latency.json: Is a directory"):
        store = ModelStore(str(tmp_path))
        store.record(store.preferred("sda"))


def test_models_come_from_a_server(tmp_path: Path, block: Path, run: Run) -> None:
    model = put(tmp_path / "www" / "models", "host 7/sda", 1)
    Files.asked.clear()
    with served(tmp_path / "www") as address:
        for _ in range(2):
            result = run("fetch", f"{address}/models/", "sda=host 7/sda", "--mode", "observe")
            assert result.exit_code == 0, result.output
        asked = [f"/models/host%207/sda.{end}" for end in ("json", "linnos", "json")]
        preferred = "/models/host%207/sda.latency.json"
        assert Files.asked == [preferred, *asked[:2], preferred, asked[2]]
        assert (block / "sda" / "linnos" / "model_id").read_text().strip() == model.model_id
        result = run("fetch", f"{address}/models", "sda", "sdb=cut", "nosuch=sda")
        assert result.exit_code == 1
        assert f"sda: {address}/models/sda.json: HTTP Error 404: File not found" in result.output
        assert f"sdb: {address}/models/cut.json: not a record" in result.output
        assert "nosuch: " in result.output
    result = run("fetch", f"{address}/models", "sda=host 7/sda")
    assert result.exit_code == 1 and "Connection refused" in result.output
    assert (block / "sda" / "linnos" / "model_id").read_text().strip() == model.model_id


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_https_store_refuses_a_redirect_to_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = tmp_path / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate, "-out",
         tmp_path / "own.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    certificate.write_text(certificate.read_text() + (tmp_path / "own.pem").read_text())
    model = put(tmp_path / "www" / "models", "sda", 1)
    with served(tmp_path / "www") as plain, served(tmp_path / "www", certificate) as safe:
        with pytest.raises(LinnappError, match="certificate verify failed"):
            ModelStore(f"{safe}/models").record("sda")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
        assert ModelStore(f"{safe}/models").record("sda")[0] == model.model_id
        for elsewhere, is_safe in ((plain, False), (safe, True)):
            monkeypatch.setattr(Files, "elsewhere", f"{elsewhere}/models/sda.json")
            if is_safe:
                assert ModelStore(f"{safe}/models").record("moved")[0] == model.model_id
                continue
            with pytest.raises(LinnappError, match=f"leads to {plain}.*, which is not https"):
                ModelStore(f"{safe}/models").record("moved")


def test_model_store_refuses_invalid_locations_and_names(tmp_path: Path) -> None:
    for where in ("ftp://host/x", "file:///etc"):
        with pytest.raises(LinnappError, match="expected a directory, or http:// or https://"):
            ModelStore(where)
    with pytest.raises(LinnappError, match=r"https://\[1/x/sda.json: Invalid IPv6 URL"):
        ModelStore("https://[1/x").record("sda")
    for name in ("../sda", "a/../../sda", "/etc/passwd", "", "a//b"):
        with pytest.raises(LinnappError, match="not the name of a model"):
            ModelStore(str(tmp_path)).read(name)
