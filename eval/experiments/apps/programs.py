# SPDX-License-Identifier: MIT
"""The applications: their packages, their loads in the guest, and their reports."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.experiments.apps import reports
from eval.experiments.apps.reports import Operations
from linnapp.lab.work import StepError

#: The packages that only this experiment needs.
PACKAGES = "packaging/apt/apps.txt"

#: The folders of commands in the guest, and of PostgreSQL, which has one folder for each version.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_POSTGRES = "/usr/lib/postgresql"


@dataclass(frozen=True)
class Application:
    """An application and its load."""

    #: Its script is guest/NAME.sh.
    name: str
    title: str
    #: The required commands and files, and the Debian package of each.
    programs: Mapping[str, str]
    #: Arguments of the script's `make_data`: the amount of data.
    data: tuple[int, ...]
    #: Arguments of the script's `run_app` between the time and the seed.
    load: tuple[int, ...]
    #: Length of a run.
    seconds: float
    #: Names and titles of the measured loads.
    loads: Mapping[str, str]
    #: Reads its reports in a folder: {load: operations}.
    operations: Callable[[Application, Path], dict[str, Operations]]

    def missing(self) -> list[tuple[str, str]]:
        """Return the commands that are not installed, each with its Debian package."""
        return [(c, package) for c, package in self.programs.items() if find(c) is None]


def find(command: str) -> str | None:
    """Return the path of a command or file of a guest's script; of PostgreSQL the newest."""
    if command.startswith("/"):
        return command if Path(command).exists() else None
    if "/" in command:
        found = Path(_POSTGRES).glob(f"*/{command}")
        return str(max(found, key=lambda path: float(path.parts[-3]), default="")) or None
    return shutil.which(command, path=_PATH)


def require(applications: Sequence[Application]) -> None:
    """Refuse to begin without the programs."""
    missing = [
        (app, command, package) for app in applications for command, package in app.missing()
    ]
    if missing:
        named = "; ".join(f"{app.title}: no {command}, of the Debian package {package}"
                          for app, command, package in missing)  # fmt: skip
        packages = " ".join(dict.fromkeys(package for _, _, package in missing))
        raise StepError(
            f"not installed: {named}. `apt-get install --no-install-recommends {packages}` (all "
            f"are in {PACKAGES}), or run the others only: LINNOS_APPS=NAME,NAME of "
            f"{', '.join(APPLICATIONS)}"
        )


def _client(app: Application, folder: Path) -> dict[str, Operations]:
    return {app.name: reports.read_client_report(folder / "reads.csv", app.seconds)}


def _postgres(app: Application, folder: Path) -> dict[str, Operations]:
    seconds = {"select": app.load[1], "tpcb": app.load[3]}
    found = {}
    for name, length_s in seconds.items():
        logs = [path for path in folder.glob(f"{name}.*") if path.suffix[1:].isdigit()]
        start_s = float((folder / f"{name}.start").read_text())
        log = reports.only_path(logs, f"logs of pgbench in {folder}")
        found[name] = reports.read_pgbench_log(log, start_s, length_s)
    return found


def _rocksdb(app: Application, folder: Path) -> dict[str, Operations]:
    return {"rocksdb": reports.read_db_bench_report(folder / "db_bench.txt")}


def _fio(app: Application, folder: Path) -> dict[str, Operations]:
    log = reports.only_path(list(folder.glob("fio_lat.*.log")), f"latency logs of fio in {folder}")
    return {"fio": reports.read_fio_report(log, folder / "fio.json", app.seconds)}


APPLICATIONS = {
    app.name: app
    for app in (
        Application(
            "wiredtiger", "WiredTiger",
            {"wt": "wiredtiger", "/usr/include/wiredtiger.h": "libwiredtiger-dev", "cc": "gcc"},
            (250_000,), (250_000, 3200, 8), 8.0,
            {"wiredtiger": "WiredTiger: one value by key"}, _client,
        ),
        Application(
            "sqlite", "SQLite", {"python3": "python3"}, (250_000,), (250_000, 3200, 8), 8.0,
            {"sqlite": "SQLite: one row by key"}, _client,
        ),
        Application(
            "postgres", "PostgreSQL",
            {"bin/initdb": "postgresql", "bin/pgbench": "postgresql"},
            (14,), (1200, 5, 500, 5), 10.0,
            {"select": "PostgreSQL: read-only", "tpcb": "PostgreSQL: TPC-B"}, _postgres,
        ),
        Application(
            "rocksdb", "RocksDB", {"db_bench": "rocksdb-tools"}, (260_000,), (260_000, 6), 6.0,
            {"rocksdb": "RocksDB: random reads"}, _rocksdb,
        ),
        Application(
            "fio", "fio", {"fio": "fio"}, (), (6,), 6.0, {"fio": "fio: random reads"}, _fio,
        ),
    )
}  # fmt: skip


def version(app: Application) -> str:
    """Return the installed version as the program reports it, or that of the SQLite library."""
    asked = {
        "sqlite": ("-Ic", "import sqlite3; print(sqlite3.sqlite_version)"),
        "wiredtiger": ("-V",),
    }.get(app.name, ("--version",))
    command = list(app.programs)[-1 if app.name == "postgres" else 0]
    result = subprocess.run(
        [find(command) or command, *asked],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"{app.title} {re.sub(r'^[^0-9]*', '', result.stdout.strip())}"
