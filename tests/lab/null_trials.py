# SPDX-License-Identifier: MIT
"""Runs in the guest: trials of an array one after the other, with one line of JSON each.

null_trials.py ARRAY N
"""

import json
import sys

from linnapp.drive.trial import Plan, run_trial


class Quiet:
    """A display without output."""

    def log(self, line: str) -> None:
        """Nothing."""

    def show(self, line: str) -> None:
        """Nothing."""


for seed in range(int(sys.argv[2])):
    found = run_trial(sys.argv[1], Plan(hours=16 / 3600, block_s=0.5, seed=seed), Quiet())
    decided = [name for name, effect in found.effects.items() if effect.is_decided]
    outcome = {"ended": found.ended, "pairs": len(found.pairs), "reads": found.reads}
    print(json.dumps({**outcome, "decided": decided}), flush=True)
