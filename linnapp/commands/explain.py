# SPDX-License-Identifier: MIT
"""``linnapp explain``: decisions in explanation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from linnapp.commands._options import model_option, reader_options
from linnapp.option_types import FILE, PATH, FiniteRange

if TYPE_CHECKING:
    from linnapp.insight.explain import Choice, Looked
    from linnapp.model import LatencyModel, Model


@click.command()
@click.argument("drive", metavar="[DEV]", required=False)
@click.option(
    "--last",
    type=click.IntRange(1, 10_000),
    default=10,
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
    help="Watch DEV for so many seconds at most; without --slow, until there are enough.",
)
@click.option(
    "--trace",
    type=PATH,
    help="Explain a recording's reads, a blktrace recording or a log with latencies.",
)
@click.option(
    "--events",
    type=FILE,
    help="Explain decisions that tracefs or `trace-cmd report` has printed into a file.",
)
@model_option(required=False)
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
    as_json: bool,
    device: str | None,
    allow_truncated: bool,
) -> None:
    """Say of decisions what the model saw, what it said, why, and what happened.

    DEV is watched as it works, through the kernel's trace event (as root). --trace and --events
    look at what was recorded, with the model that --model names.

    What mattered most is told by how much more slow is than fast for its being what it was, and not
    what is usual: the median of the reads predicted fast. What would have turned the verdict is the
    nearest other value of one number that does, the others unchanged. A latency model says how long
    a read would take, in us.
    """
    if sum(source is not None for source in (drive, trace, events)) != 1:
        raise click.UsageError("give one of DEV, --trace FILE and --events FILE")
    if drive is None and model_path is None:
        raise click.UsageError("--trace and --events need --model: a recording holds no model")
    if drive is not None and device is not None:
        raise click.UsageError("--dev chooses a drive of a recording; DEV names one already")

    from linnapp.insight import explain as explanation
    from linnapp.trace.blktrace import losses_of
    from linnapp.trace.recorded import drive_name

    chosen = explanation.Choice(last, slow)
    if drive is not None:
        looked = _watch(drive, chosen, duration, model_path)
    elif trace is not None:
        assert model_path is not None
        looked = explanation.from_recording(
            trace, _model(model_path, drive_name(trace)), chosen,
            device=device, allow_truncated=allow_truncated,
        )  # fmt: skip
    else:
        assert events is not None and model_path is not None
        looked = explanation.from_events(
            events.read_bytes(), _model(model_path, None), chosen, str(events), device=device
        )
    model = looked.view.model
    usual = explanation.usual_of(looked)
    found = explanation.explain(looked, usual)
    if as_json:
        shown = {
            "source": looked.source,
            "model_id": model.model_id,
            "threshold_us": model.threshold_us,
            "decisions_seen": looked.n_seen,
            "notes": looked.notes,
            **(losses_of(trace) if trace is not None else {}),
            "usual": {**vars(usual), "numbers": looked.view.named(usual.numbers)},
            "decisions": [each.to_json(looked.view) for each in found],
        }
        click.echo(json.dumps(shown, indent=1))
        return
    about = explanation.describe_model(model)
    click.echo(f"{looked.source}: {about}; {len(found)} of {looked.n_seen} decisions")
    for note in looked.notes:
        click.echo(f"note: {note}")
    click.echo(explanation.describe_usual(model, usual))
    for each in found:
        click.echo("\n" + explanation.format_decision(model, each, usual))


def _model(path: Path, drive: str | None) -> Model | LatencyModel:
    from linnapp.model import find_model, load_model

    return load_model(find_model(path, drive))


def _watch(name: str, chosen: Choice, duration_s: float, model_path: Path | None) -> Looked:
    import time

    from linnapp.drive import tracefs
    from linnapp.drive.sysfs import Drive
    from linnapp.errors import DeviceError
    from linnapp.insight.explain import from_events
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
    with tracefs.recording((tracefs.DECISION, *tracefs.REQUESTS), device) as recorder:
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
    return from_events(text, model, chosen, drive.name, device=format_device(device))
