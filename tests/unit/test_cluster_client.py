# SPDX-License-Identifier: MIT
"""The client of eval's cluster with a fake engine, and its rules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from eval.cache import ROOT
from eval.experiments.cluster.lab import GUEST

SOURCE = Path(__file__).parent / "cluster_client"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.parametrize(
    ("name", "options"), [("test_client", ()), ("test_rules", SANITIZERS)], ids=["client", "rules"]
)
def test_client_and_rules_do_as_documented(
    name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    wire, uapi = ROOT / "cluster" / "wire", ROOT / "core" / "uapi"
    client, core = ROOT / "cluster" / "client", ROOT / "liblinnos" / "predictor"
    include, flashsim = core.parent / "include", ROOT / "kernel" / "flashsim"
    folders = (SOURCE, GUEST, client, core, include, wire, ROOT / "replayer", flashsim, uapi)
    archive = tmp_path / "liblinnos-cluster.a"
    subprocess.run(["make", "-s", "-C", client, f"OUT={tmp_path}", archive], check=True)
    built = subprocess.run(
        ["gcc", "-O1", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra",
         "-Wno-unused-parameter", "-Werror",
         *options, *(f"-I{folder}" for folder in folders),
         "-o", tmp_path / "test", SOURCE / f"{name}.c",
         GUEST / "rules.c", core / "histogram.c", wire / "datagram.c",
         archive, "-lsodium", "-lm", "-pthread"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    result = subprocess.run([tmp_path / "test"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
