# SPDX-License-Identifier: MIT
"""``linnapp explain``: decisions in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from linnapp.commands._options import model_option, reader_options
from linnapp.option_types import FiniteRange


@click.command()
@click.argument("drive", metavar="[DEV]", required=False)
@click.option(
    "--last",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    help="Explain so many decisions, the newest.",
)
@click.option(
    "--slow",
    is_flag=True,
    help="Explain reads that were admitted and took longer than the model's point, slowest first.",
)
@click.option(
    "--duration",
    type=FiniteRange(0, 1e6, min_open=True),
    default=10.0,
    show_default=True,
    help="Watch DEV for so many seconds at most; without --slow, until there are enough.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="Explain a recording's reads, a blktrace recording or a log with latencies.",
)
@click.option(
    "--events",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Explain decisions that tracefs or `trace-cmd report` has printed into a file.",
)
@model_option(required=False)
@click.option(
    "--reference",
    type=click.Choice(["typical", "zeros"]),
    default="typical",
    show_default=True,
    help="What inputs are held against: the medians of the reads predicted fast; an empty history.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reader_options
def explain(
    drive: str | None,
    last: int,
    slow: bool,
    duration: float,
    trace: Path | None,
    events: Path | None,
    model_path: Path | None,
    reference: str,
    as_json: bool,
    device: str | None,
    allow_truncated: bool,
) -> None:
    """Say of decisions what the model saw, what it said, why, and what happened.

    DEV is watched as it works, through the kernel's trace event (as root). --trace and --events
    look at what was recorded, with the model that --model names.

    Why: each of the numbers that the network saw has a part in its margin, the slow output less the
    fast one, beyond what it says to the reference. The parts (Shapley values, rounded to integers)
    and the reference's margin add up to the margin exactly. What would have turned the verdict is
    found by trying every value of each number, the others unchanged.

    A latency model says how long a read would take. Its trees add up to a logarithm,
    in 1024ths of a doubling, and so do the parts: each multiplies the expected latency.
    """
    if sum(source is not None for source in (drive, trace, events)) != 1:
        raise click.UsageError("give one of DEV, --trace FILE and --events FILE")
    if drive is None and model_path is None:
        raise click.UsageError("--trace and --events need --model: a recording holds no model")
    if drive is not None and device is not None:
        raise click.UsageError("--dev chooses a drive of a recording; DEV names one already")

    from linnapp.commands import _decision_words as words
    from linnapp.learn import explanation
    from linnapp.model import LatencyModel

    chosen = explanation.Choice(last, slow)
    looked: Any
    if drive is not None:
        looked = _watch(drive, chosen, duration, model_path)
    elif trace is not None:
        assert model_path is not None
        model = _model(model_path, _drive_of(trace))
        looked = _explanations_of(model).from_recording(
            trace, model, chosen, device=device, allow_truncated=allow_truncated
        )
    else:
        assert events is not None
        looked = _printed(events, chosen, model_path, device)
    if isinstance(looked.model, LatencyModel):
        _show_latencies(looked, reference, as_json)
        return
    held_against = explanation.reference_of(looked, reference)
    _show(
        looked, held_against, explanation.explain(looked, held_against), as_json,
        about=f"model {looked.model.model_id}, slow above {looked.model.threshold_us} us",
        what="decisions",
        against=words.reference(held_against),
        each=lambda found: words.decision(found, held_against),
    )  # fmt: skip


def _show(
    looked: Any,
    held_against: Any,
    found: Sequence[Any],
    as_json: bool,
    *,
    about: str,
    what: str,
    against: str,
    each: Callable[[Any], str],
    **also: Any,
) -> None:
    """Print what was looked at, what it is held against, and every explanation."""
    if as_json:
        click.echo(
            json.dumps(
                {
                    "source": looked.source,
                    "model_id": looked.model.model_id,
                    "threshold_us": looked.model.threshold_us,
                    "decisions_seen": looked.n_seen,
                    "notes": looked.notes,
                    **also,
                    "reference": held_against.to_json(),
                    "decisions": [one.to_json() for one in found],
                },
                indent=1,
            )
        )
        return
    click.echo(f"{looked.source}: {about}; {len(found)} of {looked.n_seen} {what}")
    for note in looked.notes:
        click.echo(f"note: {note}")
    click.echo(against)
    for one in found:
        click.echo("\n" + each(one))


def _drive_of(trace: Path) -> str | None:
    from linnapp.trace.recorded import drive_name

    return drive_name(trace)


def _model(path: Path, drive: str | None) -> Any:
    from linnapp.model import find_model, load_model

    return load_model(find_model(path, drive))


def _explanations_of(model: Any) -> Any:
    """The module that knows this kind of model."""
    from linnapp.learn import explanation, latency_explanation
    from linnapp.model import LatencyModel

    return latency_explanation if isinstance(model, LatencyModel) else explanation


def _show_latencies(looked: Any, reference: str, as_json: bool) -> None:
    from linnapp.commands import _decision_words as words
    from linnapp.learn import latency_explanation

    model = looked.model
    refuses = f"not worth waiting for above {model.refuse_us} us"
    held_against = latency_explanation.reference_of(looked, reference)
    _show(
        looked, held_against, latency_explanation.explain(looked, held_against), as_json,
        about=f"latency model {model.model_id}, slow above {model.threshold_us} us, "
        + (refuses if model.refuses else "refuses nothing")
        + ("" if model.chooses else ", does not choose: nothing is sent elsewhere by it"),
        what="reads",
        against=words.latency_reference(held_against),
        each=lambda found: words.expected(found, held_against, logarithmic=model.n_trees > 0),
        unit=looked.unit,
    )  # fmt: skip


def _printed(events: Path, chosen: Any, model_path: Path | None, device: str | None) -> Any:
    from linnapp.files import explain_os_error

    try:
        text = events.read_bytes()
    except OSError as error:
        raise explain_os_error(error, events) from error
    assert model_path is not None
    model = _model(model_path, None)
    return _explanations_of(model).from_events(text, model, chosen, str(events), device=device)


def _watch(name: str, chosen: Any, duration_s: float, model_path: Path | None) -> Any:
    import time

    from linnapp.drive import tracefs
    from linnapp.drive.sysfs import Drive
    from linnapp.errors import DeviceError
    from linnapp.model import model_from_bytes
    from linnapp.trace.blktrace import format_device

    drive = Drive(name)
    data = drive.read_model()
    if data is None or drive.mode == "off":
        raise DeviceError(
            f"{drive.name}: mode {drive.mode}, {'no model' if data is None else 'a model'}: it "
            "decides nothing; `linnapp upload --mode observe` makes it"
        )
    model = (
        model_from_bytes(data, drive.name) if model_path is None else _model(model_path, drive.name)
    )
    device = drive.device_number
    with tracefs.recording((tracefs.DECISION, tracefs.PEER, *tracefs.REQUESTS), device) as recorder:
        hinted = drive.stats.get("latency_critical", 0)
        end = time.monotonic() + duration_s
        try:
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(left, 0.05))
                if not chosen.slow and drive.stats["latency_critical"] >= hinted + chosen.last:
                    # The last of them may still be in the drive.
                    time.sleep(0.05)
                    break
        except KeyboardInterrupt:
            click.echo("stopped early: what was seen until here", err=True)
        recorder.stop()
        text = recorder.text()
    return _explanations_of(model).from_events(
        text, model, chosen, drive.name, device=format_device(device)
    )
