# SPDX-License-Identifier: MIT
"""Format the arguments of system calls as JSON: six raw registers, or values by name.

``raw`` is a list of the numbers passed to the kernel. ``detailed`` is an object by the names in the
manual pages, with flags and modes as symbols. Addresses are left out, and so are paths, which have
their own columns. Data behind an address is included only for the names of extended attributes, the
targets of symbolic links and the flags of openat2().
"""

from __future__ import annotations

import functools
import json
import os
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

#: Arguments of each call in order, as `name:kind`; the default kind is int. `-` is an address or a
#: path. Calls that this architecture does not have are never recorded.
_SIGNATURES = """
read fd - count:size
write fd - count:size
pread64 fd - count:size offset:long
pwrite64 fd - count:size offset:long
readv fd - iovcnt
writev fd - iovcnt
preadv fd - iovcnt:size offset:long
pwritev fd - iovcnt:size offset:long
preadv2 fd - iovcnt:size offset:long - flags:rwf
pwritev2 fd - iovcnt:size offset:long - flags:rwf
fsync fd
fdatasync fd
sync_file_range fd offset:long nbytes:long flags:sync_file_range
readahead fd offset:long count:size
fadvise64 fd offset:long len:long advice:advice
fallocate fd mode:fallocate offset:long len:long
sendfile out_fd in_fd - count:size
copy_file_range fd_in - fd_out - len:size flags
syncfs fd
sync
msync - length:size flags:msync
io_submit - nr:long
io_getevents - min_nr:long nr:long
io_uring_enter fd to_submit min_complete flags:enter
open - flags:open mode:created
creat - mode:mode
rename
unlink
rmdir
mkdir - mode:mode
mknod - mode:node dev:device
link
symlink target:word
readlink - - bufsiz
stat
lstat
access - mode:access
openat dirfd:folder - flags:open mode:created
openat2 dirfd:folder - flags:open mode:created resolve:resolve
close fd
lseek fd offset:long whence:whence
truncate - length:long
ftruncate fd length:long
renameat olddirfd:folder - newdirfd:folder
renameat2 olddirfd:folder - newdirfd:folder - flags:rename
unlinkat dirfd:folder - flags:unlinkat
linkat olddirfd:folder - newdirfd:folder - flags:at
symlinkat target:word newdirfd:folder
readlinkat dirfd:folder - - bufsiz
fstat fd
newfstatat dirfd:folder - - flags:at
statx dirfd:folder - flags:at mask:statx
statfs
fstatfs fd
faccessat dirfd:folder - mode:access
faccessat2 dirfd:folder - mode:access flags:faccessat
getxattr - name:word - size:size
lgetxattr - name:word - size:size
fgetxattr fd name:word - size:size
setxattr - name:word - size:size flags:xattr
lsetxattr - name:word - size:size flags:xattr
fsetxattr fd name:word - size:size flags:xattr
listxattr - - size:size
llistxattr - - size:size
flistxattr fd - size:size
removexattr - name:word
lremovexattr - name:word
fremovexattr fd name:word
mknodat dirfd:folder - mode:node dev:device
mkdirat dirfd:folder - mode:mode
getdents64 fd - count
"""

AT_FDCWD = -100


def _os_constants(*names: str) -> dict[str, int]:
    return {name: getattr(os, name) for name in names}


