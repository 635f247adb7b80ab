# SPDX-License-Identifier: MIT
"""Make a table, and read and compare rows of it by their key. Runs in the guest.

    sqlite_client.py make DATABASE ROWS
    sqlite_client.py read DATABASE ROWS RATE SECONDS SEED REPORT
    sqlite_client.py check DATABASE

Reads arrive at a rate (Poisson), independent of earlier reads. REPORT gets a line for each read:
its due time in us from the start, and the time from then until its row was there.
"""

import hashlib
import itertools
import random
import sqlite3
import sys
import threading
import time
from pathlib import Path

#: The maximum number of concurrent reads, each with its own connection.
THREADS = 32
VALUE_BYTES = 1000


def value(key: int) -> bytes:
    """Return the value of a row, which no other row has."""
    return hashlib.shake_128(key.to_bytes(8, "little")).digest(VALUE_BYTES)


def make(database: str, rows: int) -> None:
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE kv (k INTEGER PRIMARY KEY, v BLOB)")
    connection.executemany("INSERT INTO kv VALUES (?, ?)", ((k, value(k)) for k in range(rows)))
    connection.commit()
    connection.close()


class Reader:
    """Reads that threads do when they are due."""

    def __init__(self, database: str, due_us: list[int], keys: list[int]) -> None:
        self.database, self.due_us, self.keys = database, due_us, keys
        self.turn = itertools.count()
        self.latency_us = [0.0] * len(keys)
        self.wrong: list[str] = []
        self.start_ns = time.monotonic_ns()

    def run(self) -> None:
        try:
            connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
            while (i := next(self.turn)) < len(self.keys):
                due_ns = self.start_ns + self.due_us[i] * 1000
                if (early_ns := due_ns - time.monotonic_ns()) > 0:
                    time.sleep(early_ns / 1e9)
                query = "SELECT v FROM kv WHERE k = ?"
                row = connection.execute(query, (self.keys[i],)).fetchone()
                self.latency_us[i] = (time.monotonic_ns() - due_ns) / 1000
                if row is None or row[0] != value(self.keys[i]):
                    self.wrong.append(f"row {self.keys[i]} is not what was written")
        except sqlite3.Error as error:
            self.wrong.append(str(error))


def read(database: str, rows: int, rate: float, seconds: float, seed: int, report: str) -> None:
    rng = random.Random(seed)
    due_us: list[int] = []
    time_s = rng.expovariate(rate)
    while time_s < seconds:
        due_us.append(round(time_s * 1e6))
        time_s += rng.expovariate(rate)
    reader = Reader(database, due_us, [rng.randrange(rows) for _ in due_us])
    threads = [threading.Thread(target=reader.run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if reader.wrong:
        sys.exit(f"{database}: {len(reader.wrong)} wrong, the first: {reader.wrong[0]}")
    with Path(report).open("w") as lines:
        for due, latency in zip(due_us, reader.latency_us, strict=True):
            print(due, f"{latency:.3f}", sep=",", file=lines)


def check(database: str) -> None:
    result = sqlite3.connect(f"file:{database}?mode=ro", uri=True).execute("PRAGMA integrity_check")
    if (answer := result.fetchone()[0]) != "ok":
        sys.exit(f"{database}: {answer}")


def main() -> None:
    what, database, *rest = sys.argv[1:]
    if what == "make":
        make(database, int(rest[0]))
    elif what == "read":
        rows, rate, seconds, seed, report = rest
        read(database, int(rows), float(rate), float(seconds), int(seed), report)
    else:
        check(database)


if __name__ == "__main__":
    main()
