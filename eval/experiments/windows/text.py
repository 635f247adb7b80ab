# SPDX-License-Identifier: MIT
"""The data as tables and in words."""

from __future__ import annotations

from typing import Any

from eval.experiment import Table
from eval.experiments.windows.comparison import (
    OURS,
    REFERENCES,
    counts,
    gains,
    losses,
    said,
    shares,
    wins,
    without_share,
)
from eval.experiments.windows.explanation import CAUSES
from eval.experiments.windows.replays import WINDOWS
from eval.metrics import percent, quantiles
from linnapp.stats import quantile_interval

SHOWN = ("baseline", "hedge", "linnos", "linnos-hl", "oracle")


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Distributions by policy, the losses, the worst five."""
    policies = list(data["windows"][0]["mean_us"])
    spread = []
    for policy in policies:
        low, high = _median_interval(data, policy)
        row = [policy]
        for reference in ("hedge", "baseline"):
            row += [
                percent(q) for q in quantiles(gains(data, policy, reference), (0, 10, 50, 90, 100))
            ]
        row += [percent(q, 0) for q in quantiles(shares(data, policy), (10, 50, 90))]
        row.append(f"[{percent(low, 0)}, {percent(high, 0)}]")
        spread.append(tuple(row))
    lost = []
    for i, _ in losses(data):
        window = data["windows"][i]
        lost.append(
            (
                str(i), window["workload"], window["array"], str(window["seed"]),
                window["inject"] or "none",
                *(f"{window['mean_us'][p]:.1f}" for p in SHOWN),
                *(said(window, "linnos", reference) for reference in REFERENCES),
            )
        )  # fmt: skip
    explained = []
    right = tuple(
        (str(row["window"]), name, str(cause["reads"]), f"{cause['delta_ms']:+.1f}")
        for row in data["explained"]
        for name, cause in row["causes"].items()
    )
    for row_ in data["explained"]:
        for name, group in row_["groups"].items():
            explained.append(
                (
                    str(row_["window"]),
                    name,
                    str(group["reads"]),
                    f"{group['delta_ms']:+.1f}",
                    f"{group['reference_mean_us']:.1f}",
                    f"{group['linnos_mean_us']:.1f}",
                )
            )
    return {
        "Improvement of the mean over hedge and baseline, and share of the oracle's gain": Table(
            (
                "policy", "over hedge: min", "p10", "p50", "p90", "max", "over baseline: min",
                "p10", "p50", "p90", "max", "oracle's gain: p10", "p50", "p90",
                "95 % interval of the p50",
            ),
            tuple(spread),
        ),
        "Windows won, by array and injection: only where the intervals part": Table(
            ("", *next(iter(wins(data).values()))),
            tuple((name, *(str(n) for n in row.values())) for name, row in wins(data).items()),
        ),
        "In how many windows a mean is below another, above it, or neither can be said": Table(
            ("policy", "reference", "below", "above", "undecided"),
            tuple(
                (*pair, *(str(said_[what]) for what in ("below", "above", "undecided")))
                for pair, said_ in counts(data).items()
            ),
        ),
        "Windows in which linnos has a higher mean than baseline or hedge": Table(
            ("window", "workload", "array", "seed", "injection", "baseline us", "hedge us",
             "linnos us", "linnos-hl us", "oracle us",
             *(f"linnos and {reference}" for reference in REFERENCES)),
            tuple(lost),
        ),
        "Every window: mean (us)": Table(
            ("window", "workload", "array", "seed", "injection", *policies),
            tuple(
                (
                    str(i), w["workload"], w["array"], str(w["seed"]), w["inject"] or "none",
                    *(f"{w['mean_us'][p]:.1f}" for p in policies),
                )
                for i, w in enumerate(data["windows"])
            ),
        ),
        "The worst five: linnos minus the better of baseline and hedge, by what linnos did": Table(
            ("window", "linnos", "reads", "sum of differences ms", "reference mean us",
             "linnos mean us"),
            tuple(explained),
        ),
        "The worst five: the same, by whether linnos was right": Table(
            ("window", "linnos", "reads", "sum of differences ms"), right
        ),
    }  # fmt: skip


def _median_interval(data: dict[str, Any], policy: str) -> tuple[float, float]:
    """Of a policy's median share, over the windows."""
    interval = quantile_interval(shares(data, policy))
    return interval.low, interval.high


def reading(data: dict[str, Any]) -> str:
    """Shares of what was to gain, losses, and what the oracle is no bound of."""
    n = len(data["windows"])
    parts = []
    if n < WINDOWS:
        parts.append(f"The first {n} of the {WINDOWS} windows; none of them was left out.")
    for policy in OURS:
        share = quantiles(shares(data, policy), (10, 50, 90))
        parts.append(
            f"`{policy}` over {n} windows: share of the oracle's gain: median "
            f"{percent(share[1], 0)}, p10 {percent(share[0], 0)}, p90 {percent(share[2], 0)}."
        )
    none = without_share(data, "linnos")
    if none:
        ranked = {policy: [shares(data, policy)[i] for i in none] for policy in OURS}
        parts.append(
            f"In {len(none)} of {n} windows ({', '.join(map(str, none))}) the oracle gains less "
            "than 1 % over baseline, and a share of that says nothing. They stay in the medians: "
            "within 1 % of baseline as a tie (0 %), above it as a loss, below it as all there was "
            "to gain. "
            + "; ".join(
                f"`{policy}`: {sum(s == 0 for s in ranked[policy])} ties, "
                f"{sum(s < 0 for s in ranked[policy])} losses, "
                f"{sum(s > 0 for s in ranked[policy])} below baseline"
                for policy in OURS
            )
            + "."
        )
    lost = losses(data)
    parts.append(
        f"`linnos` lost {len(lost)} of {n} windows to baseline or hedge: "
        f"{sum('baseline' in worse for _, worse in lost)} to baseline, "
        f"{sum('hedge' in worse for _, worse in lost)} to hedge."
    )
    parts.append(
        "In the worst five: " + "; ".join(f"*{name}*: {what}" for name, what in CAUSES.items())
    )
    parts.append(
        "The oracle is told of one read at a time and reads once: `clone`, which takes the better "
        "of two reads after the fact, can beat it. And where the injection counts reads or throws "
        "dice, a drive whose next read would be slow stays so until a read takes it: to avoid it "
        "puts it off and leaves the drive idle, and with all drives in that state the oracle has "
        "no good choice left. There it is no bound; shares of its gain over 100 % come from there."
    )
    parts.append(f"Data and I/O errors: {sum(window['errors'] for window in data['windows'])}.")
    return "\n\n".join(parts)
