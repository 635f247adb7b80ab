# SPDX-License-Identifier: MIT
"""The command line as a user sees it: exit status, one-line errors, no partial output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_model_format import random_model
from test_training import array_trace

from linnapp import cli as cli_module
from linnapp import engine
from linnapp.cli import _COMMANDS
from linnapp.errors import LinnappError
from linnapp.learn.examples import load_reads
from linnapp.learn.parallel import Pool, Task
from linnapp.model import Model

ROOT = Path(__file__).parents[2]


def run(
    *arguments: object, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linnapp", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )


def fails(message: str, *arguments: object, **kw: object) -> None:
    result = run(*arguments, **kw)  # type: ignore[arg-type]
    assert result.returncode != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 4


#: There is no such kernel, so that no guest is booted.
LAB_RUN = ("lab", "run", "--kernel", "/nonexistent/vmlinux")


def test_mistyped_command_names_near_commands() -> None:
    fails("No such command 'trainn'. Did you mean 'train'?", "trainn")
    fails("No such command 'trian'. Did you mean 'trial' or 'train' or 'trace'?", "trian")
    fails("'--trace'", "train", "--trase", "x")
    fails("nor a command. Did you mean 'labelling' or 'label'?", "help", "labeling")
    stderr = run("xyzzy").stderr
    assert "No such command 'xyzzy'." in stderr and "mean" not in stderr


#: Prints which of the named modules are loaded after commands have printed their help.
HELPS = """
import sys
from linnapp import cli
commands, modules = (words.split() for words in sys.argv[1:])
for words in [[name] for name in commands] or [[]]:
    try:
        cli.cli.main([*words, "--help"], prog_name="linnapp")
    except SystemExit as end:
        assert not end.code, words