_AT = {
    "AT_SYMLINK_NOFOLLOW": 0x100,
    "AT_SYMLINK_FOLLOW": 0x400,
    "AT_NO_AUTOMOUNT": 0x800,
    "AT_EMPTY_PATH": 0x1000,
    "AT_STATX_FORCE_SYNC": 0x2000,
    "AT_STATX_DONT_SYNC": 0x4000,
}
#: Names of bits by kind of argument. A name for several bits precedes those of its parts. Constants
#: that Python lacks have the same value on every architecture.
FLAGS: dict[str, dict[str, int]] = {
    "open": _os_constants(
        *("O_CREAT", "O_EXCL", "O_NOCTTY", "O_TRUNC", "O_APPEND", "O_NONBLOCK", "O_SYNC"),
        *("O_DSYNC", "O_ASYNC", "O_DIRECT", "O_LARGEFILE", "O_TMPFILE", "O_DIRECTORY"),
        *("O_NOFOLLOW", "O_NOATIME", "O_CLOEXEC", "O_PATH"),
    ),
    "rwf": {
        **_os_constants("RWF_HIPRI", "RWF_SYNC", "RWF_DSYNC", "RWF_NOWAIT", "RWF_APPEND"),
        **{"RWF_NOAPPEND": 0x20, "RWF_ATOMIC": 0x40, "RWF_DONTCACHE": 0x80},
        "RWF_LATCRIT": 0x8000,  # added by LinnOS
    },
    "access": _os_constants("R_OK", "W_OK", "X_OK"),
    "xattr": _os_constants("XATTR_CREATE", "XATTR_REPLACE"),
    "at": _AT,
    "unlinkat": {"AT_REMOVEDIR": 0x200},
    "faccessat": {"AT_EACCESS": 0x200, **_AT},
    "rename": {"RENAME_NOREPLACE": 1, "RENAME_EXCHANGE": 2, "RENAME_WHITEOUT": 4},
    "sync_file_range": {
        "SYNC_FILE_RANGE_WAIT_BEFORE": 1,
        "SYNC_FILE_RANGE_WRITE": 2,
        "SYNC_FILE_RANGE_WAIT_AFTER": 4,
    },
    "fallocate": {
        **{"FALLOC_FL_KEEP_SIZE": 1, "FALLOC_FL_PUNCH_HOLE": 2, "FALLOC_FL_NO_HIDE_STALE": 4},
        **{"FALLOC_FL_COLLAPSE_RANGE": 8, "FALLOC_FL_ZERO_RANGE": 0x10},
        **{"FALLOC_FL_INSERT_RANGE": 0x20, "FALLOC_FL_UNSHARE_RANGE": 0x40},
        "FALLOC_FL_WRITE_ZEROES": 0x80,
    },
    "msync": {"MS_ASYNC": 1, "MS_INVALIDATE": 2, "MS_SYNC": 4},
    "resolve": {
        **{"RESOLVE_NO_XDEV": 1, "RESOLVE_NO_MAGICLINKS": 2, "RESOLVE_NO_SYMLINKS": 4},
        **{"RESOLVE_BENEATH": 8, "RESOLVE_IN_ROOT": 0x10, "RESOLVE_CACHED": 0x20},
    },
    "statx": {
        "STATX_BASIC_STATS": 0x7FF,
        **{"STATX_TYPE": 1, "STATX_MODE": 2, "STATX_NLINK": 4, "STATX_UID": 8},
        **{"STATX_GID": 0x10, "STATX_ATIME": 0x20, "STATX_MTIME": 0x40, "STATX_CTIME": 0x80},
        **{"STATX_INO": 0x100, "STATX_SIZE": 0x200, "STATX_BLOCKS": 0x400, "STATX_BTIME": 0x800},
        **{"STATX_MNT_ID": 0x1000, "STATX_DIOALIGN": 0x2000, "STATX_MNT_ID_UNIQUE": 0x4000},
        **{"STATX_SUBVOL": 0x8000, "STATX_WRITE_ATOMIC": 0x10000},
    },
    "enter": {
        **{"IORING_ENTER_GETEVENTS": 1, "IORING_ENTER_SQ_WAKEUP": 2, "IORING_ENTER_SQ_WAIT": 4},
        **{"IORING_ENTER_EXT_ARG": 8, "IORING_ENTER_REGISTERED_RING": 0x10},
        **{"IORING_ENTER_ABS_TIMER": 0x20, "IORING_ENTER_EXT_ARG_REG": 0x40},
        "IORING_ENTER_NO_IOWAIT": 0x80,
    },
}
#: names of values by kind of argument
_VALUES = {
    "whence": _os_constants("SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"),
    "advice": _os_constants(
        *("POSIX_FADV_NORMAL", "POSIX_FADV_RANDOM", "POSIX_FADV_SEQUENTIAL"),
        *("POSIX_FADV_WILLNEED", "POSIX_FADV_DONTNEED", "POSIX_FADV_NOREUSE"),
    ),
}
_ACCESS_MODES = _os_constants("O_RDONLY", "O_WRONLY", "O_RDWR")
_NODES = {
    getattr(stat, name): name
    for name in ("S_IFREG", "S_IFDIR", "S_IFBLK", "S_IFCHR", "S_IFIFO", "S_IFSOCK", "S_IFLNK")
}
#: flags of open() with which its mode is used
_MAKES_A_FILE = os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY)


def format_flags(kind: str, value: int) -> str:
    """Return the names of the bits that are set, and the bits without a name in hexadecimal."""
    words = []
    if kind == "open":
        words = [name for name, mode in _ACCESS_MODES.items() if value & os.O_ACCMODE == mode]
        value &= ~os.O_ACCMODE if words else -1
    if kind == "access" and not value:
        words = ["F_OK"]
    for name, bits in FLAGS[kind].items():
        if bits and value & bits == bits:
            words.append(name)
            value &= ~bits
    if value:
        words.append(hex(value))
    return "|".join(words) or "0"


def _permissions(mode: int) -> str:
    return f"{stat.S_IMODE(mode):04o}"


def _node(mode: int) -> str:
    kind = _NODES.get(stat.S_IFMT(mode))
    return f"{kind}|{_permissions(mode)}" if kind else _permissions(mode)


def _folder(fd: int) -> str:
    return '"AT_FDCWD"' if fd == AT_FDCWD else str(fd)


def _value(kind: str, value: int) -> str:
    names = [name for name, known in _VALUES[kind].items() if known == value]
    return f'"{names[0]}"' if names else str(value)


