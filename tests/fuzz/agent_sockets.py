# SPDX-License-Identifier: MIT
"""Send mostly malformed datagrams to a linnos-agent and check that it keeps working.

``agent_sockets.py AGENT FOLDER --seconds N``: over IPv4 and IPv6, signed and not, from clients that
it answers, and from clients that it ignores.
Valid queries in between must be answered. Everything else that returns must be an answer to
something that was sent, of the right length. In the end the agent must have counted each datagram
once, and it must exit normally without a report of its sanitizers.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus" / "agent"
#: First byte of corpus files that are a configuration, not a datagram.
CONFIGURATION = 0x80
KEY = b"sixteen bytes, and a few more\0"
#: A query without the fields of answers, and the start of both; see linnos-agent(8).
QUESTION = struct.Struct("<4sBBHQH6xII32x")
BEGINNING = struct.Struct("<4sBBHQ")
PLAIN_BYTES, SIGNED_BYTES = 64, 96
#: Largest datagram over IPv4.
LONGEST = 65_507
#: Datagrams and bytes of a batch, which sockets can hold while their reader is busy.
BATCH, BATCH_BYTES = 48, 100_000
GIVE_UP_S = 120


def signed(datagram: bytes) -> bytes:
    return datagram + hashlib.blake2b(datagram, key=KEY, digest_size=32).digest()


class Damage:
    """Make datagrams from valid ones and from the kept corpus."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        corpus = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
        self.seeds = [
            content[1:] for content in corpus if content and not content[0] & CONFIGURATION
        ]

    def question(self) -> bytes:
        draw = self.chance.getrandbits
        return QUESTION.pack(*(b"LNAG", 1, 1, draw(2), draw(64), draw(1), draw(32) or 1, draw(32)))

    def datagram(self) -> bytes:
        chance = self.chance
        mutated = bytearray(self.question() if chance.random() < 0.5 else chance.choice(self.seeds))
        for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
            self._mutate(mutated)
        plain = bytes(mutated)
        if chance.random() < 0.3:
            plain = signed(plain[:PLAIN_BYTES]) + plain[PLAIN_BYTES:]
        return plain[:LONGEST]

    def _mutate(self, datagram: bytearray) -> None:
        chance, at = self.chance, self.chance.randrange(len(datagram) + 1)
        what = chance.randrange(7)
        if what == 0 and datagram:
            datagram[at % len(datagram)] ^= 1 << chance.randrange(8)
        elif what == 1 and datagram:
            datagram[at % len(datagram)] = chance.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFF, chance.getrandbits(8))
            )
        elif what == 2:
            del datagram[at:]
        elif what == 3:
            datagram[at:at] = chance.randbytes(chance.randrange(40))
        elif what == 4:
            del datagram[at : at + chance.randrange(1, 9)]
        elif what == 5:
            datagram += chance.choice(self.seeds)
        elif chance.random() < 0.01:
            datagram += chance.randbytes(chance.randrange(LONGEST))


class Sender:
    """A socket that sends queries; `is_answered` is true if the agent answers this client."""

    def __init__(self, own: socket.socket, to: tuple[str, int], is_answered: bool) -> None:
        self.own, self.to, self.is_answered = own, to, is_answered
        self.own.settimeout(GIVE_UP_S)
        self.sent = 0
        #: Cookie and length of queries that may still be answered.
        self.open: set[tuple[bytes, int]] = set()

    def send(self, datagram: bytes) -> None:
        self.own.sendto(datagram, self.to)
        self.sent += 1
        self.open.add((datagram[8:16], len(datagram)))

    def take(self) -> bytes:
        """Return the next answer, which must be valid."""
        answer = self.own.recv(LONGEST)
        magic, version, kind, _, _ = BEGINNING.unpack_from(answer)
        if (magic, version, kind, len(answer)) != (b"LNAG", 1, 2, SIGNED_BYTES):
            raise SystemExit(f"no answer: {answer.hex()}")
        if signed(answer[:PLAIN_BYTES]) != answer:
            raise SystemExit(f"not signed: {answer.hex()}")
        if (answer[8:16], len(answer)) not in self.open or not self.is_answered:
            raise SystemExit(f"the answer to nothing that was asked: {answer.hex()}")
        return answer

    def barrier(self, question: bytes) -> None:
        """Wait for an answer, after which all earlier datagrams have been processed."""
        if not self.is_answered:
            return
        self.send(signed(question))
        while self.take()[8:16] != question[8:16]:
            pass
        self.open.clear()

    def drain(self) -> int:
        """Discard all pending datagrams; return their number."""
        n = 0
        self.own.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while self.own.recv(LONGEST):
                n += 1
        self.own.settimeout(GIVE_UP_S)
        return n


