# SPDX-License-Identifier: MIT
"""The ``linnapp`` command: a group whose subcommands are imported only when they are used.

Importing TensorFlow, numpy or rich for ``linnapp --help`` would make it slow, so the group has
only each command's name, module and one line of help.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import click

from linnapp import __version__
from linnapp.errors import ConfWarning, LinnappError, TraceWarning, as_options

#: The commands with a line of help, by the groups of --help. The command NAME is in
#: linnapp/commands/NAME.py.
_GROUPS = {
    "A whole array": {
        "check": "Estimate whether choosing replicas would help.",
        "enable": "Make md read from the fastest mirror.",
        "trial": "Measure the benefit of `linnapp enable`.",
        "disable": "Undo `linnapp enable`.",
        "restore": "Apply drives.conf, as after a reboot.",
        "keep": "Reset drives that deviate from their training data.",
    },
    "Record and inspect": {
        "trace": "Record drives with blktrace.",
        "inspect": "Show the contents of a trace or of a replay's log.",
        "layers": "Show where the time of each I/O goes.",
        "watch": "Show a program's storage calls and the I/Os they cause.",
        "query": "Query watched data in SQL.",
    },
    "Workloads": {
        "convert": "Convert a trace to an fio iolog.",
        "generate": "Generate a workload from a profile.",
    },
    "Models": {
        "label": "Find the inflection points of an array's drives.",
        "train": "Train the models of drives and compare them.",
        "evaluate": "Evaluate a model on a trace.",
        "recalibrate": "Keep an array's models up to date.",
        "fleet": "Train the drives of many arrays on a cluster.",
        "pack": "Create a model file from weights trained elsewhere.",
        "predict": "Run a model on feature vectors.",
    },
    "Running drives": {
        "upload": "Upload a model to a drive.",
        "fetch": "Upload models that a fleet has trained.",
        "status": "Show the state and counters of drives.",
        "top": "Show the activity of drives live.",
        "explain": "Explain decisions about reads.",
        "faults": "Inject faults into emulated drives.",
    },
    "Export": {
        "exporter": "Serve the drives' counters to Prometheus.",
        "dashboard": "Write a dashboard for Kibana or Grafana.",
    },
    "Lab and help": {
        "demo": "Compare policies on emulated drives that stall in turn.",
        "tour": "Watch emulated drives stall, live.",
        "lab": "Run commands on the patched kernel with an array up.",
        "help": "Show a topic or the help of a command.",
        "completion": "Print a shell's completion script.",
    },
}
#: An example for each group.
_EXAMPLES = {
    "A whole array": "sudo linnapp enable /dev/md0 --dry-run",
    "Record and inspect": "sudo linnapp layers -- fio job.fio",
    "Workloads": "linnapp generate az-e -o work --drives 3 --duration 60",
    "Models": "linnapp train --trace traces/sdX.blk",
    "Running drives": "linnapp explain /dev/sdX --slow --last 5",
    "Export": "linnapp dashboard grafana",
    "Lab and help": "linnapp demo",
}
_COMMANDS = {name: text for group in _GROUPS.values() for name, text in group.items()}

#: Modules of the commands that are not in linnapp/commands.
_ELSEWHERE = {"lab": "linnapp.lab.cli"}


class LazyGroup(click.Group):
    """A click group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return the command."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_ELSEWHERE.get(cmd_name, f"linnapp.commands.{cmd_name}"))
        # Python has a function of the name `help`.
        command = getattr(module, "help_" if cmd_name == "help" else cmd_name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; print each of its warnings once, as a line on stderr."""
        shown: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if not issubclass(category, (TraceWarning, ConfWarning)):
                python_shows(message, category, *rest)
            elif (text := as_options(str(message))) not in shown:
                shown.add(text)
                click.echo(f"linnapp: warning: {text}", err=True)

        with warnings.catch_warnings():
            python_shows = warnings.showwarning
            warnings.simplefilter("always", TraceWarning)
            warnings.simplefilter("always", ConfWarning)
            warnings.showwarning = show  # type: ignore[assignment]
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown name, suggest similar ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from linnapp.arguments import did_you_mean

            # click suggests commands from 8.4 on, and only those that are imported.
            if question := did_you_mean(args[0], _COMMANDS):
                raise click.UsageError(f"{error.message} {question}", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by purpose, without importing them."""
        # All names have the same width, so that the columns of all lists are aligned.
        width = max(map(len, _COMMANDS))
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", commands[name]) for name in commands])
                formatter.write_text(f"$ {_EXAMPLES[title]}")


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(__version__, prog_name="linnapp")
def cli() -> None:
    """Predict how long each read will take, so that an array reads from its fastest drive (LinnOS).

    The first command asks whether an array would benefit, the second records its load, trains
    and switches on, and the third measures the benefit:

    \b
        sudo linnapp check /dev/md0
        sudo linnapp enable /dev/md0
        sudo linnapp trial /dev/md0

    The same step by step, for one drive:

    \b
        sudo linnapp trace /dev/sdX -o traces --duration 600
        linnapp train --trace traces/sdX.blk
        sudo linnapp upload --model models/sdX --device /dev/sdX --mode observe
    """


class _EndSignalError(BaseException):
    """A signal that ends the program; it is not an error and must not be handled as one."""


@contextlib.contextmanager
def _ending_in_order() -> Iterator[None]:
    """Clean up after a signal that ends the program (kill, timeout, closed terminal), then end.

    Incomplete files are removed, kernel events are switched off, and the terminal is restored. At
    the second signal, the program ends immediately.
    """

    received: list[int] = []

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        # Also cancel the repetition of a signal that was lost.
        signal.setitimer(signal.ITIMER_REAL, 0)
        received.append(number)
        raise _EndSignalError

    def lost(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, _EndSignalError):
            report(unraisable)
            return
        # The signal arrived in a destructor, of which TensorFlow has many. It is repeated by a
        # timer and, if signals are held at that time, delivered afterwards.
        signal.signal(received[0], end)
        signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(received[0]))
        signal.setitimer(signal.ITIMER_REAL, 0.1)

    handled = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        # nohup sets the signal to be ignored.
        if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in handled:
        signal.signal(number, end)
    report, sys.unraisablehook = sys.unraisablehook, lost
    try:
        yield
    except BaseException:
        if not received:
            raise
        # A library may have converted the signal to an error of its own.
    finally:
        # Code that held the signals may have restored our handler.
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
    if received:
        # End as if the signal had not been caught: the parent process sees the signal.
        os.kill(os.getpid(), received[0])


