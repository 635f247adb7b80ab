# SPDX-License-Identifier: MIT
"""``linnapp explain``: explain decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from linnapp.commands._options import model_option, reader_options
from linnapp.option_types import FILE, PATH, FiniteRange

if TYPE_CHECKING:
    from linnapp.insight.explain import Choice, Selection
    from linnapp.model import LatencyModel, Model


@click.command()
@click.argument("drive", metavar="[DEV]", required=False)
@click.option(
    "--last",
    type=click.IntRange(1, 10_000),
    default=10,
    help="Number of decisions to explain, the newest ones.",
)
@click.option(
    "--slow",
    is_flag=True,
    help="Explain admitted reads slower than the model's threshold, slowest first.",
)
@click.option(
    "--duration",
    type=FiniteRange(0, 1e6, min_open=True),
    default=10.0,
    help="Maximum seconds to observe DEV; without --slow it ends when there are enough decisions.",
)
@click.option(
    "--trace",
    type=PATH,
    help="Explain the reads of a recording: of blktrace, or a log with latencies.",
)
@click.option(
    "--events",
    type=FILE,
    help="Explain decisions in a file with the output of tracefs or `trace-cmd report`.",
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
    """Explain decisions: the model's inputs, its outputs, the reasons and the actual result.

    DEV is observed through the kernel's trace event (as root). --trace and --events explain
    recorded reads with the model that --model names.

    The importance of an input is the change of the margin between slow and fast when the input
    is replaced by its typical value, the median of the reads predicted fast. The outputs of a
    latency model are predicted latencies in us.
    """
    if sum(source is not None for source in (drive, trace, events)) != 1:
        raise click.UsageError("give exactly one of DEV, --trace FILE and --events FILE")
    if drive is None and model_path is None:
        raise click.UsageError("--trace and --events need --model: a recording contains no model")
    if drive is not None and device is not None:
        raise click.UsageError("--dev selects a drive of a recording; omit it with DEV")

    from linnapp.insight import explain as explanation
    from linnapp.trace.blktrace import losses_of
    from linnapp.trace.reads import drive_name

    chosen = explanation.Choice(last, slow)
    if drive is not None:
        selection = _watch(drive, chosen, duration, model_path)
    elif trace is not None:
        assert model_path is not None
        selection = explanation.from_recording(
            trace, _model(model_path, drive_name(trace)), chosen,
            device=device, allow_truncated=allow_truncated,
        )  # fmt: skip
    else:
        assert events is not None and model_path is not None
        selection = explanation.from_events(
            events.read_bytes(), _model(model_path, None), chosen, str(events), device=device
        )
    model = selection.view.model
    typical = explanation.typical_inputs(selection)
    found = explanation.explain(selection, typical)
    if as_json:
        shown = {
            "source": selection.source,
            "model_id": model.model_id,
            "threshold_us": model.threshold_us,
            "decisions_seen": selection.n_seen,
            "notes": selection.notes,
            **(losses_of(trace) if trace is not None else {}),
            "usual": {**vars(typical), "numbers": selection.view.named(typical.numbers)},
            "decisions": [each.to_json(selection.view) for each in found],
        }
        click.echo(json.dumps(shown, indent=1))
        return
    about = explanation.describe_model(model)
    click.echo(f"{selection.source}: {about}; {len(found)} of {selection.n_seen} decisions")
    for note in selection.notes:
        click.echo(f"note: {note}")
    click.echo(explanation.describe_typical(model, typical))
    for each in found:
        click.echo("\n" + explanation.format_decision(model, each, typical))


def _model(path: Path, drive: str | None) -> Model | LatencyModel:
    from linnapp.model import find_model, load_model

    return load_model(find_model(path, drive))


def _watch(name: str, chosen: Choice, duration_s: float, model_path: Path | None) -> Selection:
    import time

    from linnapp.drive import tracefs
    from linnapp.drive.sysfs import Drive, device_number
    from linnapp.errors import DeviceError
    from linnapp.insight.explain import from_events
    from linnapp.model import model_from_bytes
    from linnapp.trace.blktrace import format_device

    drive = Drive(name)
    data = drive.read_model()
    if data is None or drive.mode == "off":
        raise DeviceError(
            f"{drive.name}: mode {drive.mode}, {'no model' if data is None else 'a model'}: the "
            "drive makes no decisions; `linnapp upload --mode observe` enables them"
        )
    model = (
        model_from_bytes(data, drive.name) if model_path is None else _model(model_path, drive.name)
    )
    device = device_number(drive.name)
    with tracefs.recording((tracefs.DECISION, *tracefs.REQUESTS), device) as end_recording:
        hinted = drive.stats.get("latency_critical", 0)
        end = time.monotonic() + duration_s
        try:
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(left, 0.05))
                if not chosen.slow and drive.stats["latency_critical"] >= hinted + chosen.last:
                    # The last read may still be in flight.
                    time.sleep(0.05)
                    break
        except KeyboardInterrupt:
            click.echo("stopped early; the decisions until now follow", err=True)
        text = end_recording()
    return from_events(text, model, chosen, drive.name, device=format_device(device))
