# SPDX-License-Identifier: MIT
"""A window that LinnOS lost, read by read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.cells import Replayed, read_log
from eval.experiments.windows.comparison import REFERENCES

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

    The reads of the window's replays, by policy, are the same; the sum over them of the difference
    in latency is split by what linnos did with the read, and by whether that was right by the
    drives' inflection points in us.
    """
    reference = min(REFERENCES, key=lambda policy: results[policy].summary["mean_us"])
    ours, base = read_log(results["linnos"].log), read_log(results[reference].log)
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
    return {
        "reference": reference,
        "groups": rows,
        "causes": {
            name: {"reads": int(group.sum()), "delta_ms": float(delta_us[group].sum() / 1000)}
            for name, group in causes.items()
        },
    }