def _quoted(word: Callable[[int], str]) -> Callable[[int], str]:
    return lambda value: json.dumps(word(value), ensure_ascii=False)


#: formatters to JSON by kind of argument; other kinds are numbers
_TEXTS: dict[str, Callable[[int], str]] = {
    **{kind: _quoted(functools.partial(format_flags, kind)) for kind in FLAGS},
    **{kind: functools.partial(_value, kind) for kind in _VALUES},
    "mode": _quoted(_permissions),
    "created": _quoted(_permissions),
    "node": _quoted(_node),
    "device": _quoted(lambda device: f"{os.major(device)}:{os.minor(device)}"),
    "folder": _folder,
}
#: number type of the register by kind of argument, default unsigned with 32 bits
_NUMBER_TYPES: dict[str, Any] = {
    **{"int": np.int32, "folder": np.int32, "long": np.int64},
    **{"size": np.uint64, "resolve": np.uint64},
}


def signatures() -> dict[str, list[tuple[int, str, str]]]:
    """Return register, name and kind of the formatted arguments of each call."""
    found = {}
    for line in _SIGNATURES.strip().splitlines():
        call, *arguments = line.split()
        fields = [argument.partition(":") for argument in arguments]
        found[call] = [
            (register, name, kind or "int")
            for register, (name, _, kind) in enumerate(fields)
            if name != "-"
        ]
    return found


def raw(rows: npt.NDArray[np.void]) -> pa.Array:
    """Return a list of six numbers for each row of calls."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = rows["arguments"]
    texts = [
        pa.array(np.ascontiguousarray(numbers[:, register])).cast(pa.string())
        for register in range(numbers.shape[1])
    ]
    return _null_if_missing(rows, _wrapped("[", pc.binary_join_element_wise(*texts, ", "), "]"))


def detailed(
    rows: npt.NDArray[np.void], call_names: Mapping[int, str], name: Callable[[int], str | None]
) -> pa.Array:
    """Return an object with named values for each row of calls."""
    import pyarrow as pa

    arguments = signatures()
    # Rows of one call are formatted together because they have the same arguments.
    order = np.argsort(rows["call"], kind="stable")
    by_call = rows[order]
    calls, starts = np.unique(by_call["call"], return_index=True)
    objects = [pa.nulls(0, pa.string())]
    for call, call_rows in zip(calls.tolist(), np.split(by_call, starts)[1:], strict=True):
        objects.append(_objects(call_rows, arguments.get(call_names[call], []), name, pa))
    position = np.empty(len(rows), np.int64)
    position[order] = np.arange(len(rows))
    return _null_if_missing(rows, pa.concat_arrays(objects).take(pa.array(position)))


def _objects(
    rows: npt.NDArray[np.void],
    arguments: list[tuple[int, str, str]],
    name: Callable[[int], str | None],
    pa: Any,
) -> Any:
    import pyarrow.compute as pc

    if not arguments:
        return pa.repeat(pa.scalar("{}"), len(rows))
    pieces = []
    for register, key, kind in arguments:
        numbers = np.ascontiguousarray(rows["arguments"][:, register])
        if kind == "word":
            text = words(rows["word"], functools.partial(_word, name), pa)
        elif kind in _TEXTS:
            text = words(_cast(numbers, kind), _TEXTS[kind], pa)
            if kind == "created":
                flags = rows["arguments"][:, register - 1]
                text = pc.if_else(
                    pa.array(flags & np.uint64(_MAKES_A_FILE) != 0), text, pa.scalar(None)
                )
        else:
            text = pa.array(_cast(numbers, kind)).cast(pa.string())
        pieces.append(_wrapped(f'"{key}": ', text, ""))
    joined = pc.binary_join_element_wise(*pieces, ", ", null_handling="skip")
    return _wrapped("{", joined, "}")


def _cast(registers: npt.NDArray[np.uint64], kind: str) -> npt.NDArray[Any]:
    """Convert registers to the number type of an argument."""
    number_type = _NUMBER_TYPES.get(kind, np.uint32)
    if np.dtype(number_type).itemsize == 8:
        return registers.view(number_type)
    return registers.astype(np.uint32).view(number_type)


def _word(name: Callable[[int], str | None], number: int) -> str | None:
    word = name(number)
    return None if word is None else json.dumps(word, ensure_ascii=False)


def words(numbers: npt.NDArray[Any], word: Callable[[int], str | None], pa: Any) -> Any:
    """Return a string for each number. `word` is called once for each distinct number."""
    every, index = np.unique(numbers, return_inverse=True)
    words = pa.array([word(int(number)) for number in every], pa.string())
    return words.take(pa.array(index.reshape(-1)))


def _wrapped(before: str, texts: pa.Array, after: str) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(before, texts, after, "")


def _null_if_missing(rows: npt.NDArray[np.void], texts: pa.Array) -> pa.Array:
    """Replace the text by null in rows without arguments."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(rows["has_arguments"] != 0), texts, pa.scalar(None, pa.string()))
