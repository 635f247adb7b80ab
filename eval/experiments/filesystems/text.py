# SPDX-License-Identifier: MIT
"""The data as tables and in words, with uScope's own figures beside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eval.experiment import Table
from eval.experiments.filesystems.commits import STEPS
from eval.experiments.filesystems.design import (
    CACHED,
    CONFIGURATIONS,
    DEFAULT,
    DIRECT,
    EVERYWHERE,
    FLASH,
    MIXES,
    NODELALLOC,
    STEADY,
)
from eval.experiments.filesystems.guest.mixes import KINDS
from eval.experiments.filesystems.wrong import EVERY
from eval.scores import number

Row = dict[str, Any]

WRONG = (
    f"Every {EVERY}th block that the first drive stores is wrong, unless said: what comes back of "
    "the blocks of files"
)

#: What uScope's text tells of its figures, for 10 us added to 10 % of the I/Os at random.
USCOPE = (
    ("slowdown of write-intensive mixes", "9.39 %"),
    ("slowdown of the read-intensive one", "3.34 %"),
    ("ext4, varmail, the worst configuration", "19.5 %"),
    ("ext4, webserver, the worst configuration", "below 10.1 %"),
    ("f2fs, fileserver, over the configurations", "5.0 to 15.1 %"),
    ("ext4, fileserver: write of a whole file", "up to 13.3 %"),
    ("ext4, fileserver: append, create, delete", "4.8 to 8.9 %"),
    ("ext4: open, close", "not affected"),
    ("commit of the journal, data=ordered", "53.2 %"),
    ("wait for data in a commit, data=ordered: mean, p95", "51.0 %, 239.2 %"),
    ("wait for data in a commit, other modes", "about 0 us"),
    ("continuous beside random slowness, 20 %", "14.7 % more"),
)


def select(data: dict[str, Any], **fields: Any) -> list[Row]:
    """Rows with these fields; past the cache, on the steady drive, everywhere, unless said."""
    wanted = {"cache": DIRECT, "drive": STEADY.name, "region": EVERYWHERE, **fields}
    return [
        row for row in data["points"]
        if all(value is None or row[name] == value for name, value in wanted.items())
    ]  # fmt: skip


def common(data: dict[str, Any], added_us: int, **fields: Any) -> list[Row]:
    """Rows of what everything meets: so much more on 10 % of the I/Os at random."""
    return select(data, pattern="random", ratio_percent=10, added_us=added_us, **fields)


def share(triple: Sequence[float | None]) -> str:
    """A slowdown with its interval: in percent, or as a factor of the time without."""
    value = triple[0]
    if value is None:
        return "-"
    if value < 1:
        return f"{number(triple, 1, 100.0)} %"
    return "x " + number([None if v is None else 1 + v for v in triple], 1)


def _names(data: dict[str, Any], field: str) -> list[Any]:
    return list(dict.fromkeys(row[field] for row in data["points"]))


def _in_order(names: Iterable[str]) -> list[str]:
    """Configurations as they are listed in the design."""
    known = [c.title for c in CONFIGURATIONS]
    return sorted(names, key=known.index)


def is_default(row: Row) -> bool:
    """Whether a row is of a file system as it comes."""
    return bool(row["configuration"] == f"{row['file_system']} {DEFAULT}")


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Configurations, patterns, places, operations, steps of commits, and the paper's beside."""
    mixes = [mix.name for mix in MIXES]
    configurations = []
    for name in _in_order(_names(data, "configuration")):
        cells = []
        for mix in mixes:
            few, many = (_only(common(data, added, configuration=name, mix=mix))
                         for added in (10, 1000))  # fmt: skip
            cells += [f"{few['base_us']:.1f}", share(few["slowdown"]), share(many["slowdown"])]
        configurations.append((name, *cells))
    by_pattern = [
        (
            row["configuration"], row["mix"], row["pattern"], f"{row['ratio_percent']} %",
            str(row["added_us"]), f"{100 * row['hit']:.1f} %", f"{row['base_us']:.1f}",
            f"{row['slowed_us']:.1f}", share(row["slowdown"]),
        )
        for row in select(data)
        if is_default(row)
    ]  # fmt: skip
    by_kind = [
        (row["configuration"], row["mix"],
         *(f"{row['kind_us'][k]:.1f}: {share(row['by_kind'][k])}" if k in row["by_kind"] else "-"
           for k in KINDS))
        for row in common(data, 10)
        if is_default(row)
    ]  # fmt: skip
    tables = {
        "Mean latency of an operation (us), and by how much it is longer when 10 % of the I/Os, "
        "at random, take 10 us or 1 ms more": Table(
            ("configuration",
             *(f"{mix}{what}" for mix in mixes for what in (" (us)", ", 10 us", ", 1 ms"))),
            tuple(configurations),
        ),
        "Defaults under every pattern": Table(
            ("configuration", "mix", "pattern", "share", "added us", "I/Os hit", "us", "slowed us",
             "slowdown"), tuple(by_pattern),
        ),
        "The journal or the metadata only, 10 % of its I/Os, 1 ms": Table(
            ("configuration", "mix", "slow", "of all I/Os hit", "slowdown", "everywhere",
             "I/Os hit everywhere"), tuple(_places(data)),
        ),
        "Operations of the defaults (us) and their slowdown, 10 us added to 10 %": Table(
            ("configuration", "mix", *KINDS), tuple(by_kind)
        ),
        "Through the page cache: ext4's journal modes under varmail": Table(
            ("configuration", "added us", "us", "slowed us", "slowdown", "fsync (us)",
             "fsync's slowdown"),
            tuple(
                (row["configuration"], str(row["added_us"]), f"{row['base_us']:.1f}",
                 f"{row['slowed_us']:.1f}", share(row["slowdown"]),
                 f"{row['kind_us']['fsync']:.1f}", share(row["by_kind"]["fsync"]))
                for row in select(data, cache=CACHED)
            ),
        ),
        "Steps of a commit of ext4's journal (us, mean; p95 of the whole)": Table(
            ("configuration", "added us", "commits", *STEPS, "commit", "commit's p95"),
            tuple(_step_rows(data)),
        ),
        "On a flash drive with latencies of its own (enterprise-a, aged), defaults": Table(
            ("configuration", "mix", "added us", "us", "slowdown", "on the steady drive"),
            tuple(
                (row["configuration"], row["mix"], str(row["added_us"]), f"{row['base_us']:.1f}",
                 share(row["slowdown"]),
                 share(_only(common(data, row["added_us"], configuration=row["configuration"],
                                    mix=row["mix"]))["slowdown"]))
                for row in select(data, drive=FLASH.name)
            ),
        ),
        "Beside uScope, 10 us added to 10 % at random": Table(
            ("", "uScope", "here"),
            tuple((what, theirs, ours(data, what)) for what, theirs in USCOPE),
        ),
        WRONG: Table(
            ("file system", "fault", "blocks hit", "mounted again", "read right", "wrong",
             "unreadable", "missing", "its check", "so"),
            tuple(
                (row["title"], row["fault"], str(row["injected"]),
                 f"{row['mounted']} of {row['runs']}",
                 *(str(row[name]) for name in ("right", "wrong", "unreadable", "missing")),
                 row["checked"], verdict(row))
                for row in data["wrong"]
            ),
        ),
    }  # fmt: skip
    return {heading: table for heading, table in tables.items() if table.rows}


