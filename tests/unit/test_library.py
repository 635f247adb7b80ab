# SPDX-License-Identifier: MIT
"""The library: what docs/library.md shows gives what the commands give."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from fake_sysfs import activate_what_is_written, make_tree
from test_training import array_trace

import linnapp
from linnapp.cli import cli
from linnapp.errors import TraceError, install_command
from linnapp.learn.bound import black_box_auc
from linnapp.learn.fleet import train_fleet
from linnapp.learn.network import import_tensorflow
from linnapp.learn.options import Recipe
from linnapp.trace.blktrace import BlktraceReader
from linnapp.trace.layers_figure import check_can_draw
from linnapp.trace.recorded import open_recording

DOCUMENT = Path(__file__).parents[2] / "docs" / "library.md"


def test_the_documents_example_gives_what_the_commands_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    drive = make_tree(tmp_path / "sys", monkeypatch, "nvme0n1")
    (drive / "mode").write_text("off")
    activate_what_is_written(tmp_path / "sys", monkeypatch)
    monkeypatch.setenv("LINNAPP_STATE", str(tmp_path / "state"))
    array_trace(Path("az.blk"), 1, 1000)
    array_trace(Path("later.blk"), 2, 1000)
    [example] = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert example.count("/dev/nvme0n1") == 1
    names: dict[str, object] = {}
    exec(example.replace("/dev/nvme0n1", "nvme0n1"), names)

    def run(*arguments: str) -> str:
        ran = CliRunner().invoke(cli, arguments)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    run("train", "--trace", "az.blk", "-o", "models")
    assert Path("az.linnos").read_bytes() == Path("models/az.linnos").read_bytes()
    judged = json.loads(run("evaluate", "--model", "az.linnos", "--trace", "later.blk", "--json"))
    shown = names["result"].to_json()  # type: ignore[attr-defined]
    assert {name: judged[name] for name in shown} == shown
    [row] = json.loads(run("label", "--trace", "az.blk", "--json"))["drives"]
    assert row["threshold_us"] == names["point"].threshold_us  # type: ignore[attr-defined]
    assert (drive / "model").read_bytes() == Path("az.linnos").read_bytes()
    assert (drive / "mode").read_text() == "observe"


def test_a_table_goes_through_in_the_recordings_own_chunks(tmp_path: Path) -> None:
    """Bursts are drawn per chunk: with other chunks, training would see others."""
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


def test_what_a_model_of_latencies_sees_of_a_table_is_in_its_recording(tmp_path: Path) -> None:
    """Requests are not in a table: of the same file the same, of another one nothing."""
    path = array_trace(tmp_path / "az.blk", 1, 1000)
    table = linnapp.load(path, chunk_ios=300)
    chunks = list(open_recording(path, overdue_us=120, chunk_ios=300))
    again = list(open_recording(table, overdue_us=120))
    assert [len(chunk) for chunk in again] == [len(chunk) for chunk in chunks]
    assert all(chunk.features is not None and chunk.features.any() for chunk in chunks)
    for one, other in zip(chunks, again, strict=True):
        assert np.array_equal(one.features, other.features)
    assert all(chunk.features is None for chunk in open_recording(table))
    with path.open("ab") as recording:
        recording.write(path.read_bytes()[:48])
    with pytest.raises(TraceError, match=r"az\.blk: has changed since the table was read"):
        open_recording(table, overdue_us=120)
    path.unlink()
    with pytest.raises(TraceError, match=r"az\.blk: No such file"):
        open_recording(table, overdue_us=120)


def test_as_a_data_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # All that is asked of pandas is its constructor, which takes a dict of columns.
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    table = linnapp.load(array_trace(tmp_path / "az.blk", 1, 300))
    frame = table.to_pandas()
    assert {len(column) for column in frame.values()} == {len(table)}
    assert {column.ndim for column in frame.values()} == {1}
    assert np.array_equal(frame["hist_latency_us_1"], table.hist_latency_us[:, -1])
    assert frame["is_served_read"].sum() == 300


def test_without_pandas_there_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = linnapp.load(array_trace(tmp_path / "az.blk", 1, 50))
    with pytest.raises(linnapp.LinnappError, match="pip install pandas"):
        table.to_pandas()


@pytest.mark.parametrize(
    ("library", "words", "use"),
    [
        ("tensorflow", "training needs TensorFlow .*pip install tensorflow", import_tensorflow),
        (
            "sklearn.ensemble",
            "--bound needs scikit-learn .*pip install scikit-learn",
            lambda: black_box_auc("none.blk", 1),
        ),
        (
            "distributed",
            "a fleet needs Dask .*pip install distributed",
            lambda: train_fleet({}, ".", Recipe()),
        ),
        (
            "matplotlib",
            "figures need matplotlib .*pip install matplotlib",
            lambda: check_can_draw("l.svg"),
        ),
    ],
)
def test_a_library_that_is_missing_is_no_fault_of_the_trace(
    library: str, words: str, use: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(linnapp.LinnappError, match=words) as error:
        use()
    assert not isinstance(error.value, TraceError)


def test_a_library_is_to_be_installed_where_it_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LINNAPP_ENVIRONMENT", raising=False)
    monkeypatch.setattr(sys, "prefix", "/srv/our tools")
    assert install_command("dask") == "'/srv/our tools/bin/pip' install dask"
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    root = Path(__file__).parents[2]
    assert install_command("dask") == f"make -C {root} venv, and run {root}/.venv/bin/linnapp"
    monkeypatch.setattr("linnapp.errors.__file__", "/usr/lib/linnapp/errors.py")
    assert install_command("dask") == "pip install dask"
    monkeypatch.setenv("LINNAPP_ENVIRONMENT", "/v")
    assert install_command("dask").endswith(" /v && sudo /v/bin/pip install dask")


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
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = linnapp.nothing
