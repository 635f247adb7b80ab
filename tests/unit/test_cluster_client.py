# SPDX-License-Identifier: MIT
"""The client of eval's cluster, with a fake engine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from eval.cache import ROOT
from eval.experiments.cluster.lab import GUEST

SOURCE = Path(__file__).parent / "cluster_client"


def test_client_queries_remembers_and_ends_as_documented(tmp_path: Path) -> None:
    wire = ROOT / "cluster" / "wire"
    uapi = ROOT / "core" / "uapi"
    client, core = ROOT / "cluster" / "client", ROOT / "liblinnos" / "predictor"
    rules = ROOT / "eval" / "simulator"
    include, flashsim = core.parent / "include", ROOT / "kernel" / "flashsim"
    shared = (wire, ROOT / "replayer", flashsim, uapi)
    folders = (SOURCE, GUEST, client, core, include, rules, *shared)
    archive = tmp_path / "liblinnos-cluster.a"
    subprocess.run(["make", "-s", "-C", client, f"OUT={tmp_path}", archive], check=True)
    built = subprocess.run(
        ["gcc", "-O1", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
         *(f"-I{folder}" for folder in folders),
         "-o", tmp_path / "test", SOURCE / "test_client.c",
         rules / "rules.c", core / "histogram.c", wire / "datagram.c",
         archive, "-lsodium", "-lm", "-pthread"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "test"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