def main() -> None:
    """Run the command line. An error that the user can fix is a line on stderr, with status 1."""
    _open_closed_streams()
    with _ending_in_order():
        _run()


def _open_closed_streams() -> None:
    """Replace stdin, stdout and stderr if the caller has closed them.

    Otherwise, files that are opened later would get their numbers and receive the output. After
    this, writing to stdout is an error, as in other programs.
    """
    while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:
        if number == 1:
            sys.stdout = os.fdopen(1, "w")
        elif number == 2:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            sys.stderr = os.fdopen(2, "w")
    os.close(number)


def _run() -> None:
    try:
        status = cli.main(prog_name="linnapp", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        status = done.exit_code
    except click.Abort:
        status = 128 + signal.SIGINT
    except click.ClickException as error:
        _show(error)
        status = error.exit_code
    except LinnappError as error:
        print(f"linnapp: error: {as_options(str(error))}", file=sys.stderr)
        status = 1
    except BrokenPipeError:
        # The reader (`head`, `less`) is gone.
        _drop_output()
        status = 128 + signal.SIGPIPE
    except OSError as error:
        # An error of the machine, or a bad file name (too long, no permission, disk full, ...).
        reason = error.strerror or error
        print(f"linnapp: error: {error.filename or 'output'}: {reason}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        status = 1
    except MemoryError:
        print("linnapp: error: out of memory", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    sys.exit(status if isinstance(status, int) else 0)


def _show(error: click.ClickException) -> None:
    """Print an error of the command line in the form of all other errors."""
    if type(error).__name__ == "NoArgsIsHelpError":  # new in click 8.2
        error.show()
        return
    print(f"linnapp: error: {error.format_message()}", file=sys.stderr)
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "linnapp"
        print(f"See `{command} --help`.", file=sys.stderr)


def _drop_output() -> None:
    """Prevent errors of the interpreter at exit about output that cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
