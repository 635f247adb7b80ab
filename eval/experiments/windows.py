# SPDX-License-Identifier: MIT
"""How good could it be: random windows, every policy on each.

Workload, array, the seeds and the injection of each window are drawn. No
window is dropped; those that LinnOS loses are listed, and the worst five are
taken apart read by read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from eval import figures, seeds
from eval.cells import (
    POLICIES,
    RATES,
    WORKLOADS,
    Replay,
    Replayed,
    read_log,
    replayed,
    trained,
    training_records,
)
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.experiments import fig08
from eval.gain import improvement, oracle_share, percent, quantiles

#: As many as there are to be.
WINDOWS = 100

PARAMETERS: dict[str, Any] = {
    # Fewer, the first of them, where time is short: the results say how many.
    "windows": int(os.environ.get("LINNOS_WINDOWS", WINDOWS)),
    "workloads": WORKLOADS,
    "arrays": ("consumer", "enterprise"),
    "policies": POLICIES,
    "cell_train_s": fig08.PARAMETERS["train_s"],
    "cell_replay_s": fig08.PARAMETERS["replay_s"],
    "window_s": 0.5,
    "explained": 5,
}

#: The policies whose losses are listed, and what they are held against.
OURS = ("linnos", "linnos-hl")
SHOWN = ("baseline", "hedge", "linnos", "linnos-hl", "oracle")
REFERENCES = ("baseline", "hedge")


def draw_window(seed: int, cell_seeds: tuple[int, ...]) -> dict[str, Any]:
    """Draw what a window is made of.

    Half of the windows have the drives' own slowness only; the others get, on
    all drives, one of the three patterns, from mild to severe.
    """
    rng = np.random.default_rng(seed)
    window: dict[str, Any] = {
        "seed": seed,
        "workload": str(rng.choice(PARAMETERS["workloads"])),
        "array": str(rng.choice(PARAMETERS["arrays"])),
        "cell_seed": int(rng.choice(cell_seeds)),
        "inject": None,
    }
    kind = rng.choice(["none", "continuous", "random", "interval"], p=[0.5, 0.3, 0.1, 0.1])
    latency_us = round(float(np.exp(rng.uniform(np.log(50), np.log(10_000)))))
    if kind == "continuous":
        every_ms = int(rng.integers(50, 401))
        slot_ms = max(5, round(every_ms * rng.uniform(0.1, 0.8)))
        window["inject"] = (
            f"continuous:ratio=100%,op=read,latency_us={latency_us},"
            f"slot_ms={slot_ms},every_ms={every_ms},rotate"
        )
    elif kind == "random":
        ratio = round(float(rng.uniform(1, 20)), 1)
        window["inject"] = f"random:ratio={ratio}%,op=read,latency_us={latency_us}"
    elif kind == "interval":
        window["inject"] = (
            f"interval:interval={int(rng.integers(5, 101))},op=read,latency_us={latency_us}"
        )
    return window


def run(context: Context) -> dict[str, Any]:
    """Draw the windows, replay each under every policy, explain the worst."""
    base = seeds.window_base(context.development)
    windows = [draw_window(base + i, context.seeds) for i in range(PARAMETERS["windows"])]
    replays = []
    for window in windows:
        models_of = fig08.cell(window["workload"], window["array"], window["cell_seed"])
        window_s = PARAMETERS["window_s"] / RATES[window["array"]]
        for policy in PARAMETERS["policies"]:
            replays.append(
                Replay(
                    models_of, policy, window["inject"], workload_seed=window["seed"],
                    options=("--duration", str(window_s)),
                    keep_log=policy in (*OURS, "baseline", "hedge"),
                )
            )  # fmt: skip
    cells = list(dict.fromkeys(replay.cell for replay in replays))
    context.map(lambda cell: trained(context.cache, cell), cells, "recording and training")
    done = context.map(lambda replay: replayed(context.cache, replay), replays, "replaying")
    n = len(PARAMETERS["policies"])
    results = [done[i : i + n] for i in range(0, len(done), n)]
    rows = []
    for window, result in zip(windows, results, strict=True):
        summaries = {r.replay.policy: r.summary for r in result}
        rows.append(
            {
                **window,
                "reads": summaries["baseline"]["reads"],
                "mean_us": {p: s["mean_us"] for p, s in summaries.items()},
                "p99_us": {p: s["p99_us"] for p, s in summaries.items()},
                "revoked": {p: s["revoked"] for p, s in summaries.items()},
                "extra_io_ratio": {p: s["extra_io_ratio"] for p, s in summaries.items()},
                "errors": sum(s["data_errors"] + s["io_errors"] for s in summaries.values()),
            }
        )
    worst = sorted(
        range(len(rows)),
        key=lambda i: max(
            improvement(rows[i]["mean_us"][r], rows[i]["mean_us"]["linnos"]) for r in REFERENCES
        ),
        reverse=True,
    )[: PARAMETERS["explained"]]
    explained = []
    for i in worst:
        models = trained(context.cache, results[i][0].replay.cell)
        thresholds = np.array([r["threshold_us"] for r in training_records(models)], float)
        why = explain({r.replay.policy: r for r in results[i]}, thresholds)
        explained.append({"window": i, **why})
    return {
        "windows": rows,
        "explained": explained,
        "runs": [result.summary for result in done],
    }


#: What a decision was, held against the same read's latency at home under baseline.
CAUSES = {
    "revoked wrongly": "fast at home under baseline",
    "revoked rightly": "beyond the inflection point at home under baseline",
    "admitted wrongly": "beyond the inflection point at home under baseline",
    "admitted rightly": "fast at home under baseline; what they lose is to reads that came over "
    "from other drives, and to injected latency that hit other reads than under baseline where the "
    "injection counts reads or throws dice",
}


def explain(results: dict[str, Replayed], thresholds: NDArray[np.float64]) -> dict[str, Any]:
    """Where the time went in one window: linnos against the better reference, read by read.

    The reads of two replays are the same; the sum over them of the difference
    in latency is split by what linnos did with the read, and by whether that
    was right.

    Parameters
    ----------
    results : dict
        The window's replays, by policy.
    thresholds : array, shape (n_drives,)
        Inflection points in us.
    """
    reference = min(REFERENCES, key=lambda policy: results[policy].summary["mean_us"])
    ours, base = read_log(results["linnos"].log), read_log(results[reference].log)
    same = len(ours["home"]) == len(base["home"]) and bool(
        np.all(ours["offset_bytes"] == base["offset_bytes"])
    )
    n = min(len(ours["home"]), len(base["home"]))
    revocations = ours["revocations"][:n].astype(int)
    delta_us = ours["latency_us"][:n] - base["latency_us"][:n]
    groups: dict[str, NDArray[np.bool_]] = {
        "admitted at home": revocations == 0,
        "revoked once": revocations == 1,
        "revoked by both, last drive not asked": revocations >= 2,
    }
    rows = {
        name: {
            "reads": int(group.sum()),
            "delta_ms": float(delta_us[group].sum() / 1000),
            "reference_mean_us": float(base["latency_us"][:n][group].mean())
            if group.any()
            else 0.0,
            "linnos_mean_us": float(ours["latency_us"][:n][group].mean()) if group.any() else 0.0,
        }
        for name, group in groups.items()
    }
    revoked = revocations > 0
    calm = read_log(results["baseline"].log)
    slow = calm["latency_us"][:n] > thresholds[calm["home"][:n].astype(int)]
    causes = dict(
        zip(
            CAUSES,
            (revoked & ~slow, revoked & slow, ~revoked & slow, ~revoked & ~slow),
            strict=True,
        )
    )
    top = np.argsort(delta_us)[::-1][: max(1, n // 100)]
    return {
        "reference": reference,
        "same_reads": same,
        "reads": n,
        "groups": rows,
        "causes": {
            name: {"reads": int(group.sum()), "delta_ms": float(delta_us[group].sum() / 1000)}
            for name, group in causes.items()
        },
        "revoked_though_faster": float((delta_us[revoked] > 0).mean()) if revoked.any() else 0.0,
        "loss_in_worst_percent": float(
            delta_us[top].sum() / max(delta_us[delta_us > 0].sum(), 1e-9)
        ),
        "served_by_ratio": [
            float((ours["served_by"][:n] == k).mean()) for k in range(int(ours["home"].max()) + 1)
        ],
    }


def gains(data: dict[str, Any], policy: str, reference: str) -> list[float]:
    """Improvement of a policy's mean over a reference's, window by window."""
    return [improvement(w["mean_us"][policy], w["mean_us"][reference]) for w in data["windows"]]


def shares(data: dict[str, Any], policy: str) -> list[float]:
    """Share of the oracle's gain, window by window."""
    return [
        oracle_share(w["mean_us"][policy], w["mean_us"]["baseline"], w["mean_us"]["oracle"])
        for w in data["windows"]
    ]


