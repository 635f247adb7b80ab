# SPDX-License-Identifier: MIT
"""liblinnos from Python, and its examples: data, counters and messages."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replaying import BUILT, LIBRARY
from trees_by_hand import random_trees

from linnapp import replicas
from linnapp.replicas import Replicas

BYTES = 1 << 20
EXAMPLE = BUILT / "examples" / "read_replicas"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    subprocess.run(["make", "-s", "-C", LIBRARY, f"OUT={BUILT}"], check=True, capture_output=True)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Return three replicas in which each word is its number."""
    found = [tmp_path / f"replica{k}" for k in range(3)]
    for path in found:
        path.write_bytes(np.arange(BYTES // 8, dtype=np.uint64).tobytes())
    return found


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"m{k}.linnos" for k in range(3)]
    for path in found:
        random_trees().save(path)
    return found


def test_reads_return_the_content_of_the_replicas(paths: list[Path], models: list[Path]) -> None:
    content = paths[0].read_bytes()
    rng = np.random.default_rng(1)
    with Replicas(paths, models) as array:
        assert array.size == BYTES
        for _ in range(300):
            size, offset = int(rng.integers(0, 20_000)), int(rng.integers(0, BYTES))
            assert array.pread(size, offset) == content[offset : offset + size]
        words = np.zeros((16, 32), np.uint64)
        assert array.preadinto(words, 4096) == words.nbytes
        assert np.array_equal(words.ravel(), np.arange(512, 1024, dtype=np.uint64))
        some = bytearray(10)
        assert array.preadinto(memoryview(some)[2:5], 8) == 3
        assert some == b"\0\0" + content[8:11] + b"\0" * 5
        assert array.pread(100, BYTES - 30) == content[-30:]
        assert array.pread(100, BYTES + 30) == b"" == array.pread(0, 0)


def test_threads_share_an_array(paths: list[Path]) -> None:
    def check(seed: int) -> int:
        offsets = np.random.default_rng(seed).integers(0, BYTES // 4096, 200) * 4096
        words = np.zeros(512, np.uint64)
        for offset in offsets.tolist():
            assert array.preadinto(words, offset) == 4096
            assert words[0] == offset // 8 and words[511] == offset // 8 + 511
        return len(offsets)

    with Replicas(paths, hedge_us=100, max_duplicates=10) as array:
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(check, range(4))) == 800
        stats = array.stats()
    assert stats.reads == 800 == sum(stats.served_by) and stats.bytes == 800 * 4096
    assert stats.hedges <= 80 and stats.failed == 0


def test_read_options_are_followed(paths: list[Path]) -> None:
    content = paths[0].read_bytes()
    first, second = bytearray(100), np.zeros(512, np.uint64)
    with Replicas(paths, hedge_us=1, max_duplicates=100) as array:
        assert array.preadv([first, b"", second], 8) == 4196
        assert bytes(first) + second.tobytes() == content[8 : 8 + 4196]
        for _ in range(50):
            assert array.pread(4096, 0, home=2, never_hedge=True) == content[:4096]
        # A minute is enough.
        assert array.pread(4096, 0, deadline_us=60_000_000) == content[:4096]
        stats = array.stats()
        assert stats.served_by[2] >= 50 and stats.late == 0
        with pytest.raises(OSError, match="home is 3; it must be between 0 and 2"):
            array.pread(8, 0, home=3)


def test_replica_is_dropped_restored_and_counted(
    tmp_path: Path, paths: list[Path], models: list[Path]
) -> None:
    with Replicas(paths, [*models[:2], None], home=1) as array:
        assert array.replica_stats(1).state == "silent"
        for _ in range(10):
            array.pread(4096, 0)
        second = array.replica_stats(1)
        assert (second.served, second.answered, second.errors) == (10, 10, 0)
        assert sum(second.histogram.values()) == 10 and second.chooses and second.model_id
        array.drop(1)
        array.pread(4096, 0)
        assert array.replica_stats(1).state == "dropped" and array.stats().served_by[1] == 10
        array.restore(1)
        # A probe copy completes first.
        array.pread(4096, 0)
        assert array.stats().served_by[1] == 10
        while array.stats().served_by[1] == 10:
            array.pread(4096, 0)
        assert array.stats().probes > 0
        array.drop(0)
        array.drop(2)
        with pytest.raises(OSError, match="replica 1 cannot be dropped"):
            array.drop(1)
        with pytest.raises(OSError, match="replica is 3; it must be between 0 and 2"):
            array.replica_stats(3)
        array.set_model(2, models[0])
        assert array.replica_stats(2).model_id == array.replica_stats(0).model_id
        (tmp_path / "text").write_text("no model")
        with pytest.raises(OSError, match="bad magic"):
            array.set_model(2, tmp_path / "text")
        array.set_model(2, None)
        assert not array.replica_stats(2).chooses


def test_reads_end_with_one_replica_and_without_an_absent_one(paths: list[Path]) -> None:
    with Replicas([paths[0], None, paths[2]], ask=True, home=1) as array:
        # This kernel has no LinnOS.
        assert not array.asks and array.stats().queried == 0
        paths[2].write_bytes(b"")
        assert array.pread(8, 8) == (1).to_bytes(8, "little")
        assert array.replica_stats(1).state == "dropped"
        with pytest.raises(OSError, match="was absent when the array was opened"):
            array.restore(1)
        for offset in (-1, 1 << 64):
            with pytest.raises(OSError, match="no such offset") as raised:
                array.pread(8, offset)
            assert raised.value.errno == errno.EINVAL


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("replica0 none", {}, "replica .*none: No such file"),
        ("replica0 replica0", {}, "the same file or device as replica"),
        ("", {}, "n_replicas is 0"),
        ("replica0 replica1", {"models": [None, "text"]}, "bad magic.*train --kind latency"),
        ("replica0 replica1", {"models": [None]}, "models has 1 paths for 2 replicas"),
        ("replica0 replica1", {"models": "m"}, "models is one path, 'm'; it must be a list"),
        ("replica0 replica1", {"max_duplicates": 200}, "max_duplicates is 200"),
        ("replica0 replica1", {"home": 3}, "home is 3; it must be between 0 and 1"),
        ("replica0 replica1", {"hedge_us": 1 << 32}, "hedge_us is 4294967296"),
        ("replica0 replica1", {"duplicates": True, "hedge_us": 9}, "exclude each other; set one"),
        ("replica0 replica1", {"hedge_percentile": 0.95}, "is 0.95; it is in percent"),
    ],
)
def test_opening_errors_name_the_argument(
    paths: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    options: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.chdir(paths[0].parent)
    Path("text").write_text("no model")
    with pytest.raises((OSError, ValueError, TypeError), match=message):
        Replicas(given.split(), **options)


def test_drives_that_cannot_be_queried_are_named(paths: list[Path]) -> None:
    """The lab tests the answers of a kernel with LinnOS."""
    with paths[0].open() as file:
        with pytest.raises(OSError, match="this kernel lacks LinnOS") as caught:
            replicas.best([file.fileno()], 4096)
        assert caught.value.errno == errno.ENOTTY
        with pytest.raises(ValueError, match="fds has 0 drives; it must have 1 to 16"):
            replicas.best([], 4096)
        with pytest.raises(ValueError, match="17 drives"):
            replicas.best([file.fileno()] * 17, 4096)
        with pytest.raises(ValueError, match="size is 0; it must be 1 or more"):
            replicas.best([file.fileno()], 0)
    with pytest.raises(OSError, match="not all of them are open for reading"):
        replicas.best([-1], 4096)


def test_unwritable_buffers_are_refused(paths: list[Path]) -> None:
    with Replicas(paths) as array:
        with pytest.raises(TypeError, match="not writable"):
            array.preadinto(b"1234", 0)
        with pytest.raises(TypeError):
            array.preadinto(np.zeros((8, 8))[:, ::2], 0)
        assert array.stats().reads == 0
    array.close()
    with pytest.raises(ValueError, match="the array is closed"):
        array.pread(1, 0)


def test_the_examples_in_python_run(
    paths: list[Path], models: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (LIBRARY.parent / "docs" / "liblinnos.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", document, re.S)
    monkeypatch.chdir(paths[0].parent)
    example = re.sub(r"/dev/nvme(\d)n1", r"replica\1", example)
    example = re.sub(r"models/nvme(\d)n1.linnos", r"m\1.linnos", example)
    names: dict[str, object] = {}
    exec(example, names)
    assert names["header"] == paths[0].read_bytes()[:512]
    assert np.array_equal(names["block"], np.arange(512, 1024, dtype=np.uint64))  # type: ignore[arg-type]
    replicas = [f"{path}={model}" for path, model in zip(paths, models, strict=True)]
    program = [sys.executable, LIBRARY / "examples" / "read_replicas.py"]
    result = subprocess.run([*program, *replicas], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(r"16384000 bytes, \d+ of 4000 reads redirected, 0 errors\n", result.stdout)
    result = subprocess.run([*program, "/nowhere"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "read_replicas.py: replica /nowhere: No such file or directory\n"


def test_c_example_prints_latencies(paths: list[Path], models: list[Path]) -> None:
    replicas = [f"{path}={model}" for path, model in zip(paths, models, strict=True)]

    def run(*arguments: str) -> dict[str, float]:
        result = subprocess.run(
            [EXAMPLE, "--reads", "500", *arguments, *replicas], capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return {name: float(value) for name, value in map(str.split, result.stdout.splitlines())}

    home, best = run("--home-only"), run("--hedge-percentile", "90", "--max-duplicates", "10")
    assert home["reads"] == best["reads"] == 500
    assert best["hedges"] <= 50 and best["failovers"] == 0
    assert {"redirected", "saved_us_estimate"} <= best.keys() - home.keys()
    for bad in (["/nowhere"], [], ["--reads", "0", str(paths[0])], ["--bad", str(paths[0])]):
        result = subprocess.run([EXAMPLE, *bad], capture_output=True, text=True)
        assert result.returncode == 1 and result.stdout == "" and result.stderr
