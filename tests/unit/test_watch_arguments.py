# SPDX-License-Identifier: MIT
"""Arguments of system calls are recorded as the kernel got them, and named as in its headers."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from test_watch import FOO, call_record, name_record, run, select, store_session

from linnapp.insight import arguments as watch_arguments

MINUS_1 = 2**64 - 1
ADDRESS = 0x7F0012345678


def recorded_arguments(folder: Path, *records: bytes, how: str = "detailed") -> list[Any]:
    rows = select(
        store_session(folder, *records, arguments=how),
        "select arguments from calls order by time_ns",
    )
    return [row["arguments"] and json.loads(row["arguments"]) for row in rows]


def test_raw_arguments_are_the_six_registers(tmp_path: Path) -> None:
    registers = [2**32 - 100, ADDRESS, os.O_CREAT, 0o644, MINUS_1, 2**63]
    found = recorded_arguments(
        tmp_path / "seen",
        call_record("openat", time_ns=1, arguments=registers),
        call_record("read", time_ns=2),
        call_record("sync", time_ns=3, arguments=()),
        how="raw",
    )
    assert found == [registers, None, [0] * 6]
    [row] = select(
        tmp_path / "seen",
        "select (arguments->>2)::ubigint as flags from calls where call = 'openat'",
    )
    assert row == {"flags": os.O_CREAT}


AT_FDCWD = 2**32 - 100
CWD = {"dirfd": "AT_FDCWD"}
DETAILED: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("read", (2**32 - 1, ADDRESS, MINUS_1), {"fd": -1, "count": MINUS_1}),
    ("pwrite64", (3, ADDRESS, 1, 2**40), {"fd": 3, "count": 1, "offset": 2**40}),
    ("openat", (AT_FDCWD, ADDRESS, os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_SYNC, 0o100640),
     {**CWD, "flags": "O_RDWR|O_CREAT|O_SYNC|O_DIRECT", "mode": "0640"}),
    # Registers are sign-extended and keep upper bits of earlier calls.
    ("openat", (2**64 - 100, ADDRESS, os.O_WRONLY | os.O_DSYNC | os.O_TRUNC, 0o777),
     {**CWD, "flags": "O_WRONLY|O_TRUNC|O_DSYNC"}),
    ("openat", (5, ADDRESS, os.O_TMPFILE | os.O_RDWR, 0o600),
     {"dirfd": 5, "flags": "O_RDWR|O_TMPFILE", "mode": "0600"}),
    ("openat", (5, ADDRESS, os.O_DIRECTORY | os.O_CLOEXEC, 0o600),
     {"dirfd": 5, "flags": "O_RDONLY|O_DIRECTORY|O_CLOEXEC"}),
    ("openat", (5, ADDRESS, 0x40000003), {"dirfd": 5, "flags": "0x40000003"}),
    # The content at an address is recorded in place of the address.
    ("openat2", (AT_FDCWD, ADDRESS, os.O_WRONLY | os.O_CREAT, 0o600, 0x18),
     {**CWD, "flags": "O_WRONLY|O_CREAT", "mode": "0600",
      "resolve": "RESOLVE_BENEATH|RESOLVE_IN_ROOT"}),
    ("lseek", (3, 2**64 - 5, 2), {"fd": 3, "offset": -5, "whence": "SEEK_END"}),
    ("lseek", (3, 0, 77), {"fd": 3, "offset": 0, "whence": 77}),
    ("fallocate", (3, 3, 4096, 8192),
     {"fd": 3, "mode": "FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE", "offset": 4096, "len": 8192}),
    ("fadvise64", (3, 0, 0, os.POSIX_FADV_DONTNEED),
     {"fd": 3, "offset": 0, "len": 0, "advice": "POSIX_FADV_DONTNEED"}),
    ("preadv2", (3, ADDRESS, 1, 512, 0, os.RWF_NOWAIT | 0x8000),
     {"fd": 3, "iovcnt": 1, "offset": 512, "flags": "RWF_NOWAIT|RWF_LATCRIT"}),
    ("renameat2", (AT_FDCWD, ADDRESS, 4, ADDRESS, 1),
     {"olddirfd": "AT_FDCWD", "newdirfd": 4, "flags": "RENAME_NOREPLACE"}),
    ("unlinkat", (AT_FDCWD, ADDRESS, 0x200), {**CWD, "flags": "AT_REMOVEDIR"}),
    ("faccessat2", (AT_FDCWD, ADDRESS, os.R_OK | os.X_OK, 0x200),
     {**CWD, "mode": "R_OK|X_OK", "flags": "AT_EACCESS"}),
    ("faccessat", (9, ADDRESS, 0), {"dirfd": 9, "mode": "F_OK"}),
    ("statx", (9, ADDRESS, 0x1100, 0x7FF | 0x800),
     {"dirfd": 9, "flags": "AT_SYMLINK_NOFOLLOW|AT_EMPTY_PATH",
      "mask": "STATX_BASIC_STATS|STATX_BTIME"}),
    ("mknodat", (9, ADDRESS, stat.S_IFBLK | 0o660, os.makedev(259, 300)),
     {"dirfd": 9, "mode": "S_IFBLK|0660", "dev": "259:300"}),
    ("mkdirat", (9, ADDRESS, 0o1777), {"dirfd": 9, "mode": "1777"}),
    ("sync", (), {}),
]  # fmt: skip


def test_detailed_arguments_have_names_and_words(tmp_path: Path) -> None:
    records = [
        call_record(call, time_ns=k, arguments=registers)
        for k, (call, registers, _) in enumerate(DETAILED)
    ]
    assert recorded_arguments(tmp_path / "seen", *records) == [words for _, _, words in DETAILED]


def test_rows_keep_their_arguments_and_words(tmp_path: Path) -> None:
    """Mixed calls keep their own arguments and strings."""
    lseek = [call_record("lseek", time_ns=10 * k, arguments=(k, 0, k % 3)) for k in range(6)]
    words = [b'user."\n', "user.größe".encode(), b"user.\xff"]
    named = [name_record(7, 10 * k + 5, 1, word) + b"" for k, word in enumerate(words)]
    xattr = [
        call_record("fgetxattr", FOO, time_ns=10 * k + 5, arguments=(k, ADDRESS, ADDRESS, 128))
        for k in range(4)
    ]
    records = [lseek[5], *(each for pair in zip(named, xattr, strict=False) for each in pair)]
    found = recorded_arguments(tmp_path / "seen", *records, xattr[3], *lseek[:5])
    whences = ("SEEK_SET", "SEEK_CUR", "SEEK_END")
    assert found[0::2][:4] == [{"fd": k, "offset": 0, "whence": whences[k % 3]} for k in range(4)]
    assert found[1::2][:3] == [
        {"fd": k, "name": name, "size": 128}
        for k, name in enumerate(('user."\n', "user.größe", "user.\\xff"))
    ]
    # The name was lost.
    assert found[7] == {"fd": 3, "size": 128}
    # This is not a second path.
    assert not any(row["to_path"] for row in select(tmp_path / "seen", "select to_path from calls"))


def test_argument_values_equal_the_system_headers(tmp_path: Path) -> None:
    """Compare each name that this machine's headers define; they may lack newer ones."""
    values = {
        name: value
        for flags in watch_arguments.FLAGS.values()
        for name, value in flags.items()
        if name not in ("O_LARGEFILE", "RWF_LATCRIT")
    }
    lines = [f'#ifdef {name}\n\tprintf("{name} %llu\\n", (unsigned long long){name});\n#endif'
             for name in values]  # fmt: skip
    source = tmp_path / "values.c"
    source.write_text(
        "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <stdio.h>\n#include <unistd.h>\n"
        "#include <linux/falloc.h>\n#include <linux/fs.h>\n#include <linux/io_uring.h>\n"
        "#include <linux/openat2.h>\n#include <linux/stat.h>\n#include <sys/mman.h>\n"
        "#include <sys/xattr.h>\n#define XATTR_CREATE XATTR_CREATE\n"
        "#define XATTR_REPLACE XATTR_REPLACE\n"
        "int main(void)\n{\n" + "\n".join(lines) + "\n}\n"
    )
    subprocess.run(["cc", "-o", tmp_path / "values", source], check=True)
    stdout = subprocess.run(
        [tmp_path / "values"], check=True, capture_output=True, text=True
    ).stdout
    found = {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", stdout, re.M)}
    assert len(found) > 60
    assert found == {name: values[name] for name in found}


# --- On this machine's own kernel.

PROGRAM = """
import ctypes, os, sys
os.chdir(sys.argv[1])
fd = os.open("x", os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_SYNC, 0o640)
os.setxattr(fd, "user.colour", b"blue", os.XATTR_CREATE)
try:
    os.removexattr("nowhere", "user.\\udce4")
except OSError:
    pass
os.lseek(fd, 4096, os.SEEK_END)
os.posix_fadvise(fd, 0, 4096, os.POSIX_FADV_WILLNEED)
os.symlink("what it says", "link")
os.rename("x", "y")
syscall = ctypes.CDLL(None).syscall
how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o600, 8)
LSEEK, OPENAT2 = {"x86_64": (8, 437), "aarch64": (62, 437)}[os.uname().machine]
syscall(OPENAT2, -100, b"z", ctypes.byref(how), ctypes.sizeof(how))
syscall(LSEEK, *(ctypes.c_uint64(value) for value in (77, 2**64 - 2, 3, 2**40, 5, 2**63 + 6)))
"""


def watched(tmp_path: Path, how: str) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    done = run(
        *("watch", "-o", tmp_path / "seen", "--arguments", how, "--json", "--"),
        *(sys.executable, "-S", "-E", "-c", textwrap.dedent(PROGRAM), place),
    )
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)["arguments"] == how
    return tmp_path / "seen"