def losses(data: dict[str, Any]) -> list[tuple[int, dict[str, float]]]:
    """Windows in which linnos has a higher mean than a reference."""
    lost = []
    for i, window in enumerate(data["windows"]):
        worse = {
            r: improvement(window["mean_us"]["linnos"], window["mean_us"][r])
            for r in REFERENCES
            if window["mean_us"]["linnos"] > window["mean_us"][r]
        }
        if worse:
            lost.append((i, worse))
    return lost


def kind(window: dict[str, Any]) -> str:
    """The pattern of a window's injection."""
    return str(window["inject"] or "none").split(":")[0]


def wins(data: dict[str, Any]) -> dict[str, dict[str, int]]:
    """How many windows linnos and others win, by array and by injection."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for window in data["windows"]:
        for name in (f"{window['array']} drives", f"injection: {kind(window)}"):
            groups.setdefault(name, []).append(window)
    return {
        name: {
            "windows": len(groups[name]),
            **{
                f"linnos below {r}": sum(
                    w["mean_us"]["linnos"] < w["mean_us"][r] for w in groups[name]
                )
                for r in REFERENCES
            },
            "linnos-hl below hedge": sum(
                w["mean_us"]["linnos-hl"] < w["mean_us"]["hedge"] for w in groups[name]
            ),
            "any but clone below oracle": sum(
                min(v for p, v in w["mean_us"].items() if p not in ("clone", "oracle"))
                < w["mean_us"]["oracle"]
                for w in groups[name]
            ),
        }
        for name in sorted(groups)
    }


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Distributions by policy, the losses, the worst five."""
    policies = list(data["windows"][0]["mean_us"])
    spread = []
    for policy in policies:
        row = [policy]
        for reference in ("hedge", "baseline"):
            row += [
                percent(q) for q in quantiles(gains(data, policy, reference), (0, 10, 50, 90, 100))
            ]
        row += [percent(q, 0) for q in quantiles(shares(data, policy), (10, 50, 90))]
        spread.append(tuple(row))
    lost = []
    for i, _ in losses(data):
        window = data["windows"][i]
        lost.append(
            (
                str(i), window["workload"], window["array"], str(window["seed"]),
                window["inject"] or "none",
                *(f"{window['mean_us'][p]:.1f}" for p in SHOWN),
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
            ),
            tuple(spread),
        ),
        "Windows won, by array and injection": Table(
            ("", *next(iter(wins(data).values()))),
            tuple((name, *(str(n) for n in row.values())) for name, row in wins(data).items()),
        ),
        "Windows in which linnos has a higher mean than baseline or hedge": Table(
            ("window", "workload", "array", "seed", "injection", "baseline us", "hedge us",
             "linnos us", "linnos-hl us", "oracle us"),
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


def reading(data: dict[str, Any]) -> str:
    """Medians, losses, and the worst in words."""
    n = len(data["windows"])
    parts = []
    if n < WINDOWS:
        parts.append(
            f"Only the first {n} of the {WINDOWS} windows were replayed, for want of time; none of "
            "those was left out."
        )
    for policy in OURS:
        over_hedge = quantiles(gains(data, policy, "hedge"), (0, 50, 100))
        over_base = quantiles(gains(data, policy, "baseline"), (0, 50, 100))
        share = quantiles(shares(data, policy), (10, 50, 90))
        parts.append(
            f"`{policy}` over {n} windows: mean latency against hedge at p95 "
            f"{percent(over_hedge[0])} to {percent(over_hedge[2])}, median "
            f"{percent(over_hedge[1])}; against baseline {percent(over_base[0])} to "
            f"{percent(over_base[2])}, median "
            f"{percent(over_base[1])}. Share of the oracle's gain: median {percent(share[1], 0)}, "
            f"p10 {percent(share[0], 0)}, p90 {percent(share[2], 0)}."
        )
    medians = {
        policy: quantiles(shares(data, policy), (50,))[0]
        for policy in data["windows"][0]["mean_us"]
    }
    parts.append(
        "Median share of the oracle's gain by policy: "
        + ", ".join(f"{policy} {percent(share, 0)}" for policy, share in medians.items())
        + "."
    )
    lost = losses(data)
    parts.append(
        f"`linnos` lost {len(lost)} of {n} windows to baseline or hedge: "
        f"{sum('baseline' in worse for _, worse in lost)} to baseline, "
        f"{sum('hedge' in worse for _, worse in lost)} to hedge. All of them are in the table. "
        "Windows in which `linnos` was below hedge: "
        + ", ".join(
            f"{row['linnos below hedge']} of {row['windows']} ({name})"
            for name, row in wins(data).items()
        )
        + "."
    )
    for row in data["explained"]:
        window = data["windows"][row["window"]]
        groups = row["groups"]
        worst = max(groups, key=lambda name: groups[name]["delta_ms"])
        total = sum(group["delta_ms"] for group in groups.values())
        parts.append(
            f"Window {row['window']} ({window['workload']} on {window['array']}, injection "
            f"{window['inject'] or 'none'}): baseline {window['mean_us']['baseline']:.1f} us, "
            f"hedge {window['mean_us']['hedge']:.1f}, linnos "
            f"{window['mean_us']['linnos']:.1f}, oracle "
            f"{window['mean_us']['oracle']:.1f}. Against {row['reference']} {total:+.1f} ms over "
            f"{row['reads']} reads, most of the loss in reads "
            f"*{worst}* "
            f"({groups[worst]['reads']} reads, {groups[worst]['delta_ms']:+.1f} ms; they took "
            f"{groups[worst]['linnos_mean_us']:.0f} us, under {row['reference']} "
            f"{groups[worst]['reference_mean_us']:.0f} us). Of the revoked reads "
            f"{percent(row['revoked_though_faster'], 0)} were faster under {row['reference']}, "
            f"failover "
            f"included; the drives served "
            + "/".join(percent(s, 0) for s in row["served_by_ratio"])
            + " of the reads. By what was right: "
            + ", ".join(
                f"{name} {cause['reads']} ({cause['delta_ms']:+.1f} ms)"
                for name, cause in row["causes"].items()
            )
            + "."
        )
    parts.append(
        "In these five: " + "; ".join(f"*{name}*: {what}" for name, what in CAUSES.items()) + "."
    )
    over = sum(
        share > 1.005
        for policy in data["windows"][0]["mean_us"]
        if policy != "oracle"
        for share in shares(data, policy)
    )
    parts.append(
        f"{over} times a policy was faster than the oracle; a policy that sends no read twice "
        "beforehand was in "
        + ", ".join(
            f"{row['any but clone below oracle']} of {row['windows']} windows ({name})"
            for name, row in wins(data).items()
            if name.startswith("injection")
        )
        + ". The oracle is told of one read at a time and reads once: `clone`, which takes the "
        "better of two reads after the fact, can beat it. And where the injection counts reads or "
        "throws dice, a drive whose next read would be slow stays so until a read takes it: to "
        "avoid it puts it off and leaves the drive idle, and with all drives in that state the "
        "oracle has no good choice left. There it is no bound; shares of its gain over 100 % come "
        "from there."
    )
    errors = sum(window["errors"] for window in data["windows"])
    parts.append(f"Data and I/O errors over all replays: {errors}.")
    return "\n\n".join(parts)


def draw(data: dict[str, Any], path: Path) -> None:
    """Distributions over the windows: improvement over hedge and baseline, oracle's share."""
    rows = data["windows"]
    policies = [p for p in rows[0]["mean_us"] if p != "baseline"]
    figure, panels = plt.subplots(1, 3, figsize=(16, 4.5))
    rank = (np.arange(len(rows)) + 1) / len(rows)
    for axes, reference in zip(panels, ("hedge", "baseline"), strict=False):
        for policy in policies:
            if policy == reference:
                continue
            gain = sorted(1 - r["mean_us"][policy] / r["mean_us"][reference] for r in rows)
            axes.plot(np.array(gain) * 100, rank, label=policy, **figures.style(policy))
        axes.axvline(0, color="black", linewidth=0.5)
        axes.set_xlim(left=-100)
        axes.set_xlabel(f"mean latency below {reference} (%)")
        axes.set_ylabel("share of the windows")
        axes.grid(alpha=0.3)
    axes = panels[2]
    for policy in policies:
        share = []
        for r in rows:
            base, best = r["mean_us"]["baseline"], r["mean_us"]["oracle"]
            if base - best >= 0.01 * base:
                share.append((base - r["mean_us"][policy]) / (base - best))
        axes.plot(
            np.array(sorted(share)) * 100, (np.arange(len(share)) + 1) / max(len(share), 1),
            label=policy, **figures.style(policy),
        )  # fmt: skip
    axes.set_xlim(-100, 110)
    axes.set_xlabel("share of the oracle's gain (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="windows",
    title="Random windows: how good could it be",
    source="not in the papers",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper=f"The paper's own random windows: {NOT_AVAILABLE}.",
    differs="The windows' workloads and injections are new to the models, which were trained on "
    "the cells of Fig. 8 (same drives, same kind of workload, no injection).",
    sources=("eval/experiments/fig08.py", "eval/seeds.py"),
)
