# SPDX-License-Identifier: MIT
"""Every command on invalid files, numbers and paths: an error, never a traceback."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from blktrace_builder import WRITE, Q, TraceBuilder
from test_model_format import random_model
from test_training import array_trace

from linnapp import cli
from linnapp.commands.check import UNKNOWN_STATUS
from linnapp.files import replaced_directory, replaced_file
from linnapp.trace import replay_log

Run = Callable[..., tuple[int, str]]

#: The name of each, as a user gives it.
FILES = {
    "empty.toml": b"",
    "junk.toml": np.random.default_rng(1).bytes(5000),
    "zeros.toml": bytes(5000),
    "text.toml": b"not what was asked for\n" * 10,
    "utf16.toml": "{}\n".encode("utf-16"),
    "log.toml": replay_log.MAGIC,
}
#: For `linnapp check` an empty recording is that of an idle drive.
WITHOUT_IO = {"empty.toml"}
HOSTILE = [*FILES, "folder.toml", "missing.toml", "missing/x.toml", "/dev/null", "x" * 300]

#: "@" is the hostile input; the others are valid.
READERS = [
    "inspect @",
    "inspect --from blktrace @",
    "inspect --from iolog @",
    "inspect --from msr --json @",
    "layers @",
    "layers --device @ -- true",
    "watch -o out -- @",
    "query @ 'select 1'",
    "convert @ out",
    "convert --from heimdall @ out",
    "generate @ -o out --duration 0.01",
    "label --trace @",
    "label --trace @ --trace good.blk",
    "train --trace @ -o out",
    "evaluate --model @ --trace good.blk",
    "evaluate --model good.linnos --trace @",
    "pack @ -o out",
    "predict --model @ --features good.npy",
    "predict --model good.linnos --features @",
    "upload --model @ --device sda",
    "upload --model good.linnos --device @",
    "status @",
    "top --once @",
    "exporter --once @",
    "dashboard @",
    "explain @",
    "explain --trace @ --model good.linnos",
    "explain --trace good.blk --model @",
    "trace @ -o out",
    "recalibrate @ --models out",
    "check @",
    "check --trace @ --trace good.blk",
    "enable @",
    "fetch @ sda",
    "disable @",
    "trial @",
    "restore --conf @",
    "keep --conf @",
    "fleet folder.toml -o out",
    "faults install @",
    "faults show @",
    "help @",
    "completion @",
]
WRITERS = [
    "convert good.blk @",
    "pack good.npz -o @",
    "generate demo --duration 0.01 -o @",
    "train --trace good.blk -o @",
    "trace /dev/null -o @",
    "check --trace good.blk --trace good.blk -o @",
    "dashboard kibana -o @",
    "fleet good.blk -o @",
    "watch -o @ -- true",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make hostile files, and a valid one of each kind."""
    path = tmp_path_factory.mktemp("hostile")
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    (path / "folder.toml").mkdir()
    (path / "sys" / "block" / "sda").mkdir(parents=True)
    array_trace(path / "good.blk", 1, 300)
    model = random_model()
    model.save(path / "good.linnos")
    np.save(path / "good.npy", np.zeros((3, 31), np.uint8))
    np.savez(path / "good.npz", **weights(), threshold_us=421)
    (path / "good.iolog").write_text("fio version 3 iolog\n0 a read 0 4096\n9 a read 0 4096\n")
    trace = TraceBuilder()
    trace.io(1, 2, 0)
    trace.write(path / "one.blk")
    writes = TraceBuilder()
    writes.io(1, 2, 0, flags=WRITE)
    writes.write(path / "writes.blk")
    TraceBuilder().add(Q, 1, 0).write(path / "unanswered.blk")
    return path


def weights() -> dict[str, Any]:
    """Return valid weights of a network."""
    model = random_model()
    names = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")
    return {name: getattr(model, name) for name in names}