def verdict(row: Row) -> str:
    """What becomes of wrong data."""
    if row["mounted"] < row["runs"]:
        return "not to be mounted again"
    told = [
        word
        for word, name in (
            ("passed on", "wrong"), ("detected", "unreadable"), ("files lost", "missing"),
        )
        if row[name]
    ]  # fmt: skip
    # md knows no better, but may have read the other mirror.
    by_btrfs = row["file_system"] == "btrfs" and not row["kind"].startswith("md")
    return " and ".join(told) or ("corrected" if by_btrfs else "none seen")


def _only(rows: list[Row]) -> Row:
    (row,) = rows
    return row


def _places(data: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for row in select(data, region=None, added_us=1000):
        if row["region"] != EVERYWHERE:
            all_of_it = _only(common(data, 1000, configuration=row["configuration"],
                                     mix=row["mix"]))  # fmt: skip
            yield (
                row["configuration"], row["mix"], row["region"], f"{100 * row['hit']:.1f} %",
                share(row["slowdown"]), share(all_of_it["slowdown"]),
                f"{100 * all_of_it['hit']:.1f} %",
            )  # fmt: skip


def _step_rows(data: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    for row in select(data, cache=CACHED):
        if row["steps"] is None:
            continue
        base, slowed = row["steps"]
        if row["added_us"] == min(r["added_us"] for r in select(data, cache=CACHED)):
            yield _step_row(row["configuration"], "none", base)
        yield _step_row(row["configuration"], str(row["added_us"]), slowed)


def _step_row(name: str, added: str, steps: dict[str, dict[str, float]]) -> tuple[str, ...]:
    whole = steps["commit"]
    return (
        name, added, f"{whole['n']:.0f}", *(f"{steps[step]['mean_us']:.1f}" for step in STEPS),
        f"{whole['mean_us']:.1f}", f"{whole['p95_us']:.1f}",
    )  # fmt: skip


def _spread(rows: Iterable[Row], kind: str | None = None) -> str:
    """The least and the greatest slowdown of rows, in percent."""
    shares = (row["slowdown"] if kind is None else row["by_kind"].get(kind) for row in rows)
    return _range([f"{100 * share[0]:.1f}" for share in shares if share], after=" %")


def ours(data: dict[str, Any], what: str) -> str:
    """Our number for a line of ``USCOPE``."""
    rows = common(data, 10)
    ext4 = [row for row in rows if row["file_system"] == "ext4"]
    default = [row for row in ext4 if is_default(row)]
    cached = common(data, 10, cache=CACHED)
    early = _allocating_early(cached)
    of_mix = {mix.name: [row for row in rows if row["mix"] == mix.name] for mix in MIXES}
    match what:
        case "slowdown of write-intensive mixes":
            return f"{_spread(of_mix['fileserver'] + of_mix['varmail'])}, all configurations"
        case "slowdown of the read-intensive one":
            return f"{_spread(of_mix['webserver'])}, all configurations"
        case "ext4, varmail, the worst configuration":
            return _spread(row for row in ext4 if row["mix"] == "varmail")
        case "ext4, webserver, the worst configuration":
            return _spread(row for row in ext4 if row["mix"] == "webserver")
        case "f2fs, fileserver, over the configurations":
            return _spread(r for r in of_mix["fileserver"] if r["file_system"] == "f2fs")
        case "ext4, fileserver: write of a whole file":
            return _spread((r for r in default if r["mix"] == "fileserver"), "write")
        case "ext4, fileserver: append, create, delete":
            files = [r for r in default if r["mix"] == "fileserver"]
            return ", ".join(_spread(files, kind) for kind in ("append", "create", "delete"))
        case "ext4: open, close":
            longer = [row["kind_us"][kind] * row["by_kind"][kind][0] for row in default
                      for kind in ("open", "close") if kind in row["by_kind"]]  # fmt: skip
            return f"{max(longer):.1f} us at most" if longer else "not run"
        case "commit of the journal, data=ordered":
            return _beside_nodelalloc(cached, "commit", "mean_us")
        case "wait for data in a commit, data=ordered: mean, p95":
            return _beside_nodelalloc(cached, "wait for data", "mean_us", "p95_us")
        case "wait for data in a commit, other modes":
            others = [r for r in cached if r["steps"] and not is_default(r) and r not in early]
            waits = [f"{r['steps'][0]['wait for data']['mean_us']:.1f}" for r in others]
            return f"{', '.join(waits)} us" if waits else "not run"
        case "continuous beside random slowness, 20 %":
            return _beside_random(data, "continuous", 10)
    raise KeyError(what)


def _allocating_early(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["configuration"] == f"ext4 {NODELALLOC}"]


def _beside_nodelalloc(rows: list[Row], step: str, *fields: str) -> str:
    """By how much a step of the default's commits is longer, and of those that wait for data."""
    default = [row for row in rows if is_default(row)]
    said = [", ".join(_of_steps(few, step, f) for f in fields)
            for few in (default, _allocating_early(rows))]  # fmt: skip
    return f"{said[0]}; {NODELALLOC} {said[1]}"


def _of_steps(rows: list[Row], step: str, field: str) -> str:
    if not rows:
        return "not run"
    base, slowed = (steps[step][field] for steps in _only(rows)["steps"])
    # A share of next to nothing says nothing.
    return f"{100 * (slowed / base - 1):.1f} %" if base >= 1 else f"{base:.1f} to {slowed:.1f} us"


def _beside_random(data: dict[str, Any], pattern: str, added_us: int) -> str:
    """By how much more time an I/O that is hit adds than under random slowness, at 20 %.

    A run ends anywhere in a cycle of the continuous pattern, so that shares differ a little.
    """

    def added(row: Row) -> float:
        return float((row["slowed_us"] - row["base_us"]) / row["hit"])

    ratios = []
    for row in select(data, pattern="random", ratio_percent=20, added_us=added_us):
        for other in select(data, pattern=pattern, ratio_percent=20, added_us=added_us,
                            configuration=row["configuration"], mix=row["mix"]):  # fmt: skip
            ratios.append(100 * (added(other) / added(row) - 1))
    return _range([f"{ratio:+.1f}" for ratio in ratios], after=" %")


def reading(data: dict[str, Any]) -> str:
    """How robust each is, and which option serves better."""
    parts = [
        "By how much longer an operation takes in the mean when 10 % of the drive's I/Os, at "
        "random, take longer, over the configurations of each file system:",
        "\n".join(_overview(data)),
        "10 us on 10 % of the I/Os are 2.9 % of the time that this drive takes for 4 KiB; with 1 "
        "ms it would be 3.9 times as long. What is above that is amplified by the file system, "
        "which waits for several I/Os at once, and so for the slowest.",
        "Which option serves better: the lowest mean with 1 ms added to 10 % of the I/Os at "
        "random, beside the default; told only where their intervals, from those of the slowdowns, "
        f"do not meet; without {', '.join(CACHES)}, which caches what is to go past the cache.",
        "\n".join(_better(data)),
        "Patterns, 20 % of the I/Os: by how much more time an I/O that is hit adds than under "
        "random slowness, defaults: "
        + "; ".join(
            f"{pattern}, {added} us: {_beside_random(data, pattern, added)}"
            for pattern in ("continuous", "interval")
            for added in (10, 1000)
        )
        + ". Time that is added holds up no other I/O of the drive; in uScope's RAM disk one CPU "
        "waited for it.",
    ]
    return "\n\n".join(parts)


def _overview(data: dict[str, Any]) -> Iterable[str]:
    for system in _names(data, "file_system"):
        said = [
            f"{mix.name} {_spread(common(data, 10, file_system=system, mix=mix.name))} (10 us), "
            f"{_factors(common(data, 1000, file_system=system, mix=mix.name))} (1 ms)"
            for mix in MIXES
        ]
        yield f"- {system}: " + "; ".join(said)


def _factors(rows: list[Row]) -> str:
    return _range([f"{1 + row['slowdown'][0]:.1f}" for row in rows], "x ")


def _range(values: list[str], before: str = "", after: str = "") -> str:
    """The least and the greatest of numbers, once where they look the same."""
    if not values:
        return "not run"
    ends = dict.fromkeys((min(values, key=float), max(values, key=float)))
    return f"{before}{' to '.join(ends)}{after}"


#: Takes O_DIRECT and caches all the same: what it seems to gain there is memory's.
CACHES = ("ext4 data=journal",)


def _better(data: dict[str, Any]) -> Iterable[str]:
    for system in _names(data, "file_system"):
        for mix in MIXES:
            rows = common(data, 1000, file_system=system, mix=mix.name)
            base = _only([row for row in rows if is_default(row)])
            best = min(
                (row for row in rows if row["configuration"] not in CACHES),
                key=lambda row: row["slowed_us"],
            )
            text = (
                f"- {system}, {mix.name}: default {base['base_us']:.1f} us, slowed "
                f"{base['slowed_us']:.1f}"
            )
            if best is base or not apart(base, best):
                yield text + "; none is better"
            else:
                yield (
                    f"{text}; {best['configuration']} {best['base_us']:.1f}, slowed "
                    f"{best['slowed_us']:.1f}"
                )


def apart(base: Row, other: Row) -> bool:
    """Whether two configurations differ by more than the intervals of their slowdowns allow."""
    spans = []
    for row in (base, other):
        _, low, high = row["slowdown"]
        if low is None or high is None:
            return False
        spans.append((row["base_us"] * (1 + low), row["base_us"] * (1 + high)))
    (a, b), (c, d) = spans
    return bool(d < a or b < c)
