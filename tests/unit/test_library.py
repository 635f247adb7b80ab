# SPDX-License-Identifier: MIT
"""The library: the examples of docs/library.md have the same results as the commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fake_sysfs import activate_what_is_written, make_tree
from test_training import array_trace
from trees_by_hand import last_read

import linnapp
from linnapp.cli import cli
from linnapp.errors import TraceError
from linnapp.figures import check_can_draw
from linnapp.learn.examples import load_reads
from linnapp.learn.fit import train_array
from linnapp.learn.fleet import train_fleet
from linnapp.learn.network import import_tensorflow
from linnapp.learn.options import Recipe
from linnapp.model import LatencyModel, Model, find_model
from linnapp.trace.blktrace import BlktraceReader
from linnapp.trace.convert import convert, detect_format
from linnapp.trace.inspection import inspect
from linnapp.trace.reads import open_recording

DOCUMENT = Path(__file__).parents[2] / "docs" / "library.md"
FIO = DOCUMENT.parents[1] / "traces" / "recorded" / "fio.blk.xz"


def python_examples() -> list[str]:
    """Return the examples of docs/library.md."""
    return re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)


def test_first_half_trains_and_second_half_validates_in_five_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(DOCUMENT.parents[1])
    lines = [line for line in python_examples()[0].splitlines() if line]
    assert len(lines) <= 5
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    model, second = names["model"], names["second"]
    assert model.record_["trace"]["rows"] == [0, second.first]
    area = linnapp.evaluate(model, second).auc
    assert area is not None and area > 0.85
    assert capsys.readouterr().out == f"{model.model_id}: area under ROC {area:.3f}\n"


def test_documented_example_equals_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    drive = make_tree(tmp_path / "sys", monkeypatch, "nvme0n1")
    (drive / "mode").write_text("off")
    activate_what_is_written(tmp_path / "sys", monkeypatch)
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("linnapp.learn.network.MAX_EPOCHS", 6)
    array_trace(Path("az.blk"), 1, 1000)
    array_trace(Path("later.blk"), 2, 1000)
    example = python_examples()[1]
    assert example.count("/dev/nvme0n1") == 1
    names: dict[str, object] = {"linnapp": linnapp}
    exec(example.replace("/dev/nvme0n1", "nvme0n1"), names)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("train", "--kind", "network", "--trace", "az.blk", "-o", "models")
    assert Path("az.linnos").read_bytes() == Path("models/az.linnos").read_bytes()
    records = [json.loads(Path(name).read_text()) for name in ("az.json", "models/az.json")]
    assert [record.pop("training_seconds") > 0 for record in records] == [True, True]
    assert records[0] == records[1]
    judged = json.loads(run("evaluate", "--model", "az.linnos", "--trace", "later.blk", "--json"))
    shown = names["result"].to_json()  # type: ignore[attr-defined]
    assert {name: judged[name] for name in shown} == shown
    [row] = json.loads(run("label", "--trace", "az.blk", "--json"))["drives"]
    assert row["threshold_us"] == names["point"].threshold_us  # type: ignore[attr-defined]
    assert (drive / "model").read_bytes() == Path("az.linnos").read_bytes()
    assert (drive / "mode").read_text() == "observe"


def test_table_keeps_the_chunks_of_its_recording(tmp_path: Path) -> None:
    """Bursts are drawn per chunk, so other chunks would change training."""
    path = array_trace(tmp_path / "az.blk", 1, 1000)
    table = linnapp.load(str(path), chunk_ios=300)
    chunks = list(BlktraceReader(path, chunk_ios=300))
    again = list(open_recording(table))
    assert [len(chunk) for chunk in again] == [len(chunk) for chunk in chunks]
    assert len(chunks) > 3
    for name in ("arrival_ns", "latency_ns", "flags", "hist_latency_us"):
        whole = np.concatenate([getattr(chunk, name) for chunk in chunks])
        assert np.array_equal(getattr(table, name), whole)
    assert np.count_nonzero(table.is_served_read) == 1000


def test_to_pandas_returns_all_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The library only calls the constructor of pandas, which takes a dict of columns.
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    table = linnapp.load(array_trace(tmp_path / "az.blk", 1, 300))
    frame = table.to_pandas()
    assert {len(column) for column in frame.values()} == {len(table)}
    assert {column.ndim for column in frame.values()} == {1}
    assert np.array_equal(frame["hist_latency_us_1"], table.hist_latency_us[:, -1])
    assert frame["is_served_read"].sum() == 300


def test_parts_of_a_table_keep_the_history_before_them(tmp_path: Path) -> None:
    path = array_trace(tmp_path / "az.blk", 1, 1000)
    reads = linnapp.load(path, chunk_ios=300)
    first, second = reads.split(0.6)
    assert (len(first), len(second)) == (round(0.6 * len(reads)), len(reads) - len(first))
    assert (str(first), str(second)) == ("az.blk[0:720]", "az.blk[720:1200]")
    assert repr(second[10:-10]) == "<IoTable az.blk[730:1190]: 460 I/Os>"
    assert str(reads[:]) == "az.blk"
    for name in ("arrival_ns", "hist_latency_us", "flags"):
        both = np.concatenate([getattr(part, name) for part in (first, second)])
        assert np.array_equal(both, getattr(reads, name))
    assert second.hist_latency_us[0].all()
    assert [len(chunk) for chunk in open_recording(second)] == [180, 300]
    assert second.stats["reads"] == np.count_nonzero(second.is_read)
    assert second.stats["writes"] == np.count_nonzero(second.is_write) > 0
    # Latency features are those of the whole recording.
    whole = [chunk.features for chunk in open_recording(reads, overdue_us=120)]
    part = [chunk.features for chunk in open_recording(second[100:350], overdue_us=120)]
    assert np.array_equal(np.concatenate(part), np.concatenate(whole)[820:1070])  # type: ignore[arg-type]


def test_fitted_network_predicts_as_in_evaluate(tmp_path: Path) -> None:
    first, second = linnapp.load(array_trace(tmp_path / "az.blk", 1, 2000)).split()
    model = linnapp.fit_network(first, bias=2, max_epochs=3, even_if_worse=True)
    slow = model.predict(second)
    assert (slow.dtype, slow.shape) == (bool, (np.count_nonzero(second.is_served_read),))
    judged = linnapp.evaluate(model, second)
    assert np.count_nonzero(slow) == judged.confusion.true_slow + judged.confusion.false_revoke
    assert model.score(second) == judged.auc
    assert model.record_["trace"]["rows"] == [0, len(first)]
    assert model.record_["threshold_us"] == model.point_.threshold_us
    assert model.record_["options"]["bias"] == 2 and model.record_["max_refused"] == 1
    assert np.isnan(model.score(second[:1]))


def test_fitted_latency_model_predicts_as_in_evaluate(tmp_path: Path) -> None:
    path = array_trace(tmp_path / "az.blk", 1, 3000)
    first, second = linnapp.load(path).split()
    model = linnapp.fit_latency(first)
    us = model.predict(second)
    assert (us.dtype, us.shape) == (np.uint32, (np.count_nonzero(second.is_served_read),))
    assert np.array_equal(us, model.predict(linnapp.load(path))[-len(us) :])
    judged = linnapp.evaluate(model, second)
    assert judged.mean_predicted_us == us.mean()
    assert model.score(second) == judged.auc
    model.save(tmp_path / "m.linnos")
    loaded = linnapp.load_model(tmp_path)
    assert loaded == model and loaded.record_ == model.record_
    assert np.array_equal(loaded.predict(second), us) and loaded.score(second) == judged.auc
    assert json.loads((tmp_path / "m.json").read_text()) == model.record_


def test_loading_a_model_with_a_damaged_record_names_the_record(tmp_path: Path) -> None:
    last_read(threshold_us=500, refuse_us=1000, overdue_us=300).save(tmp_path / "m.linnos")
    assert linnapp.load_model(tmp_path / "m.linnos").record_ == {}
    for damaged in ("{", "[]", "\x00"):
        (tmp_path / "m.json").write_text(damaged)
        with pytest.raises(linnapp.LinnappError, match=r"m\.json: not a training record.*remove"):
            linnapp.load_model(tmp_path / "m.linnos")


def test_selected_reads_alone_are_fitted_and_predicted(tmp_path: Path) -> None:
    reads = linnapp.load(array_trace(tmp_path / "az.blk", 1, 3000))
    served = reads.is_served_read
    selected = np.arange(len(reads)) % 3 > 0
    part = reads.select(selected)
    assert len(part) == len(reads) and str(part) == "az.blk (a selection)"
    assert np.array_equal(part.is_served_read, served & selected)
    model = linnapp.fit_latency(reads)
    assert np.array_equal(model.predict(part), model.predict(reads)[selected[served]])
    again = linnapp.fit_latency(part)
    assert again != model
    assert again.record_["trace"]["selected_reads"] == np.count_nonzero(served & selected)
    for mask in (selected[1:], selected.astype(int), 5):
        with pytest.raises(ValueError, match="mask: expected a bool array of shape"):
            reads.select(mask)


@pytest.mark.parametrize(
    ("library", "words", "use"),
    [
        ("tensorflow", "training needs TensorFlow .*'linnapp[train]'", lambda: import_tensorflow()),
        ("distributed", "Dask .*'linnapp[fleet]'", lambda: list(train_fleet({}, ".", Recipe()))),
        ("matplotlib", "need matplotlib .*'linnapp[figures]'", lambda: check_can_draw("a.png")),
        ("pandas", "'linnapp[frames]'", lambda: linnapp.load(FIO).to_pandas()),
    ],
)  # fmt: skip
def test_missing_library_is_reported_with_the_extra_that_has_it(
    library: str, words: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(linnapp.LinnappError, match=words.replace("[", r"\[")) as error:
        use()
    assert not isinstance(error.value, TraceError)


def test_models_and_points_with_equal_content_compare_equal_and_have_a_short_repr(
    tmp_path: Path,
) -> None:
    model = last_read(threshold_us=500, refuse_us=1000, overdue_us=300)
    again = LatencyModel.from_bytes(model.to_bytes())
    other = last_read(threshold_us=501, refuse_us=1000, overdue_us=300)
    assert model == again and hash(model) == hash(again) and model != other and model != "one"
    assert repr(model) == f"<LatencyModel {model.model_id}: 16 trees, refuses above 1000 us>"
    network = Model(
        *(np.zeros(shape, int) for shape in ((31, 256), (256,), (256, 2), (2,))), threshold_us=70
    )
    assert network == Model.from_bytes(network.to_bytes()) and network != model
    assert repr(network) == f"<Model {network.model_id}: 256 units, slow above 70 us>"
    reads = linnapp.load(array_trace(tmp_path / "az.blk", 1, 500))
    point = linnapp.inflection_point(reads)
    assert len(repr(point)) < 300 and "array" not in repr(point)
    assert point == linnapp.inflection_point(reads) != linnapp.inflection_point(reads[:250])


def test_parts_that_are_no_slice_are_refused_and_empty_parts_have_no_point(tmp_path: Path) -> None:
    reads = linnapp.load(array_trace(tmp_path / "az.blk", 1, 200))
    for rows, error in ((5, TypeError), (slice(None, None, 2), ValueError)):
        with pytest.raises(error, match="takes a slice|a step of 2"):
            _ = reads[rows]
    with pytest.raises(ValueError, match="share=1: accepted is above 0, below 1"):
        reads.split(1)
    with pytest.raises(TraceError, match=r"az\.blk\[50:50\]: no completed read"):
        linnapp.inflection_point(reads[50:20])


def test_functions_accept_paths_as_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    array_trace(Path("d.blk"), 1, 1000)
    assert detect_format("d.blk") == "blktrace" and convert("d.blk", "d.iolog") == 1200
    assert inspect("d.blk").summary["reads"] == len(load_reads("d.blk")) == 1000
    train_array(["d.blk"], "models", Recipe(kind="latency"))
    assert find_model("models") == Path("models/d.linnos")
    assert linnapp.evaluate(linnapp.load_model("models/d.linnos"), "d.blk").auc


def test_import_is_light_and_every_name_is_there() -> None:
    heavy = subprocess.run(
        [sys.executable, "-c", "import linnapp, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"numpy", "tensorflow", "click", "rich"} & set(heavy)
    for name in linnapp.__all__:
        assert getattr(linnapp, name).__name__ == name
    assert dir(linnapp) == sorted([*linnapp.__all__, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = linnapp.nothing
