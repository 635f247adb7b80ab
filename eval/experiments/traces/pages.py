# SPDX-License-Identifier: MIT
"""The tables of the pages that show public traces; `python -m eval --pages traces` writes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from eval import demo
from eval.cache import RESULTS, ROOT
from eval.contenders import LITTLE
from eval.experiments.traces.replays import BURSTS, CALM, OFF, ON
from eval.experiments.traces.scores import (
    H95,
    HEDGE_CAPPED,
    HL,
    LEVEL,
    NOTHING,
    QUEUE_H95,
    RULES,
    TWICE,
    TWO,
    Line,
    counts,
    lines,
    shares,
)
from eval.experiments.traces.text import COLUMNS, percent
from eval.page_tables import Shown

#: Ends of files' names, in the order of the tables; a trace that is none of them goes by its name.
NAMES = {
    "msr.cut.per_10k.rw_20_80.105.trace": "MSR 105",
    "msr.cut.per_10k.rw_40_60.1370.trace": "MSR 1370",
    "wsrch-small.trace": "MQSim wsrch",
    "tpcc-small.trace": "MQSim tpcc",
    "tencent.cut.per_50k.rw_60_40.490.trace": "Tencent 490",
    "fio.blk.xz": "fio, recorded",
    "pgbench.blk.xz": "pgbench, recorded",
}

#: What fits a first page.
FRONT = tuple(NAMES.values())[:5]

#: Who learns nothing, or is another's, and sends at most 5 % of the reads twice; Linux's md, too.
RIVALS = (*RULES, "heimdall", HEDGE_CAPPED, QUEUE_H95, OFF)

#: Of the counts those that a page has, of means and of p99.
COUNTED = (
    *(
        f"`{who}` against doing nothing"
        for who in ("linnos", HL, "lowest", TWO, H95, HEDGE_CAPPED, QUEUE_H95)
    ),
    *(f"`{who}` against the best rule" for who in ("linnos", "lowest", TWO)),
    *(f"`{TWO}` against `{rival}`" for rival in TWICE),
    "md raid1, `on` against `off`",
)

#: Of those a page that has little room, without what only has a bearing on another row.
SUMMED = (
    *(f"`{who}` against doing nothing" for who in ("lowest", TWO, H95, HEDGE_CAPPED, "linnos")),
    "md raid1, `on` against `off`",
    "`lowest` against the best rule",
    *(f"`{TWO}` against `{rival}`" for rival in (QUEUE_H95, "hedge", "clone")),
)

#: Of the tables of all runs.
SHOWN = (*COLUMNS[:6], "shortest-queue-h95", *COLUMNS[6:-1], "heimdall", COLUMNS[-1])

#: Who is there without a limit of extra I/O, too.
LIMITED = (HEDGE_CAPPED, QUEUE_H95)

MEAN, P99 = "mean_us", "p99_us"

#: Who against whom, and how many of those above and of those below are so beyond chance.
Sure = Mapping[str, tuple[str, str]]


def committed() -> list[Line]:
    """The lines of the committed results, traces by the names that pages have for them."""
    numbers = json.loads((RESULTS / "traces.json").read_text())["numbers"]
    runs = [{**run, "trace": called(run["trace"])} for run in numbers]
    known = [*NAMES.values()]
    places = sorted(
        {(run["trace"], run["iops"]) for run in runs},
        key=lambda place: (known.index(place[0]) if place[0] in known else len(known), *place),
    )
    facts = [{"trace": trace, "iops": iops} for trace, iops in places]
    return lines({"traces": facts, "runs": runs})


def called(file: str) -> str:
    """A trace's name in a table."""
    return next((name for end, name in NAMES.items() if file.endswith(end)), file)


def policy_called(name: str) -> str:
    """A policy's name in a header, without the limit where there is no other."""
    if name == "oracle":
        return name
    return f"`{name.removesuffix(', 5% cap')}`" + (", 5 %" if name in LIMITED else "")


def at_the_demos_rate(of: Iterable[Line]) -> list[Line]:
    """Those at 2000 I/Os a second, or at the trace's own rate where that is higher."""
    found = []
    for _, group in itertools.groupby(of, key=lambda line: line.trace):
        here = list(group)
        rate = min(line.iops for line in here if line.iops >= demo.TARGET_IOPS)
        found += [line for line in here if line.iops == rate]
    return found


