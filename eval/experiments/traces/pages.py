# SPDX-License-Identifier: MIT
"""The tables of the pages that show public traces; `python -m eval --pages traces` writes them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self

from eval import demo
from eval.cache import RESULTS, ROOT
from eval.contenders import LITTLE
from eval.experiments.traces.replays import BURSTS, CALM, GUARDED, OFF, ON
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
    Count,
    Line,
    counts,
    lines,
    shares,
)
from eval.experiments.traces.text import COLUMNS, percent
from eval.page_tables import Shown
from eval.trace_files import NAMES, called
from eval.work import StepError

#: What fits a first page.
FRONT = tuple(NAMES.values())[:5]

#: Who learns nothing, or is another's, and sends at most 5 % of the reads twice; Linux's md, too.
RIVALS = (*RULES, "heimdall", HEDGE_CAPPED, QUEUE_H95, OFF)

#: Of the counts those that a page has, of means and of p99.
COUNTED = (
    *(
        f"`{who}` against doing nothing"
        for who in ("linnos", GUARDED, HL, "lowest", TWO, H95, HEDGE_CAPPED, QUEUE_H95)
    ),
    *(f"`{who}` against the best rule" for who in ("linnos", "lowest", TWO, H95)),
    *(f"`{TWO}` against `{rival}`" for rival in TWICE),
    *(f"`{H95}` against `{rival}`" for rival in TWICE),
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
SHOWN = (
    "linnos", *COLUMNS[2:7], "shortest-queue-h95", *COLUMNS[7:-1], "heimdall", COLUMNS[-1],
)  # fmt: skip

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


def _against(
    line: Line, policy: str, reference: str = NOTHING, key: str = MEAN, *, closely: bool = False
) -> str:
    """A policy's us: bold where it is above another. Closely: of a small mean tenths, too."""
    us, share = line.runs.get(policy, {}).get(key), line.above(policy, reference, key)
    if us is None or share is None:
        return "-"
    told = f"{us:.1f}" if closely and key == MEAN and us < 100 else f"{us:.0f}"
    return f"**{told}**" if share > LEVEL else told


def _both(line: Line, policy: str, reference: str = NOTHING, *, closely: bool = False) -> str:
    """Mean and p99."""
    return "/".join(_against(line, policy, reference, key, closely=closely) for key in (MEAN, P99))


def _home(policy: str) -> str:
    return {NOTHING: "home", OFF: "md off"}.get(policy) or policy_called(policy)


def _best_rule(line: Line) -> str:
    """The rule with the lowest mean, and that with the lowest p99 where it is another."""
    mean, p99 = (line.best(RULES, key) for key in (MEAN, P99))
    if mean == p99:
        return f"{_home(mean)} {_both(line, mean, closely=True)}"
    return (
        f"{_home(mean)} {_against(line, mean, closely=True)}, "
        f"{_home(p99)} {_against(line, p99, key=P99)}"
    )


def every(of: Sequence[Line]) -> Shown:
    """Mean and p99 of all runs; md's are held against md that does not ask."""
    return Shown(
        ("trace at I/Os a second", "reads", "nothing", "best rule", *map(policy_called, SHOWN),
         "md off", "md on"),
        [
            (
                f"{line.trace} at {line.iops:,.0f}" if line.slowness == CALM else f"with {BURSTS}",
                f"{line.runs[NOTHING]['reads']:,}", _both(line, NOTHING, closely=True),
                _best_rule(line), *(_both(line, policy, closely=True) for policy in SHOWN),
                _both(line, OFF, OFF, closely=True), _both(line, ON, OFF, closely=True),
            )
            for line in of
        ],
    )  # fmt: skip


class _Told(NamedTuple):
    """What a page has of a count."""

    above: str
    below: str
    most: str
    where: str
    medians: str

    @classmethod
    def of(cls, count: Count, sure: Sure | None = None) -> Self:
        """In brackets how many are beyond chance, where that is known."""
        above, below = f"{count.above}", f"{count.below}"
        if sure and count.what in sure:
            sure_above, sure_below = sure[count.what]
            above, below = f"{above} ({sure_above})", f"{below} ({sure_below})"
        medians = f"{_percent(count.median_calm)}/{_percent(count.median_bursts)}"
        return cls(above, below, percent(count.worst[0]), count.worst[1], medians)


def _counted(
    of: list[Line], shown: Sequence[str], sure: Sure | None
) -> list[tuple[tuple[str, ...], _Told, _Told]]:
    """Of each of these who is held against whom, and what comes of it by mean and by p99."""
    found = {count.what: count for count in counts(of)}
    return [
        (
            tuple(what.replace(", 5% cap`", "`, 5 %").split(" against ")),
            _Told.of(found[what], sure), _Told.of(found[f"{what}, p99"]),
        )
        for what in shown
        if what in found
    ]  # fmt: skip


def summed(of: list[Line], sure: Sure) -> Shown:
    """The counts that a short page has, below first, without medians."""
    return Shown(
        ("who", "against", "mean: below", "above", "at most, %", "p99: below", "above",
         "at most, %"),
        [
            (*who, *(t for of in told for t in (of.below, of.above, f"{of.most}, {of.where}")))
            for who, *told in _counted(of, SUMMED, sure)
        ],
    )  # fmt: skip


def counted(of: list[Line], shown: Sequence[str] = COUNTED, sure: Sure | None = None) -> Shown:
    """In how many runs who is above and below whom, and in brackets beyond chance."""
    head = ("above", "below", "at most, %", "medians, %")
    return Shown(
        ("who", "against", *(f"mean: {head[0]}", *head[1:]), *(f"p99: {head[0]}", *head[1:])),
        [
            (*who, *(t for of in told for t in (of.above, of.below, of.most, of.medians)))
            for who, *told in _counted(of, shown, sure)
        ],
    )


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
        [(f"median of {n} runs", *(f"{round(100 * median(told))} %" if told else "-"
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
    best = rival(line)
    return (
        _both(line, NOTHING), f"{_both(line, best)} {_home(best)}",
        _both(line, "linnos"), _both(line, TWO), _both(line, OFF, OFF), _both(line, ON, OFF),
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
    if not front_page:
        raise StepError(
            "eval/results/traces.json has no public traces, of which README.md tells: name their "
            "folder, LINNOS_TRACES=DIR, and commit again"
        )
    return {
        ROOT / "README.md": [extremes(front_page), front(front_page)],
        ROOT / "docs" / "results.md": [summed(of, sure)],
        RESULTS / "tables.md": [
            every(of),
            counted(of, sure=sure),
            of_the_oracles_gain(of),
        ],
    }