def udp(family: socket.AddressFamily, source: str) -> socket.socket:
    udp_socket = socket.socket(family, socket.SOCK_DGRAM)
    udp_socket.bind((source, 0))
    return udp_socket


def free_port(family: socket.AddressFamily, address: str) -> int:
    with udp(family, address) as taken:
        port: int = taken.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Return whether no program listens on a port yet."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


class Run:
    """An agent and its clients."""

    def __init__(self, agent: Path, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.damage = Damage(self.chance)
        inet, inet6 = socket.AF_INET, socket.AF_INET6
        port = free_port(inet, "127.0.0.1")
        try:
            port6 = free_port(inet6, "::1")
        except OSError:
            port6 = 0  # a machine without IPv6
        key = folder / "key"
        key.write_bytes(KEY)
        key.chmod(0o600)
        configuration = folder / "agent.conf"
        configuration.write_text(
            "drive /dev/no-such-drive\ndrive /dev/nor-this-one\n"
            f"key {key}\n"
            # The agent opens them in this order.
            f"{f'listen ::1 {port6}' if port6 else ''}\nlisten 127.0.0.1 {port}\n"
            "allow 127.0.0.1 1000000\nallow 127.0.0.3 10\nallow ::1 1000000\n"
        )
        self.process = subprocess.Popen(
            [agent, "--config", configuration], stderr=subprocess.PIPE, text=True
        )
        while self.process.poll() is None and is_free(port):
            time.sleep(0.01)
        self.stranger = Sender(udp(inet, "127.0.0.2"), ("127.0.0.1", port), False)
        self.hasty = Sender(udp(inet, "127.0.0.3"), ("127.0.0.1", port), False)
        self.senders = [
            Sender(udp(inet, "127.0.0.1"), ("127.0.0.1", port), True),
            *([Sender(udp(inet6, "::1"), ("::1", port6), True)] if port6 else []),
            *(self.stranger, self.hasty),
        ]

    def batch(self) -> None:
        n_bytes = 0
        for _ in range(BATCH):
            datagram = self.damage.datagram()
            n_bytes += len(datagram)
            if n_bytes > BATCH_BYTES:
                break
            self.chance.choice(self.senders).send(datagram)
        for sender in self.senders:
            sender.barrier(self.damage.question())
            sender.open.clear()
        if self.stranger.drain():
            raise SystemExit("a stranger was answered")
        # Some were within the rate limit.
        self.hasty.drain()

    @property
    def sent(self) -> int:
        return sum(sender.sent for sender in self.senders)

    def stop(self) -> str:
        """Stop the agent, check that it counted each datagram once, and return its counts."""
        self.process.send_signal(signal.SIGTERM)
        stderr: str = self.process.communicate(timeout=GIVE_UP_S)[1]
        counted = re.search(r"answered \d+ queries; ignored .*", stderr)
        if self.process.returncode or counted is None:
            raise SystemExit(f"the agent ended with {self.process.returncode}:\n{stderr}")
        if sum(map(int, re.findall(r"\d+", counted[0]))) != self.sent:
            raise SystemExit(f"{self.sent} datagrams were sent, and {counted[0]}")
        return counted[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="Sends bad datagrams to a linnos-agent.")
    parser.add_argument("agent", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {arguments.seed}", flush=True)
    run = Run(arguments.agent.resolve(), arguments.folder.resolve(), arguments.seed)
    begin = time.monotonic()
    try:
        while time.monotonic() < begin + arguments.seconds:
            run.batch()
        took_s = time.monotonic() - begin
        print(f"{run.sent} datagrams in {took_s:.1f} s; {run.stop()}")
    except OSError as error:
        run.process.kill()
        stderr = run.process.communicate()[1]
        raise SystemExit(f"after {run.sent} datagrams: {error}\n{stderr}") from error
    finally:
        if run.process.poll() is None:
            run.process.kill()


if __name__ == "__main__":
    sys.exit(main())