@pytest.fixture
def run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Run a command line in the folder; return its status and stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LINNAPP_SYSFS", str(folder / "sys"))
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path))

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["linnapp", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        status = ended.value.code
        assert isinstance(status, int)
        return status, capfd.readouterr().err

    return run


def refused(run: Run, *arguments: object) -> str:
    """Return the few lines with which a command refuses its arguments."""
    status, stderr = run(*arguments)
    assert status in (1, 2), stderr
    assert 1 <= len(stderr.strip().splitlines()) <= 5
    return stderr


@pytest.mark.parametrize("line", READERS)
def test_every_command_refuses_what_it_cannot_read(run: Run, folder: Path, line: str) -> None:
    before = sorted(folder.rglob("*"))
    for name in HOSTILE if "@" in line else [""]:
        arguments = [name if word == "@" else word for word in shlex.split(line)]
        if line.startswith("check --trace") and name in WITHOUT_IO:
            assert run(*arguments)[0] == UNKNOWN_STATUS, name
            continue
        stderr = refused(run, *arguments)
        # The error names the bad input; for a valid model without the patched kernel, the drive.
        assert Path(name or "folder.toml").stem[:20] in stderr or "sda: " in stderr, stderr
    assert sorted(folder.rglob("*")) == before


def test_hostile_inputs_cover_every_command() -> None:
    commands = cli.cli.list_commands(click.Context(cli.cli))
    boots = {"lab", "demo", "tour"}
    assert {line.split()[0] for line in READERS} == set(commands) - boots


@pytest.mark.parametrize("line", WRITERS)
def test_outputs_to_impossible_paths_are_refused(
    run: Run, folder: Path, tmp_path: Path, line: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    (tmp_path / "file").write_text("kept")
    for place in pipe, loop, tmp_path / "file" / "x", "/proc/x/y", tmp_path / ("x" * 300):
        refused(run, *(place if word == "@" else word for word in shlex.split(line)))
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert (tmp_path / "file").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop", "pipe"]


def test_an_output_that_is_a_link_stays_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert run("convert", "good.iolog", tmp_path / "link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text().startswith("fio version 3 iolog")


@pytest.mark.parametrize("kind", ["network", "latency"])
def test_train_checks_the_output_folder_before_it_reads_the_trace(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Reading the recording of a day takes minutes."""
    for module in ("examples", "trees"):
        monkeypatch.setattr(f"linnapp.learn.{module}.open_recording", pytest.fail)
    (tmp_path / "thesis.tex").write_text("kept")
    for place, words in {
        tmp_path: f"{tmp_path}: ",
        tmp_path / "thesis.tex" / "x": f"{tmp_path}/thesis.tex: ",
        "/proc/x/y": "/proc: ",
    }.items():
        stderr = refused(run, "train", "--kind", kind, "--trace", "good.blk", "-o", place)
        assert f"error: {words}" in stderr
    assert (tmp_path / "thesis.tex").read_text() == "kept"


def test_training_again_keeps_the_folders_of_models_below(run: Run, tmp_path: Path) -> None:
    """Train as `make demo` does: with latency models in a subfolder."""
    for _ in range(2):
        for place in (tmp_path / "array", tmp_path / "array" / "latency"):
            kind = ("--kind", "latency", "--even-if-worse")
            assert run("train", "--trace", "good.blk", "-o", place, *kind)[0] == 0
    below = tmp_path / "array" / "latency"
    assert sorted(path.name for path in below.iterdir()) == ["good.json", "good.linnos"]
    (below / "thesis.tex").write_text("kept")
    assert "holds latency" in refused(run, "train", "--trace", "good.blk", "-o", below.parent)
    assert (below / "thesis.tex").read_text() == "kept"


def test_watch_keeps_a_recording_that_is_there_and_takes_only_names_in_utf8(
    run: Run, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    for folder, options in ((seen, ()), (seen / "before", ("--session", "before"))):
        folder.mkdir()
        (folder / "calls.parquet").write_text("kept")
        stderr = refused(run, "watch", "-o", seen, *options, "--", "touch", tmp_path / "begun")
        assert f"{folder}: already contains " in stderr and "--session NAME" in stderr
        assert (folder / "calls.parquet").read_text() == "kept"
    other = tmp_path / "\udcff"
    stderr = refused(run, "watch", "-o", other, "--", "touch", tmp_path / "begun")
    assert ": the name is not UTF-8" in stderr
    other.mkdir()
    assert ": the name is not UTF-8" in refused(run, "query", other, "select 1")
    assert not (tmp_path / "begun").exists()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of two pages."""
    place = tmp_path / "full"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", place]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("line", WRITERS[:3])
def test_a_full_disk_is_an_error_and_leaves_nothing(run: Run, full_disk: Path, line: str) -> None:
    line = line.replace("0.01", "2")
    stderr = refused(run, *(full_disk / "o" if word == "@" else word for word in shlex.split(line)))
    assert "No space left" in stderr
    # The error has the requested name, not that of the temporary file.
    assert re.search(rf"{full_disk}/o\b", stderr) and "/." not in stderr
    assert [path.name for path in full_disk.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("made", ["open", "mkdir"])
def test_interrupt_at_creation_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """There is never a temporary file that is not removed after an interrupt."""
    real = getattr(Path, made)

    def interrupted(self: Path, *arguments: Any, **keywords: Any) -> None:
        result = real(self, *arguments, **keywords)
        if self.name.startswith(".out."):
            if result is not None:
                result.close()
            assert self.exists()
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, made, interrupted)
    out = tmp_path / "out"
    writing: Any = replaced_file(out) if made == "open" else replaced_directory(out, (".linnos",))
    with pytest.raises(KeyboardInterrupt), writing:
        pass
    assert list(tmp_path.iterdir()) == []


#: Arguments that each command needs in addition to the tested option.
BASES = {
    "inspect": "good.blk",
    "convert": "good.blk out/o",
    "generate": "demo -o /proc/x",
    "label": "--trace good.blk",
    "train": "--trace writes.blk -o /proc/x",
    "evaluate": "--model good.linnos --trace good.blk",
    "pack": "good.npz -o out/o",
    "predict": "--model good.linnos --features good.npy",
    "upload": "--model good.linnos --device sda",
    "status": "sda",
    "trace": "/dev/null -o /proc/x",
    "recalibrate": "sda",
    "fleet": "folder.toml -o /proc/x",
}
NUMBERS = ("9" * 200, "9" * 5000, str(2**64), "-1", "nan", "inf", "-inf", "1e308", "1e-308", "0")
SPECIAL = ("9" * 200 + "T", "99999999T", "0:1e308", "1e308:", "nan:1", "1:0", "x", "")


@pytest.mark.parametrize("command", BASES)
def test_extreme_numbers_are_errors_without_traceback(run: Run, command: str) -> None:
    found: click.Command = cli.cli
    for word in command.split():
        assert isinstance(found, click.Group)
        chosen = found.get_command(click.Context(found), word)
        assert chosen is not None
        found = chosen
    for option in found.params:
        if not isinstance(option, click.Option) or option.is_flag or option.type is click.STRING:
            continue
        if isinstance(option.type, (click.Path, click.Choice)):
            continue
        for value in NUMBERS + SPECIAL:
            words = [*command.split(), *BASES[command].split(), f"{option.opts[-1]}={value}"]
            status, stderr = run(*words)
            assert status in (0, 1, 2), stderr
            assert "Warning" not in stderr
            if value in ("nan", "inf", "x", "9" * 200, "9" * 5000):
                assert status == 2 or (option.name == "seed" and status == 1), (words, stderr)


def archive(folder: Path, method: int = zipfile.ZIP_DEFLATED, **changes: object) -> Path:
    """Write weights as an .npz file, some of them changed."""
    path = folder / "w.npz"
    with zipfile.ZipFile(path, "w", method) as out:
        for name, array in {**weights(), "threshold_us": 421, **changes}.items():
            with out.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, np.asarray(array))
    return path


@pytest.mark.parametrize(
    "threshold", [np.nan, np.inf, "42", 420.5, True, 1j, np.datetime64("2020-01-01"), -5, 2.0**70]
)
def test_pack_takes_whole_thresholds_only(run: Run, tmp_path: Path, threshold: object) -> None:
    path = archive(tmp_path, threshold_us=threshold)
    assert "threshold_us is " in refused(run, "pack", path, "-o", tmp_path / "m.linnos")
    assert not (tmp_path / "m.linnos").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("name", ["hidden_weights", "output_bias"])
def test_pack_refuses_weights_that_are_not_numbers(
    run: Run, tmp_path: Path, name: str, value: float
) -> None:
    floats = {key: array.astype(float) for key, array in weights().items()}
    path = archive(tmp_path, **{**floats, name: np.full_like(floats[name], value)})
    assert f"{path}: weights: {name}" in refused(run, "pack", path, "-o", tmp_path / "m.linnos")


def test_archives_that_are_damaged_encrypted_or_hold_something_else_are_refused(
    run: Run, tmp_path: Path
) -> None:
    assert "a single array" in refused(run, "pack", "good.npy", "-o", "out/m")
    stderr = refused(run, "predict", "--model", "good.linnos", "--features", "good.npz")
    assert "not an .npy file of one array" in stderr
    damaged = [b"PK\x03\x04 and nothing that follows"]
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        whole = archive(tmp_path, method).read_bytes()
        damaged.append(whole[:150] + bytes(40) + whole[190:])
    directory = whole.index(b"PK\x01\x02")
    for place, value in ((8, 1), (10, 99)):  # encrypted; packed by an unknown method
        changed = bytearray(whole)
        changed[directory + place] = changed[place - 2] = value
        damaged.append(bytes(changed))
    path = tmp_path / "x.npz"
    for content in damaged:
        path.write_bytes(content)
        assert "x.npz: " in refused(run, "pack", path, "-o", "out/m")
        command = ("predict", "--model", "good.linnos", "--features", path)
        assert "x.npz: " in refused(run, *command)


def test_tiny_traces_are_errors_without_traceback(run: Run) -> None:
    for name in "one.blk", "writes.blk", "unanswered.blk":
        assert name in refused(run, "train", "--trace", name, "-o", "out/m")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("--dev chooses a drive of a blktrace", "convert --dev 8:0 good.iolog out/o"),
        ("--dev chooses a drive of a blktrace", "inspect --dev 8:0 good.iolog"),
        ("blktrace traces have no volumes", "convert --volume 0 good.blk out/o"),
        ("'a b': contains white space", "convert --device-name 'a b' good.blk out"),
        ("'/dev/a b': contains white space", "convert good.blk 'a b.iolog'"),
        ("'/dev/a b': contains white space", "convert good.iolog 'a b.iolog'"),
    ],
)
def test_inapplicable_options_are_refused(run: Run, folder: Path, message: str, line: str) -> None:
    before = sorted(folder.rglob("*"))
    assert message in refused(run, *shlex.split(line))
    assert sorted(folder.rglob("*")) == before


def test_convert_refuses_a_rate_that_makes_the_trace_last_too_long(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "late").write_text("fio version 3 iolog\n9000000000000000 a read 0 4096\n")
    stderr = refused(run, "convert", "--rerate", "0.00001", tmp_path / "late", tmp_path / "o")
    assert "--rerate 1e-05: the trace would last" in stderr


@pytest.mark.parametrize("field", ["due_ns", "latency_ns", "offset_bytes"])
def test_inspect_refuses_replay_logs_with_numbers_that_wrap(
    run: Run, tmp_path: Path, field: str
) -> None:
    header = np.zeros(1, replay_log.HEADER)
    header["magic"], header["record_bytes"] = replay_log.MAGIC, replay_log.RECORD.itemsize
    records = np.zeros(2, replay_log.RECORD)
    records[field][1] = 2**64 - 1
    for version in range(1, 10):
        header["version"] = version
        (tmp_path / "x.log").write_bytes(header.tobytes() + records.tobytes())
        stderr = refused(run, "inspect", tmp_path / "x.log")
        if "version" not in stderr:
            break
    assert f"corrupt: {field} is 18446744073709551615" in stderr


RULE = '{"read": {"files": [{"fileName": "/data/f", "faultInjection": {}}]}}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (RULE.encode("utf-16"), "not UTF-8"),
        (RULE.replace("/data/f", "/data/\\ud800").encode(), "no file can be called"),
        (RULE.replace("/data/f", "/" + "f" * 5000).encode(), "File name too long"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"read": ' + b"9" * 5000 + b"}", "not JSON: Exceeds the limit"),
    ],
)
def test_invalid_rule_files_are_refused(
    run: Run, tmp_path: Path, content: bytes, message: str
) -> None:
    fault = b'{"frequency": "ALL", "faultType": {"type": "MEDIUM_ERROR"}}'
    (tmp_path / "rules.json").write_bytes(content.replace(b"{}", fault))
    assert message in refused(run, "faults", "install", tmp_path / "rules.json")
