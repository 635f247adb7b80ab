# SPDX-License-Identifier: MIT
"""Processes that train models. Each loads TensorFlow once, instead of once for every cell.

Unlike the processes of `linnapp.learn.parallel`, workers persist from one training to the next, and
any thread can use one. A worker runs `linnapp train` as a function. Each training uses one thread
and does not affect later ones.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from linnapp.lab.host import models_of, train_arguments, training_environment
from linnapp.lab.work import StepError, tail

#: Libraries that numpy may compute with would start a thread for each CPU in each worker.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_lock = threading.Lock()
_pool: ProcessPoolExecutor | None = None
_limit = 1


def use_workers(limit: int) -> None:
    """Set the maximum number of workers. They start when there is work."""
    global _limit
    _limit = limit


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function of a module in a worker, and return its result or raise its exception."""
    global _pool
    with _lock:
        if _pool is None:
            clean = training_environment()
            for name in os.environ.keys() - clean.keys():
                del os.environ[name]
            os.environ.update(clean, **dict.fromkeys(_ONE_THREAD, "1"))
            # Do not fork, because this process has threads. The caller may be pinned to one CPU.
            context = multiprocessing.get_context("spawn")
            cpus = os.sched_getaffinity(os.getpid())
            _pool = ProcessPoolExecutor(_limit, context, _begin, (cpus,))
        pool = _pool
    return pool.submit(function, *arguments).result()


def _begin(cpus: set[int]) -> None:
    """Initialise a worker, which ends without a message if the user presses ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.sched_setaffinity(0, cpus)


def stop() -> None:
    """End the workers; the next call starts new ones."""
    global _pool
    with _lock:
        pool, _pool = _pool, None
    if pool is not None:
        pool.shutdown(wait=True, cancel_futures=True)


def train(traces: Sequence[Path], model_dir: Path, log: Path, *options: str) -> list[Path]:
    """Train one model per trace, as `linnapp train` does."""
    arguments = train_arguments(traces, model_dir, "--processes", "1", *options)
    log.parent.mkdir(parents=True, exist_ok=True)
    call(_train, arguments, log)
    return models_of(traces, model_dir)


def _train(arguments: list[str], log: Path) -> None:
    # Import it in the workers only, because it takes a while.
    from eval.research import command

    with (
        log.open("w") as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        failure = ""
        try:
            command.main(arguments, prog_name="linnapp train", standalone_mode=False)
        except Exception as error:  # any error is reported by the caller
            failure = str(error) or type(error).__name__
    if failure:
        raise StepError(f"linnapp train {' '.join(arguments)}: {failure}\n{tail(log)}")
