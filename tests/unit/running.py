# SPDX-License-Identifier: MIT
"""Run `linnapp` in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from linnapp.cli import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))