def test_detailed_arguments_match_those_of_the_program(can_watch: None, tmp_path: Path) -> None:
    folder = watched(tmp_path, "detailed")
    rows = select(
        folder,
        f"""select call, path, arguments from calls
        where starts_with(path, '{tmp_path}/place/') or call = 'lseek' order by time_ns""",
    )
    found = [
        (row["call"], row["path"] and Path(row["path"]).name, json.loads(row["arguments"]))
        for row in rows
    ]
    [opened] = [arguments for call, path, arguments in found if call == "openat" and path == "x"]
    assert opened == {
        **{"dirfd": "AT_FDCWD", "mode": "0640"},
        "flags": "O_RDWR|O_CREAT|O_APPEND|O_SYNC|O_CLOEXEC",
    }
    fd = next(arguments["fd"] for call, path, arguments in found if call == "fsetxattr")
    for expected in (
        ("fsetxattr", "x", {"fd": fd, "name": "user.colour", "size": 4, "flags": "XATTR_CREATE"}),
        ("removexattr", "nowhere", {"name": "user.\\xe4"}),
        ("lseek", "x", {"fd": fd, "offset": 4096, "whence": "SEEK_END"}),
        (
            *("fadvise64", "x"),
            {"fd": fd, "offset": 0, "len": 4096, "advice": "POSIX_FADV_WILLNEED"},
        ),
        (
            *("openat2", "z"),
            {
                **{"dirfd": "AT_FDCWD", "flags": "O_WRONLY|O_CREAT", "mode": "0600"},
                "resolve": "RESOLVE_BENEATH",
            },
        ),
        ("lseek", None, {"fd": 77, "offset": -2, "whence": "SEEK_DATA"}),
    ):
        assert expected in found, expected
    [linked] = [arguments for call, path, arguments in found if call.startswith("symlink")]
    assert linked["target"] == "what it says"
    # The document's query.
    document = Path(__file__).parents[2] / "docs" / "watch.md"
    section = document.read_text().split("\n### With which arguments\n")[1].split("\n### ")[0]
    [sql] = re.findall(r"```sql\n(.*?)```", section, re.S)
    answer = select(folder, sql)
    assert {"flags": opened["flags"], "opens": 1, "files": 1} in answer
