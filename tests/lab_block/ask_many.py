# SPDX-License-Identifier: MIT
"""Run in the guest by test_ask.sh, with nullb_a (40 us), nullb_b (100 us) and nullb_c (110 us).

All three have a model that predicts what the last read took, rounded up. Each check fails by an
assertion.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import subprocess
import tempfile
from pathlib import Path

from ask import LOOK, PROBE, SLOW, STALE, Drive, ask, call, error_of, packed

NAMES = ("nullb_a", "nullb_b", "nullb_c")
FDS = [os.open(f"/dev/{name}", os.O_RDONLY | os.O_DIRECT) for name in NAMES]
TRACING = Path("/sys/kernel/debug/tracing")


def linnos(name: str, file: str, value: str | None = None) -> str:
    path = Path("/sys/block") / name / "linnos" / file
    if value is not None:
        path.write_text(value)
    return path.read_text().strip()


def read(fd: int, times: int = 4) -> None:
    with mmap.mmap(-1, 4096) as buffer:
        for _ in range(times):
            assert os.preadv(fd, [buffer], 0) == 4096


def use(name: str, model: str) -> None:
    data = Path(os.environ["MODELS"], f"{model}.linnos").read_bytes()
    (Path("/sys/block") / name / "linnos" / "model").write_bytes(data)


def check_answers_of_the_kernel() -> None:
    """Check that the answer equals the tracepoint's and the decision about a hinted read."""
    for fd in FDS:
        read(fd)
    (TRACING / "trace").write_text("")
    for event in ("linnos_expected", "linnos_decision"):
        (TRACING / "events/linnos" / event / "enable").write_text("1")
    answers = [ask(FDS), ask(FDS, flags=LOOK), ask(FDS[::-1], 65536)]
    for name in NAMES:
        subprocess.run([os.environ["LCREAD"], "-p", f"/dev/{name}"], check=True)
    text = (TRACING / "trace").read_text()
    for event in ("linnos_expected", "linnos_decision"):
        (TRACING / "events/linnos" / event / "enable").write_text("0")
    predictions = [(d.flags & SLOW, d.latency_us) for answer in answers for d in answer.drives]
    traced = [
        (int(expected == "slow"), int(us))
        for expected, us in re.findall(r"linnos_expected: .* expected=(\w+) latency_us=(\d+)", text)
    ]
    assert predictions == traced and len(predictions) == 9, (predictions, text)
    assert all(d.known == "latency" for answer in answers for d in answer.drives)
    decided = [int(us) for us in re.findall(r"linnos_decision: .* out_slow=(\d+)", text)]
    assert decided == [us for _, us in predictions[:3]] == [us for _, us in predictions[3:6]], (
        predictions,
        text,
    )
    assert answers[0].best == {0}, answers
    assert answers[2].best == {2}, answers
    # 110 us do not exceed 100 us by the required margin.
    assert ask(FDS[1:]).best == {0, 1}


def check_numbers_of_drives() -> None:
    for n in range(1, 17):
        fds = (FDS * 6)[:n]
        assert ask(fds).best == {k for k in range(n) if k % 3 == 0}
    assert error_of(FDS * 6) == "EINVAL"
    assert error_of(FDS, n=0) == "EINVAL"
    assert error_of(FDS, n=2**32 - 1) == "EINVAL"
    assert error_of(FDS, 0) == "EINVAL"
    assert len(ask(FDS, 2**32 - 1).drives) == 3
    for bit in range(2, 32):
        assert error_of(FDS, flags=1 << bit) == "EINVAL"


def check_bad_memory() -> None:
    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    place = libc.mmap(None, 2 * page, 3, 0x22, 2**64 - 1, 0)
    question = packed(FDS)

    def fails(address: int) -> bool:
        try:
            call(FDS[0], address)
        except OSError as error:
            return error.errno == 14
        return False

    assert fails(0) and fails(2**63) and fails(2**64 - 8)
    # truncated: without the header, or without a part of the drives
    libc.mprotect(place + page, page, 0)
    for n_bytes in (1, 15, 16, 31, 63):
        ctypes.memmove(place + page - n_bytes, question, n_bytes)
        assert fails(place + page - n_bytes), n_bytes
    ctypes.memmove(place + page - 64, question, 64)
    assert not fails(place + page - 64)
    # not writable
    ctypes.memmove(place, question, 64)
    libc.mprotect(place, page, 1)
    assert fails(place)


def output_for_ordinary_user() -> str:
    """Return the output of ask.py for a user who cannot read our folders."""
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    command += ["/usr/bin/python3", "-", "/dev/nullb_a", "/dev/nullb_b"]
    program = Path(__file__).with_name("ask.py").read_text()
    result = subprocess.run(command, input=program, capture_output=True, text=True, cwd="/")
    return result.stdout + result.stderr