def _place(line: Line) -> tuple[str, str, str]:
    return line.trace, f"{line.iops:,.0f}", line.slowness


def _against(
    line: Line, policy: str, reference: str = NOTHING, key: str = MEAN, *, in_us: bool = False
) -> str:
    """How a policy compares with another: bold where it is above it."""
    share = line.above(policy, reference, key)
    if share is None:
        return "-"
    told = f"{line.runs[policy][key]:.0f}" if in_us else _percent(share)
    return f"**{told}**" if share > LEVEL else told


def _home(policy: str) -> str:
    return {NOTHING: "home", OFF: "md off"}.get(policy) or policy_called(policy)


def policies(of: Sequence[Line], key: str) -> Shown:
    """Means in % of doing nothing, or percentiles in us."""
    in_us = key == P99

    def row(line: Line) -> tuple[str, ...]:
        rule = line.best(RULES, key)
        best = "" if rule == NOTHING else f" {_against(line, rule, key=key, in_us=in_us)}"
        return (
            *_place(line), *([f"{line.runs[NOTHING]['reads']:,}"] if in_us else ()),
            _us(line, NOTHING, key), f"{_home(rule)}{best}",
            *(_against(line, policy, key=key, in_us=in_us) for policy in SHOWN),
        )  # fmt: skip

    head = (
        "p99, us" if in_us else "mean, %", "I/Os a second", "slowness",
        *(("reads", "nothing") if in_us else ("nothing, us",)), "rule",
        *map(policy_called, SHOWN),
    )  # fmt: skip
    return Shown(head, [row(line) for line in of])


def _us(line: Line, policy: str, key: str) -> str:
    us = line.runs.get(policy, {}).get(key)
    return "-" if us is None else f"{us:.0f}"


def md(of: Sequence[Line]) -> Shown:
    """Mean and p99 on md raid1."""
    return Shown(
        ("md raid1", "I/Os a second", "slowness", "mean, us: off", "`on`, %", "p99, us: off",
         "`on`"),
        [
            (
                *_place(line), _us(line, OFF, MEAN), _against(line, ON, OFF),
                _us(line, OFF, P99), _against(line, ON, OFF, P99, in_us=True),
            )
            for line in of
        ],
    )  # fmt: skip


def summed(of: list[Line], sure: Sure) -> Shown:
    """The counts that a short page has, below first, without medians."""
    whole = counted(of, SUMMED, sure)
    columns = (0, 1, 3, 2, 4, 8, 7, 9)
    return Shown(
        ("who", "against", "mean: below", "above", "at most, %", "p99: below", "above",
         "at most, %"),
        [tuple(row[column] for column in columns) for row in whole.rows],
    )  # fmt: skip


def counted(of: list[Line], shown: Sequence[str] = COUNTED, sure: Sure | None = None) -> Shown:
    """In how many runs who is above and below whom, and in brackets beyond chance."""
    found = {count.what: count for count in counts(of)}
    beyond_chance = sure or {}

    def told(what: str) -> tuple[str, ...]:
        if what not in found:
            return ("-",) * 5
        count = found[what]
        above, below = f"{count.above}", f"{count.below}"
        if what in beyond_chance:
            sure_above, sure_below = beyond_chance[what]
            above, below = f"{above} ({sure_above})", f"{below} ({sure_below})"
        return (
            above, below, f"{percent(count.worst[0])}, {count.worst[1]}",
            _percent(count.median_calm), _percent(count.median_bursts),
        )  # fmt: skip

    head = ("above", "below", "at most, %", "calm, %", "bursts, %")
    return Shown(
        ("who", "against", *(f"mean: {head[0]}", *head[1:]), *(f"p99: {head[0]}", *head[1:])),
        [
            (*what.replace(", 5% cap`", "`, 5 %").split(" against "),
             *told(what), *told(f"{what}, p99"))
            for what in shown
            if what in found
        ],
    )  # fmt: skip


