# SPDX-License-Identifier: MIT
"""linnos-agent on this machine, over UDP; it ignores other clients."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replaying import GIVE_UP_S

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "cluster" / "agent"
#: linnos-agent(8), without the fields of answers.
QUESTION = struct.Struct("<4sBBHQH6xII32x")
ANSWER = struct.Struct("<4sBBHQHHHHIII4xQQ8x")
GONE = 3
NIGHTLY = pytest.mark.nightly
KEY = b"sixteen bytes, and a few more"


def make(*goals: str) -> None:
    out = f"OUT={ROOT / 'build' / 'agent'}"
    subprocess.run(
        ["make", "-s", "-C", SOURCE, out, *goals], check=True, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def program() -> Path:
    make()
    return ROOT / "build" / "agent" / "linnos-agent"


def question(cookie: int = 5, drive: int = 0, size_bytes: int = 4096) -> bytes:
    return QUESTION.pack(b"LNAG", 1, 1, 1, cookie, drive, size_bytes, 0)


def signed(datagram: bytes, key: bytes) -> bytes:
    return datagram + hashlib.blake2b(datagram, key=key, digest_size=32).digest()


def free_port(wanted: int = 0) -> int:
    """Return a free port; 0 if the wanted one is taken."""
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with taken, contextlib.suppress(OSError):
        taken.bind(("127.0.0.1", wanted))
        return int(taken.getsockname()[1])
    return 0


class Agent:
    """A running agent; ``stop()`` ends it and returns its output."""

    def __init__(
        self, program: Path, folder: Path, *directives: str, drive: str = "/dev/no-such-drive"
    ) -> None:
        self.port = free_port()
        configuration = folder / "agent.conf"
        lines = (f"drive {drive}", f"listen 127.0.0.1 {self.port}", *directives)
        configuration.write_text("\n".join(lines) + "\n")
        self.process = subprocess.Popen(
            [program, "--config", configuration], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        # a missing drive is reported before the agent listens
        if "no-such-drive" in drive:
            assert "are answered with GONE" in self.process.stderr.readline()
        while self.process.poll() is None and free_port(self.port):
            time.sleep(0.001)

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        stderr = self.process.communicate()[1]
        assert self.process.returncode == 0
        return stderr


@contextlib.contextmanager
def running(program: Path, folder: Path, *directives: str, **how: Any) -> Iterator[Agent]:
    agent = Agent(program, folder, *directives, **how)
    try:
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.process.kill()
            agent.process.communicate()


@contextlib.contextmanager
def udp(agent: Agent) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(GIVE_UP_S)
        client.connect(("127.0.0.1", agent.port))
        yield client


@pytest.mark.parametrize("goal", ["check", pytest.param("check-sanitized", marks=NIGHTLY)])
def test_the_c_tests_pass(goal: str) -> None:
    make(goal)


def query_agent(agent: Agent, cookie: int) -> bytes:
    """Return the answer to a query."""
    with udp(agent) as client:
        client.send(question(cookie))
        return client.recv(200)


def test_query_is_answered(program: Path, tmp_path: Path) -> None:
    with running(program, tmp_path, "allow 127.0.0.0/8") as agent:
        answer = query_agent(agent, 77)
        first = ANSWER.unpack(answer)
        assert len(answer) == 64
        assert first[:5] == (b"LNAG", 1, 2, 1, 77)
        # drive, drives, state of a missing drive
        assert first[5:8] == (0, 1, GONE)
        second = ANSWER.unpack(query_agent(agent, 78))
        assert second[4] == 78
        # the clock advances, and the generation is that of one start
        assert second[12] > first[12] > 0 and second[13] == first[13] > 0
        assert "answered 2 queries; ignored 0 from other addresses" in agent.stop()


def test_ignored_datagrams_are_counted_and_do_not_block_other_clients(
    program: Path, tmp_path: Path
) -> None:
    # one query per second and address; a burst may be a tenth of that, rounded up to one
    with running(program, tmp_path, "allow 127.0.0.0/8 1") as agent:
        with udp(agent) as client:
            for wrong in (b"", b"x", question()[:63], question() * 2, b"\0" * 64, b"\xff" * 70000):
                with contextlib.suppress(OSError):  # the last one is too long for a datagram
                    client.send(wrong)
            for cookie in range(50):
                client.send(question(cookie))
            assert ANSWER.unpack(client.recv(200))[4] == 0
        for k in range(2, 20):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.settimeout(GIVE_UP_S)
                other.bind((f"127.0.0.{k}", 0))
                other.connect(("127.0.0.1", agent.port))
                other.send(question(k))
                assert ANSWER.unpack(other.recv(200))[4] == k
        stderr = agent.stop()
    answered, over_rate = map(
        int, re.findall(r"answered (\d+) queries;.* (\d+) over the rate, 5 malformed", stderr)[0]
    )
    assert answered >= 19 and over_rate >= 1 and answered + over_rate == 50 + 18


def test_keys_are_exchanged_while_the_agent_runs(program: Path, tmp_path: Path) -> None:
    keys = [tmp_path / "key", tmp_path / "next_key"]
    for key in keys:
        key.write_bytes(KEY)
        key.chmod(0o600)
    next_key = bytes(reversed(KEY)) + b", the next one"
    directives = ("allow 127.0.0.1", *(f"key {key}" for key in keys))

    def answers(agent: Agent, key: bytes) -> bool:
        with udp(agent) as client:
            client.send(signed(question(1), key))
            # The agent reads its sockets before its signals.
            agent.process.send_signal(signal.SIGUSR1)
            assert agent.process.stderr is not None
            assert "answered" in agent.process.stderr.readline()
            client.settimeout(0)
            try:
                answer = client.recv(200)
            except BlockingIOError:
                return False
        return answer == signed(answer[:64], key)

    def reload(agent: Agent) -> str:
        agent.process.send_signal(signal.SIGHUP)
        assert agent.process.stderr is not None
        return agent.process.stderr.readline()

    with running(program, tmp_path, *directives) as agent:
        with udp(agent) as client:
            client.send(question(1))
        assert answers(agent, KEY) and not answers(agent, next_key)
        keys[1].write_bytes(next_key)
        assert "were read again" in reload(agent)
        assert answers(agent, KEY) and answers(agent, next_key)
        keys[0].write_bytes(next_key)
        assert "were read again" in reload(agent)
        assert not answers(agent, KEY) and answers(agent, next_key)
        # An unusable key does not replace the others.
        keys[0].write_bytes(b"short")
        assert "has 5 bytes; a key must have 16 to 64" in reload(agent)
        assert agent.process.stderr is not None
        assert "the keys are unchanged" in agent.process.stderr.readline()
        # The second line is not ignored.
        keys[0].write_bytes(b"k" * 64 + b"\nmore")
        assert "has 69 bytes; a key must have 16 to 64" in reload(agent)
        assert "the keys are unchanged" in agent.process.stderr.readline()
        assert answers(agent, next_key)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_agent_drops_capabilities(program: Path, tmp_path: Path) -> None:
    with running(program, tmp_path, "allow 127.0.0.1") as agent:
        query_agent(agent, 1)
        status = Path(f"/proc/{agent.process.pid}/status").read_text()
        assert {int(bits, 16) for bits in re.findall(r"Cap(?:Prm|Eff):\s(\w+)", status)} == {0}


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ("drive /dev/null\nlisten ::1\nallow ::1\n", "/dev/null: Block device required"),
        (
            "drive /dev/a\nlisten ::1\nallow ::1\nkey KEY\n",
            "must not be readable by all users; run chmod o=",
        ),
        ("drive /dev/a\nlisten ::1\nallow ::1\nkey /tmp\n", "/tmp: Is a directory"),
        ("drive a\n", "a is not an absolute path"),
        ("drive /dev/a\nlisten 127.0.0.1\n", "no client would be answered"),
    ],
)
def test_agent_names_the_setting_that_keeps_it_from_starting(
    program: Path, tmp_path: Path, configuration: str, message: str
) -> None:
    key = tmp_path / "key"
    key.write_bytes(KEY)
    key.chmod(0o644)
    place = tmp_path / "agent.conf"
    place.write_text(configuration.replace("KEY", str(key)))
    result = subprocess.run(
        [program, "--config", place], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1 and message in result.stderr


def run_check(program: Path, configuration: Path) -> subprocess.CompletedProcess[str]:
    command = [program, "--check", "--config", configuration]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_check_opens_every_drive(program: Path, tmp_path: Path) -> None:
    place = tmp_path / "agent.conf"
    place.write_text("drive /dev/null\ndrive /dev/zero\nlisten ::1\nallow ::1\n")
    result = run_check(program, place)
    assert result.returncode == 1
    assert re.findall(r"/dev/(\w+): Block device required\n", result.stderr) == ["null", "zero"]


def test_example_has_every_directive_and_only_its_drive_is_missing(program: Path) -> None:
    example = SOURCE / "agent.conf"
    result = run_check(program, example)
    named = "/dev/disk/by-id/nvme-EXAMPLE: No such file or directory\n"
    assert (result.returncode, result.stderr) == (1, f"linnos-agent: {named}")
    page = (ROOT / "docs" / "linnos-agent.8").read_text()
    directives = set(re.findall(r"^\.BI ([a-z]+) ", page, re.MULTILINE))
    source = (SOURCE / "configuration.c").read_text()
    assert set(re.findall(r"\{\"([a-z]+)\", \d, parse_", source)) == directives
    assert directives == set(re.findall(r"^#?([a-z]+) [/\d]", example.read_text(), re.MULTILINE))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_well_formed_and_hardened(program: Path, tmp_path: Path) -> None:
    unit = tmp_path / "linnos-agent.service"
    text = (SOURCE / "linnos-agent.service.in").read_text()
    unit.write_text(text.replace("@SBIN@", str(program.parent)))
    values = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    # systemd itself is in the unit, too, while it sets up credentials
    assert int(values["TasksMax"]) >= 4
    # the socket's group is that of the process
    assert values["Group"] == "disk" and "SupplementaryGroups" not in values
    # 30 is an exposure of 3.0
    for check in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=30"]):
        result = subprocess.run(
            ["systemd-analyze", *check, unit], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
