# SPDX-License-Identifier: MIT
"""The cost of a query to linnos-agent, compared with a server that returns each datagram.

Client and server exchange UDP datagrams over the loopback device. The drive of the queries does not
exist, so that the kernel predicts nothing. Processor time of the server is measured.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from eval.bench import OUT, BenchError, check_built, compare, in_turn, write
from eval.cache import ROOT

AGENT = ROOT / "build" / "agent" / "linnos-agent"
_SOURCE = Path(__file__).with_suffix(".c")
_WIRE = ROOT / "cluster" / "wire"
_KEY = "0123456789abcdef0123456789abcdef"
_QUERIES = 25_600
_ECHO, _KEYS = "returned", {"query": "", "signed query": _KEY}


def _free_port() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _command(server: str, port: str, program: Path, folder: Path) -> list[str]:
    """Return the command of a server; write the configuration of an agent."""
    if server == _ECHO:
        return [str(program), "echo", port]
    lines = [f"listen 127.0.0.1 {port}", "drive /dev/absent", "allow 127.0.0.0/8 10000000"]
    if _KEYS[server]:
        (folder / "key").write_text(_KEYS[server])
        (folder / "key").chmod(0o600)
        lines.append(f"key {folder / 'key'}")
    path = folder / f"agent-{port}.conf"
    path.write_text("\n".join(lines) + "\n")
    return [str(AGENT), "--config", str(path)]


def agent() -> None:
    """Processor time of a query to linnos-agent compared with a server that returns datagrams."""
    check_built(AGENT, "agent")
    with tempfile.TemporaryDirectory(dir=OUT) as name, ExitStack() as stack:
        folder, program = Path(name), Path(name) / "agent"
        subprocess.run(
            ["gcc", "-O2", f"-I{_WIRE}", "-o", program, _SOURCE, _WIRE / "datagram.c", "-lsodium"],
            check=True,
        )
        servers = {}
        for server in (_ECHO, *_KEYS):
            port = _free_port()
            command = _command(server, port, program, folder)
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            stack.callback(process.terminate)
            servers[server] = (str(process.pid), port)
        time.sleep(0.5)

        def query(case: str) -> float:
            server, at_once = case.removesuffix(" at once").split(", ")
            command = [str(program), "query", *servers[server], str(_QUERIES), at_once]
            command += [_KEYS[server]] if _KEYS.get(server) else []
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode:
                raise BenchError(f"{_SOURCE.name}: a query was not answered")
            return float(result.stdout)

        cases = [f"{server}, {n} at once" for server in servers for n in (1, 32)]
        cpu_ns = {case: statistics.median(ns) for case, ns in in_turn(query, cases).items()}
    compare(cpu_ns, lambda case: f"{_ECHO}, {case.split(', ')[1]}", " ns")
    write("agent", cpu_ns)