print([module for module in modules if module in sys.modules])
"""


@pytest.mark.parametrize(
    ("commands", "heavy"),
    [
        ("", "numpy tensorflow rich matplotlib prometheus_client"),
        (" ".join(_COMMANDS), "tensorflow sklearn matplotlib distributed prometheus_client"),
    ],
    ids=["linnapp", "each command"],
)
def test_help_imports_nothing_heavy(commands: str, heavy: str) -> None:
    stdout = subprocess.run(
        [sys.executable, "-c", HELPS, commands, heavy],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    assert stdout.splitlines()[-1] == "[]"
    for command in commands.split():
        assert f"Usage: linnapp {command} " in stdout


def test_train_then_evaluate_then_predict(tmp_path: Path) -> None:
    array_trace(tmp_path / "az.blk", 1)
    train = ("train", "--kind", "network", "--bias", 2, "--epochs", 2)
    result = run(*train, "--trace", "az.blk", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["models/az/az.linnos"]
    assert "inflection point" in result.stderr and "false submits" in result.stderr
    judge = ("evaluate", "--model", "models/az", "--trace", "az.blk")
    # Reads beyond the threshold are not training's false submits, and have another name.
    output = run(*judge, cwd=tmp_path).stdout
    assert "slow admitted" in output and "fast refused" in output and "false" not in output
    judged = json.loads(run(*judge, "--json", cwd=tmp_path).stdout)
    reads = load_reads(tmp_path / "az.blk")
    model = Model.load(tmp_path / "models" / "az" / "az.linnos")
    refused = engine.predict(model, reads.digits())
    slow = reads.latency_us > model.threshold_us
    assert judged["mean_admitted_us"] == pytest.approx(reads.latency_us[~refused].mean())
    assert judged["true_slow"] == np.count_nonzero(slow & refused) > 0
    assert judged["false_revoke"] == np.count_nonzero(~slow & refused)
    np.save(tmp_path / "f.npy", reads.digits(slice(0, 500)))
    for name in ("numpy", "c"):
        predict = ("predict", "--model", "models/az", "--features", "f.npy", "--engine", name)
        assert run(*predict, cwd=tmp_path).stdout.split() == [str(int(r)) for r in refused[:500]]


def test_pack_writes_the_model_of_its_weights_and_names_what_is_missing(tmp_path: Path) -> None:
    model = random_model()
    names = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")
    arrays = {name: getattr(model, name) for name in names}
    np.savez(tmp_path / "w.npz", **arrays, threshold_us=421)
    assert run("pack", "w.npz", "-o", "m.linnos", cwd=tmp_path).returncode == 0
    assert (tmp_path / "m.linnos").read_bytes() == model.to_bytes()
    odd = {**arrays, "hidden_bias": arrays["hidden_bias"][1:]}
    for options, message in (
        (arrays, "give --threshold-us"),
        ({**odd, "threshold_us": 1}, "has shape (31, 256), expected (31, 255)"),
        ({"hidden_bias": odd["hidden_bias"], "threshold_us": 1}, "hidden_weights, output_weights"),
    ):
        np.savez(tmp_path / "x.npz", **options)
        fails(message, "pack", "x.npz", "-o", "n.linnos", cwd=tmp_path)
    assert not (tmp_path / "n.linnos").exists()


def test_errors_of_output_are_reported_and_never_go_to_standard_output(tmp_path: Path) -> None:
    for words, status, out, err in (
        ("inspect no-such-file 2>&-", 1, b"", b""),
        ("generate --list >/dev/full", 1, b"", b"No space left"),
    ):
        command = f"{sys.executable} -m linnapp {words}"
        result = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, capture_output=True, check=False
        )
        assert (result.returncode, result.stdout) == (status, out) and err in result.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_output_never_goes_to_a_file_that_got_the_number_of_a_closed_stream(
    tmp_path: Path, closed: str
) -> None:
    (tmp_path / "d.csv").write_text("1,100,1,4096,0,1,4096\n2,100,1,4096,0,2,4096\n")
    command = f"{sys.executable} -m linnapp convert d.csv out.iolog {closed}"
    result = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == (1 if ">&-" in closed.split() else 0), result.stderr
    message = b"linnapp: error: output: Bad file descriptor\n"
    assert result.stderr == (b"" if "2>&-" in closed else message)
    lines = (tmp_path / "out.iolog").read_text().splitlines()
    assert len(lines) == 6 and lines[0] == "fio version 3 iolog"


def test_kernel_log_that_cannot_be_written_is_refused_before_the_boot(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "log"
    fails(f"--dmesg {missing}: No such file or directory", *LAB_RUN, "--dmesg", missing, "true")
    fails("'-' is not taken as standard input or output", *LAB_RUN, "--dmesg", "-", "true")
    log = tmp_path / "log"
    log.write_text("of another run")
    fails("vmlinux", *LAB_RUN, "--dmesg", log, "true")
    fails("vmlinux", *LAB_RUN, "--dmesg", tmp_path / "new", "true")
    assert [*tmp_path.iterdir()] == [log] and log.read_text() == "of another run"


def test_pipe_as_input_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    for line in "inspect p", "label --trace p", "convert p out":
        fails("p: is a pipe", *line.split(), cwd=tmp_path)


def test_completion_lists_the_commands_that_begin_alike() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "linnapp" in run("completion", shell).stdout
    env = {"_LINNAPP_COMPLETE": "bash_complete", "COMP_WORDS": "linnapp tr", "COMP_CWORD": "1"}
    assert set(run(**env).stdout.split()) == {"plain,trace", "plain,train", "plain,trial"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "command",
    [
        "train --kind network -o m --processes 2 --trace a/d0.blk --trace a/d1.blk",
        "fleet --kind network -o m --workers 2 a",
    ],
)
def test_termination_during_tensorflow_leaves_no_files_or_processes(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    """This holds even if only the first process gets the signal."""
    if command.startswith("fleet"):
        pytest.importorskip("distributed")
    (tmp_path / "a").mkdir()
    for i in range(2):
        array_trace(tmp_path / "a" / f"d{i}.blk", i)
    (tmp_path / "tensorflow.py").write_text(
        "import os, time\nopen(f'{os.getpid()}.pid', 'w').close()\ntime.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "linnapp", *command.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    try:
        while process.poll() is None and len(begun := [*tmp_path.glob("*.pid")]) < 2:
            time.sleep(0.01)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        alive = [path.stem for path in begun if Path("/proc", path.stem).exists()]
        for pid in alive:
            os.kill(int(pid), signal.SIGKILL)
    assert process.returncode == (130 if number == signal.SIGINT else -number), stderr
    assert not alive
    assert all(line[:2] in (b"d0", b"d1", b"") for line in stderr.splitlines()), stderr
    assert {path.name for path in tmp_path.iterdir() if path not in begun} == {"a", "tensorflow.py"}


def _end(how: str, _: object) -> None:
    if how == "killed":
        signal.raise_signal(signal.SIGKILL)
    elif how == "gone":
        os._exit(3)
    time.sleep(600)


@pytest.mark.parametrize(("how", "reason"), [("killed", "SIGKILL"), ("gone", "with status 3")])
def test_ended_process_is_named_by_its_drive(how: str, reason: str) -> None:
    tasks = [Task("a", _end, ("not",)), Task("b", _end, (how,))]
    message = f"b: its process has ended \\({reason}\\)"
    with Pool(2) as pool, pytest.raises(LinnappError, match=message):
        pool.run(tasks, None)


def test_ctrl_c_keeps_the_best_epoch_of_every_drive(tmp_path: Path) -> None:
    for i in range(2):
        # So many epochs that neither ends before both have begun.
        array_trace(tmp_path / f"d{i}.blk", i, 40_000)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "linnapp", "train", "--kind", "network", "-o", "m"),
            *("--bias", "2"),
            *("--trace", "d0.blk", "--trace", "d1.blk", "--epochs", "100000"),
            *("--processes", "2", "--even-if-worse"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,  # a terminal's ctrl-C reaches the whole group
    )
    assert process.stderr is not None
    begun: set[str] = set()
    for line in process.stderr:
        begun |= {drive for drive in ("d0", "d1") if line.startswith(f"{drive}: epoch  2")}
        if len(begun) == 2:
            os.killpg(process.pid, signal.SIGINT)
            break
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.split() == ["m/d0.linnos", "m/d1.linnos"]
    for drive in "d0", "d1":
        record = json.loads((tmp_path / "m" / f"{drive}.json").read_text())
        assert record["interrupted"]
        assert len(record["epochs"]) >= 1
    assert "Traceback" not in err


def test_error_of_the_system_without_a_number_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(cli_module.cli, "main", fail)
    with pytest.raises(SystemExit):
        cli_module._run()
    assert capsys.readouterr().err == "linnapp: error: output: timed out\n"