def check_rights() -> None:
    writer = os.open("/dev/nullb_a", os.O_WRONLY)
    path = os.open("/dev/nullb_a", os.O_PATH)
    both = os.open("/dev/nullb_a", os.O_RDWR)
    assert error_of([writer]) == error_of(FDS, at=writer) == "EBADF"
    assert error_of([FDS[0], writer]) == error_of([FDS[0], path]) == "EBADF"
    assert error_of([FDS[0], -1]) == error_of([FDS[0], 999]) == "EBADF"
    assert ask([both]).best == {0}
    with tempfile.TemporaryFile() as file, Path("/dev/zero").open() as zero:
        assert error_of([FDS[0], file.fileno()]) == "ENOTBLK"
        assert error_of([FDS[0], zero.fileno()]) == "ENOTBLK"
        assert error_of([file.fileno()]) == "ENOTTY"
    for fd in (writer, path, both):
        os.close(fd)
    # an ordinary user who may open the drive may query it
    Path("/dev/nullb_a").chmod(0o444)
    Path("/dev/nullb_b").chmod(0o400)
    assert "Permission denied: '/dev/nullb_b'" in output_for_ordinary_user()
    Path("/dev/nullb_b").chmod(0o444)
    assert output_for_ordinary_user().splitlines()[0] == "0"


def check_kinds_of_models() -> None:
    """Check drives without a model, with a network among latency models, and in mode off."""
    use("nullb_b", "slow")
    # 110 us are slow for nullb_c's model: equal to a slow network prediction
    assert ask(FDS).best == {0} and ask(FDS[1:]).best == {0, 1}
    assert ask(FDS).drives[1] == Drive("verdict", SLOW)
    use("nullb_c", "fast")
    assert ask(FDS[1:]).best == {1}
    linnos("nullb_b", "mode", "off")
    answer = ask(FDS)
    assert answer.drives[1] == Drive("off") and answer.best == {0, 1, 2}
    linnos("nullb_b", "mode", "observe")
    for name, fd in zip(NAMES[1:], FDS[1:], strict=True):
        use(name, "last")
        read(fd)


def check_probe_is_reported_until_read() -> None:
    """Check that all queries say that a drive is to be probed, until a read probes it."""
    use("nullb_a", "slow")
    use("nullb_b", "fast")
    read(FDS[0], 1)
    linnos("nullb_a", "probe_after_revokes", "5")
    probes = int(linnos("nullb_a", "stats/probes"))
    for _ in range(20):
        ask(FDS, flags=LOOK)
    answers = [ask(FDS) for _ in range(7)]
    flags = [answer.drives[0].flags & PROBE for answer in answers]
    # not sent yet
    assert flags == [0] * 5 + [PROBE] * 2, answers
    assert [answer.best for answer in answers] == [{1}] * 5 + [{0}] * 2, answers
    assert int(linnos("nullb_a", "stats/probes")) == probes + 2
    read(FDS[0], 1)
    # 40 us were not slow: probe again at once
    assert ask(FDS).best == {0}
    read(FDS[0], 1)
    linnos("nullb_a", "probe_after_revokes", "0")
    use("nullb_a", "last")
    use("nullb_b", "last")
    read(FDS[1])
    linnos("nullb_a", "probe_after_us", "1000")
    read(FDS[0])
    assert not ask(FDS).drives[0].flags & STALE
    subprocess.run(["sleep", "0.1"], check=True)
    assert ask(FDS).drives[0].flags & STALE
    linnos("nullb_a", "probe_after_us", "0")
    read(FDS[0])


def check_parts_and_stacks() -> None:
    subprocess.run(["addpart", "/dev/nullb_a", "1", "2048", "2048"], check=True)
    part = os.open("/dev/nullb_a1", os.O_RDONLY)
    assert ask([part, *FDS]).drives[0] == ask(FDS).drives[0]
    os.close(part)
    subprocess.run(["delpart", "/dev/nullb_a", "1"], check=True)
    stack = os.open(os.environ["STACK"], os.O_RDONLY)
    answer = ask([FDS[0], stack])
    assert answer.drives[1] == Drive("no policy") and answer.best == {0, 1}
    os.close(stack)


def check_removed_drives() -> None:
    """Check drives that are removed while they are open, one after the other."""
    for n, name in enumerate(NAMES, 1):
        Path(f"/sys/kernel/config/nullb/{name}/power").write_text("0")
        answer = ask(FDS)
        assert answer.drives[:n] == (Drive("gone"),) * n, answer
        assert answer.best == set(range(n, 3)), answer
        assert ask(FDS[n - 1 :], flags=LOOK, at=FDS[-1]).drives[0] == Drive("gone")


if __name__ == "__main__":
    check_answers_of_the_kernel()
    check_numbers_of_drives()
    check_bad_memory()
    check_rights()
    check_kinds_of_models()
    check_probe_is_reported_until_read()
    check_parts_and_stacks()
    check_removed_drives()