def _beyond_chance() -> Sure:
    """How many of those above and below are so beyond chance: of means, which have blocks."""
    tables = json.loads((RESULTS / "traces.json").read_text())["tables"]
    (counted_,) = (table for title, table in tables.items() if title.startswith("Counts"))
    return {row[0]: (row[3], row[5]) for row in counted_["rows"] if not row[0].endswith(", p99")}


def _percent(share: float | None) -> str:
    return percent(share).replace("+0.0", "0")


def of_the_oracles_gain(of: list[Line]) -> Shown:
    """The median of the runs in which there is one."""
    found = {policy: shares(of, policy) for policy in SHOWN if policy != "oracle"}
    n = max(map(len, found.values()))
    return Shown(
        (f"of the oracle's gain, where it gains over {LEVEL:.0%}".replace("%", " %"),
         *map(policy_called, found)),
        [(f"median of {n} runs", *(f"{median(told):.0%}".replace("%", " %") if told else "-"
                                   for told in found.values()))],
    )  # fmt: skip


def on_the_front_page(of: Iterable[Line]) -> list[Line]:
    """Of the front page's traces, at the demo's rate, what tells of bursts or of none.

    A replay that is shorter than the time from one burst to the next meets one all along, or none.
    """
    return [
        line
        for line in at_the_demos_rate(of)
        if line.trace in FRONT
        and (line.slowness == CALM or line.runs[NOTHING]["elapsed_s"] > demo.BURSTS_EVERY_S)
    ]


def rivals(line: Line) -> tuple[str, ...]:
    """:data:`RIVALS`, and who has no limit but sent as few reads twice in this run."""
    sent = {name: line.runs.get(name, {}).get("extra_io_ratio", 1.0) for name in TWICE}
    return (*RIVALS, *(name for name in TWICE if name not in RIVALS and sent[name] <= LITTLE))


def rival(line: Line) -> str:
    """The best of the rivals; who is less than a percent better than doing nothing is none."""
    best = line.best(rivals(line))
    return NOTHING if (line.above(best) or 0) > -LEVEL else best


def _means_and_p99(line: Line) -> tuple[str, ...]:
    def both(policy: str, reference: str = NOTHING) -> str:
        return "/".join(
            _against(line, policy, reference, key, in_us=True) for key in (MEAN, P99)
        )  # fmt: skip

    best = rival(line)
    return (
        both(NOTHING), f"{both(best)} {_home(best)}",
        both("linnos"), both(TWO), both(OFF, OFF), both(ON, OFF),
    )  # fmt: skip


_MEANS_AND_P99 = ("nothing", "best rival", "`linnos`", policy_called(TWO), "md off", "md on")


def front(of: Sequence[Line]) -> Shown:
    """Mean and p99 of the best rival, ours, and md."""
    return Shown(
        ("public trace", "reads, in", *_MEANS_AND_P99),
        [
            (
                line.trace if line.slowness == CALM else f"with {BURSTS}",
                f"{line.runs[NOTHING]['reads']:,}, {line.runs[NOTHING]['elapsed_s']:.2g} s",
                *_means_and_p99(line),
            )
            for line in of
        ],
    )


def extremes(of: Sequence[Line]) -> Shown:
    """Of the front page's rows those where ours is furthest below and above the best rival."""
    by_gain = sorted(of, key=lambda line: line.above(TWO, rival(line)) or 0)
    return Shown(
        ("mean/p99, us", *_MEANS_AND_P99),
        [
            (
                f"{words}: {line.trace}{'' if line.slowness == CALM else f', {BURSTS}'}",
                *_means_and_p99(line),
            )
            for words, line in (("gain", by_gain[0]), ("loss", by_gain[-1]))
        ],
    )


def tables() -> dict[Path, list[Shown]]:
    """All of them, by page."""
    of = committed()
    sure, front_page = _beyond_chance(), on_the_front_page(of)
    return {
        ROOT / "README.md": [extremes(front_page), front(front_page)],
        ROOT / "docs" / "results.md": [summed(of, sure)],
        ROOT / "docs" / "tables.md": [
            policies(of, MEAN),
            policies(of, P99),
            md(of),
            counted(of, sure=sure),
            of_the_oracles_gain(of),
        ],
    }
