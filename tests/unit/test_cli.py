# SPDX-License-Identifier: MIT
"""The command line as a user sees it: exit status, one-line errors, no partial output."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pytest
import waiting_tasks
from click.testing import CliRunner
from test_model_format import random_model
from test_training import array_trace

from linnapp.cli import _COMMANDS, cli
from linnapp.commands.train import train
from linnapp.errors import LinnappError
from linnapp.learn.examples import load_reads
from linnapp.learn.parallel import Pool, Task
from linnapp.model import Model, engine

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


def test_mistyped_command_names_near_commands() -> None:
    fails("No such command 'trainn'. Did you mean 'train'?", "trainn")
    fails("No such command 'trian'. Did you mean 'trial' or 'train' or 'trace'?", "trian")
    fails("'--trace'", "train", "--trase", "x")
    said = run("xyzzy").stderr
    assert "No such command 'xyzzy'." in said and "mean" not in said


def test_unreadable_drive_is_left_to_the_check_for_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = tmp_path / "drive"
    drive.touch()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    for arguments in (["trace", drive], ["recalibrate", drive], ["layers", "--device", drive]):
        said = CliRunner().invoke(cli, [*map(str, arguments), "-o", str(tmp_path / "out")]).output
        assert "is not readable" not in said


def test_lab_run_says_that_it_creates_the_out_folder(tmp_path: Path) -> None:
    out, none = tmp_path / "out", tmp_path / "kernel"
    said = run("lab", "run", "--out", out, "--kernel", none, "--", "true").stderr
    assert f"--out {out} does not exist; it is created" in said
    out.mkdir(exist_ok=True)
    said = run("lab", "run", "--out", out, "--kernel", none, "--", "true").stderr
    assert "no such folder" not in said


def test_help_of_a_mistyped_command_names_near_commands() -> None:
    fails("nor a command. Did you mean 'explain'?", "help", "explian")
    fails("nor a command. Did you mean 'labelling' or 'label'?", "help", "labeling")
    fails("nor a command. Did you mean 'trial' or 'train' or 'training'?", "help", "trian")
    assert "mean" not in run("help", "xyzzy").stderr


def test_help_lists_each_command_in_one_group() -> None:
    from linnapp import cli

    grouped = [name for _, _, names in cli._GROUPS for name in names]
    assert sorted(grouped) == sorted(cli._COMMANDS)
    said = run("--help").stdout
    for title, example, names in cli._GROUPS:
        (section,) = (part for part in said.split("\n\n") if part.startswith(f"{title}:\n"))
        *listed, last = (line.strip() for line in section.splitlines()[1:])
        assert [line.split()[0] for line in listed] == list(names)
        assert last == f"$ {example}"


def _examples() -> list[str]:
    from linnapp import cli

    return [example for _, example, _ in cli._GROUPS]


@pytest.mark.parametrize("example", _examples())
def test_examples_of_help_are_parsed(example: str) -> None:
    """Check that the example uses a command of its group, with existing options."""
    from linnapp import cli

    program, command, *arguments = example.removeprefix("sudo ").split()
    assert program == "linnapp"
    (names,) = (names for _, shown, names in cli._GROUPS if shown == example)
    assert command in names
    ctx = click.Context(cli.cli, info_name="linnapp")
    found = cli.cli.get_command(ctx, command)
    assert found is not None
    while isinstance(found, click.Group):
        inner = found.get_command(ctx, arguments.pop(0))
        assert inner is not None
        found = inner
    found.make_context(command, arguments, parent=ctx)


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
    said = subprocess.run(
        [sys.executable, "-c", HELPS, commands, heavy],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    assert said.splitlines()[-1] == "[]"
    for command in commands.split():
        assert f"Usage: linnapp {command} " in said


def test_train_alone_then_evaluate_predict(tmp_path: Path) -> None:
    array_trace(tmp_path / "az.blk", 1)
    result = run("train", "--trace", "az.blk", "--epochs", 2, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["models/az/az.linnos"]
    assert "inflection point" in result.stderr and "false submits" in result.stderr
    result = run("evaluate", "--model", "models/az", "--trace", "az.blk", "--json", cwd=tmp_path)
    # Reads beyond the threshold are not training's false submits, and have another name.
    told = run("evaluate", "--model", "models/az", "--trace", "az.blk", cwd=tmp_path).stdout
    assert "slow admitted" in told and "fast refused" in told and "false" not in told
    judged = json.loads(result.stdout)
    reads = load_reads(tmp_path / "az.blk")
    model = Model.load(tmp_path / "models" / "az" / "az.linnos")
    admitted = ~engine.predict(model, reads.digits())
    assert judged["reads"] == 3000
    assert judged["accuracy"] > 0.8
    assert judged["mean_us"] == pytest.approx(reads.latency_us.mean())
    assert judged["mean_admitted_us"] == pytest.approx(reads.latency_us[admitted].mean())
    slow = reads.latency_us > model.threshold_us
    assert judged["true_slow"] == np.count_nonzero(slow & ~admitted) > 0
    assert judged["false_revoke"] == np.count_nonzero(~slow & ~admitted)
    record = json.loads((tmp_path / "models" / "az" / "az.json").read_text())
    assert judged["false_submit"] == (
        record["training"]["false_submit"]
        + record["validation"]["false_submit"]
        + record["test"]["false_submit"]
    )
    features = reads.digits(slice(0, 500))
    np.save(tmp_path / "f.npy", features)
    by_engine = {
        name: run(
            "predict", "--model", "models/az", "--features", "f.npy", "--engine", name,
            cwd=tmp_path,
        ).stdout
        for name in ("numpy", "c")
    }  # fmt: skip
    assert by_engine["numpy"] == by_engine["c"]
    outputs = engine.infer(model, features)
    expected = (outputs[:, 1] > outputs[:, 0]).astype(int)
    assert by_engine["c"].split() == [str(verdict) for verdict in expected]
    assert 0 < expected.sum() < 500


def test_drive_name_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    generate = ("generate", "demo", "-o", "out", "--drives", 1, "--duration", 0.01)
    assert run(*generate, cwd=tmp_path).returncode == 0
    source = "out/flash0.iolog"
    fails("holds what is no text", "convert", source, "\udcff.iolog", cwd=tmp_path)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["flash0.iolog"]


def test_training_asks_an_operator_for_few_options() -> None:
    assert len(train.params) <= 14


def test_label(tmp_path: Path) -> None:
    a, b = array_trace(tmp_path / "a.blk", 1), array_trace(tmp_path / "b.blk", 2)
    result = run("label", "--trace", a, "--trace", b, "--json")
    found = json.loads(result.stdout)
    assert [drive["drive"] for drive in found["drives"]] == ["a", "b"]
    assert all(100 < drive["threshold_us"] < 1500 for drive in found["drives"])


def test_label_warns_about_a_point_below_the_median_in_any_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name, median_us in (("fast", 60), ("slow", 400), ("third", 90)):
        latency_us = median_us * np.exp(0.25 * rng.normal(size=2000)) + (
            rng.random(2000) < 0.1
        ) * rng.exponential(1000, 2000)
        (tmp_path / f"{name}.csv").write_text(
            "".join(f"{i},{us:.0f},1,4096,0,{i},4096\n" for i, us in enumerate(latency_us))
        )
    found = []
    for order in (("fast", "slow", "third"), ("third", "slow", "fast")):
        traces = [word for name in order for word in ("--trace", f"{name}.csv")]
        result = run("label", *traces, cwd=tmp_path)
        assert result.returncode == 0
        [warning] = result.stderr.splitlines()
        assert warning.startswith("slow: WARNING: the inflection point, ")
        assert "below the median" in warning and "with --threshold-us (" in warning
        found.append(sorted(result.stdout.splitlines()))
    assert found[0] == found[1]


def test_figure_of_equal_latencies_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("".join(f"{i},100,1,4096,0,{i},4096\n" for i in range(300)))
    result = run("label", "--trace", "d.csv", "--figures", "f", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "f" / "d.png").stat().st_size


def test_pack_and_its_errors(tmp_path: Path) -> None:
    model = random_model()
    names = ("hidden_weights", "hidden_bias", "output_weights", "output_bias")
    arrays = {name: getattr(model, name) for name in names}
    np.savez(tmp_path / "w.npz", **arrays, threshold_us=421)
    result = run("pack", "w.npz", "-o", "m.linnos", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "m.linnos").read_bytes() == model.to_bytes()

    np.savez(tmp_path / "none.npz", **arrays)
    fails("give --threshold-us", "pack", "none.npz", "-o", "n.linnos", cwd=tmp_path)
    odd = {**arrays, "hidden_bias": arrays["hidden_bias"][1:]}
    np.savez(tmp_path / "odd.npz", **odd, threshold_us=1)
    fails("expected (31, H), (H,)", "pack", "odd.npz", "-o", "n.linnos", cwd=tmp_path)
    np.savez(tmp_path / "few.npz", hidden_bias=arrays["hidden_bias"], threshold_us=1)
    fails("hidden_weights, output_weights", "pack", "few.npz", "-o", "n.linnos", cwd=tmp_path)
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04garbage")
    fails("bad.npz: not an .npz", "pack", "bad.npz", "-o", "n.linnos", cwd=tmp_path)
    fails("no.npz", "pack", "no.npz", "-o", "n.linnos", cwd=tmp_path)
    assert not (tmp_path / "n.linnos").exists()


def test_bad_traces(tmp_path: Path) -> None:
    cut = tmp_path / "cut.blk"
    cut.write_bytes(array_trace(tmp_path / "az.blk", 1, 100).read_bytes()[:-10])
    for command in (
        ("train", "--trace", cut),
        ("label", "--trace", cut),
        ("inspect", cut),
        ("convert", cut, tmp_path / "out.iolog"),
    ):
        fails("cut.blk: truncated", *command, cwd=tmp_path)
    text = tmp_path / "text.blk"
    text.write_text("not a trace\n" * 10)
    fails(
        "text.blk: not a trace in a known format (blktrace, ",
        "train",
        "--trace",
        text,
        cwd=tmp_path,
    )
    fails("no such trace", "train", "--trace", "missing.blk", cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["az.blk", "cut.blk", "text.blk"]


def test_no_patched_kernel(tmp_path: Path) -> None:
    (tmp_path / "block" / "sda").mkdir(parents=True)
    model = tmp_path / "m.linnos"
    random_model().save(model)
    env = {"LINNAPP_SYSFS": str(tmp_path)}
    fails("lacks the LinnOS patch", "upload", "--model", model, "--device", "sda", **env)
    fails("no disk has LinnOS", "status", **env)
    fails("sdb: no such disk", "upload", "--model", model, "--device", "sdb", **env)


def test_trace_names_the_reason_when_it_cannot_record(tmp_path: Path) -> None:
    fails("/dev/none: No such file", "trace", "/dev/none", "-o", tmp_path / "t")
    fails("not a block device", "trace", "/dev/null", "-o", tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    fails("Permission denied", "generate", "demo", "-o", tmp_path / "out", "--duration", 1)
    tmp_path.chmod(0o700)


def test_streams_that_are_closed(tmp_path: Path) -> None:
    """Output goes neither to a file that got their number nor to the other stream."""
    (tmp_path / "d.csv").write_text("1,100,1,4096,0,1,4096\n2,100,1,4096,0,2,4096\n")
    convert = f"{sys.executable} -m linnapp convert d.csv out.iolog"
    for closed in ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-":
        ran = subprocess.run(
            ["sh", "-c", f"{convert} {closed}"], cwd=tmp_path, capture_output=True, check=False
        )
        assert ran.returncode == (1 if ">&-" in closed.split() else 0), ran.stderr
        open_still = b"" if "2>&-" in closed else b"linnapp: error: output: Bad file descriptor\n"
        assert ran.stderr == open_still
        lines = (tmp_path / "out.iolog").read_text().splitlines()
        assert len(lines) == 6 and lines[0] == "fio version 3 iolog"
        (tmp_path / "out.iolog").unlink()
    ran = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m linnapp inspect no-such-file 2>&-"],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (1, b"")


def test_pipe_as_input_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    for line in "inspect p", "label --trace p", "convert p out":
        fails("p: is a pipe", *line.split(), cwd=tmp_path)


def test_full_disk() -> None:
    with Path("/dev/full").open("w") as full:
        status = subprocess.run(
            [sys.executable, "-m", "linnapp", "generate", "--list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert status.returncode == 1
    assert "No space left" in status.stderr


def test_generate_is_reproducible(tmp_path: Path) -> None:
    for name in "a", "b":
        run("generate", "demo", "-o", tmp_path / name, "--duration", 2, "--drives", 2, "--seed", 5)
    for drive in "flash0.iolog", "flash1.iolog":
        assert (tmp_path / "a" / drive).read_bytes() == (tmp_path / "b" / drive).read_bytes()
    first, second = ((tmp_path / "a" / f"flash{i}.iolog").read_text() for i in (0, 1))
    assert first.replace("flash0", "flash1") != second
    shown = json.loads(run("inspect", tmp_path / "a" / "flash0.iolog", "--json").stdout)
    assert shown["reads"] > shown["writes"] > 0


def test_help_topics_and_commands() -> None:
    listed = run("help").stdout
    for topic in ("traces", "formats", "labelling", "training", "drives", "environment"):
        assert topic in listed
        assert run("help", topic).stdout.startswith(topic.upper())
    assert run("help", "upload").stdout.startswith("Usage: linnapp upload")
    fails("neither a topic", "help", "nonsense")


def test_the_manual_page_has_every_command_and_topic() -> None:
    page = ROOT / "docs" / "linnapp.1"
    words = page.read_text().replace("\\-", "-")
    for command in _listed("Commands"):
        assert f'"{command}' in words or f"I {command} " in words, command
    for topic in _listed("Topics"):
        assert topic in words.split("Topics are")[1].split("\n")[0]


def _listed(what: str) -> list[str]:
    (line,) = (x for x in run("help").stdout.splitlines() if x.startswith(f"{what}: "))
    return line.removeprefix(f"{what}: ").split(", ")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff not installed")
def test_the_manual_pages_are_well_formed() -> None:
    for page in (ROOT / "docs").glob("*.[138]"):
        ran = subprocess.run(
            ["groff", "-ww", "-man", "-Tutf8", "-z", page],
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stderr == "", page


def test_every_command_and_option_has_help() -> None:
    import click

    from linnapp.cli import cli

    def check(command: click.Command, ctx: click.Context) -> None:
        assert command.help, ctx.command_path
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{ctx.command_path} {option.opts}"
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                inner = command.get_command(ctx, name)
                assert inner is not None
                check(inner, click.Context(inner, info_name=name, parent=ctx))

    check(cli, click.Context(cli, info_name="linnapp"))


def test_every_input_format_is_in_its_help_topic() -> None:
    from linnapp.trace.convert import input_formats

    text = run("help", "formats").stdout
    for name in input_formats():
        assert f"\n  {name} " in text


def test_completion() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "linnapp" in run("completion", shell).stdout
    env = {"_LINNAPP_COMPLETE": "bash_complete", "COMP_WORDS": "linnapp tr", "COMP_CWORD": "1"}
    assert run(**env).stdout.split() == ["plain,trace", "plain,train", "plain,trial"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_termination_leaves_no_partial_output(tmp_path: Path, number: int) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "linnapp", "generate", "demo"),
            *("-o", out, "--duration", "1e8", "--drives", "1"),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        # The signal may be ignored in the environment of the tests.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    try:
        while process.poll() is None and not (out.exists() and any(out.iterdir())):
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == -number
    assert list(out.iterdir()) == [] and said == b""


LOST = "gone = type('Gone', (), {'__del__': lambda gone: tell()})()\n    del gone\n"


@pytest.mark.parametrize(
    ("told", "printed"),
    [
        ("with signals_held() as let_in: tell(); let_in()", b""),
        # A library turns it into an error of its own.
        ("\n    try: tell()\n    except BaseException: raise RuntimeError", b""),
        (f"{LOST}    time.sleep(60)", b""),
        # Work that must not stop half-way is completed, too.
        (f"{LOST}    with signals_held(): time.sleep(0.5); print('done', flush=True)", b"done\n"),
    ],
)
def test_deferred_termination_prints_no_message(told: str, printed: bytes) -> None:
    """Training defers termination in this way."""
    script = (
        "import signal, time; from linnapp import cli; from linnapp.signals import signals_held\n"
        "def tell(): signal.raise_signal(signal.SIGTERM)\n"
        f"def run():\n    {told}\n    print('on', flush=True)\n"
        "cli._run = run; cli.main()"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGTERM, printed, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "command",
    [
        "train -o m --processes 1 --trace a/d0.blk --trace a/d1.blk",
        "train -o m --processes 2 --trace a/d0.blk --trace a/d1.blk",
        "fleet -o m --workers 2 a",
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
    n_processes = 1 if "--processes 1" in command else 2
    try:
        while process.poll() is None and len(begun := [*tmp_path.glob("*.pid")]) < n_processes:
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        alive = [path.stem for path in begun if Path("/proc", path.stem).exists()]
        for pid in alive:
            os.kill(int(pid), signal.SIGKILL)
    assert process.returncode == (130 if number == signal.SIGINT else -number), said
    assert not alive
    assert all(line[:2] in (b"d0", b"d1", b"") for line in said.splitlines()), said
    assert {path.name for path in tmp_path.iterdir() if path not in begun} == {"a", "tensorflow.py"}


@pytest.mark.parametrize("told", [[signal.SIGTERM], [signal.SIGINT] * 2])
def test_termination_ends_the_child_processes(tmp_path: Path, told: list[signal.Signals]) -> None:
    """If ctrl-C keeps results, a second one ends the processes."""
    script = (
        "import sys; from linnapp import cli; sys.argv = ['linnapp', 'wait']\n"
        "cli._COMMANDS['wait'] = ''; cli._ELSEWHERE['wait'] = 'waiting_tasks'; cli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(told[0], signal.SIG_DFL),
    )
    begun: list[Path] = []
    try:
        begun = waiting_tasks.begun(process, tmp_path)
        process.send_signal(told[0])
        for again in told[1:]:
            while process.poll() is None and not all(Path(f"{p}.told").exists() for p in begun):
                time.sleep(0.01)
            process.send_signal(again)
        _, said = process.communicate(timeout=600)
    finally:
        process.kill()
        alive = [path for path in begun if Path("/proc", path.read_text()).exists()]
        for path in alive:
            os.kill(int(path.read_text()), signal.SIGKILL)
    assert process.returncode in (-signal.SIGTERM, 128 + signal.SIGINT), said
    assert not alive and b"Traceback" not in said


def _end(how: str, _: object) -> None:
    if how == "killed":
        signal.raise_signal(signal.SIGKILL)
    elif how == "gone":
        os._exit(3)
    time.sleep(600)


@pytest.mark.parametrize(("how", "said"), [("killed", "SIGKILL"), ("gone", "with status 3")])
def test_ended_process_is_named_by_its_drive(how: str, said: str) -> None:
    tasks = [Task("a", _end, ("not",)), Task("b", _end, (how,))]
    message = f"b: its process has ended \\({said}\\)"
    with Pool(2) as pool, pytest.raises(LinnappError, match=message):
        pool.run(tasks, None)


def test_ctrl_c_keeps_the_best_epoch_of_every_drive(tmp_path: Path) -> None:
    for i in range(2):
        # So many epochs that neither ends before both have begun.
        array_trace(tmp_path / f"d{i}.blk", i, 40_000)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "linnapp", "train", "--bias", "2", "-o", "m"),
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
