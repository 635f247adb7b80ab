# SPDX-License-Identifier: MIT
"""Load compiled code with cffi: the core, ``liblinnapp_native.so``, and the public C libraries.

The C headers are the only declarations. They are read when a library is loaded.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from linnapp.errors import LinnappError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: From the kernel's code: number of past reads among the inputs, and of inputs of a latency model.
HISTORY, N_FEATURES = 4, 23
#: Minimum number of inputs of a latency model. Models that are older than the last input have this.
N_FEATURES_MIN = 22

_HERE = Path(__file__).resolve().parent
_REPOSITORY = _HERE.parents[1]
#: Folders of the public headers in a checkout. In a package all headers are next to this file.
_HEADER_FOLDERS = [
    _REPOSITORY / folder for folder in ("liblinnos/include", "cluster/client", "cluster/ceph")
]
_CORE_HEADERS = (
    *("packed.h", "text_trace.h", "blktrace_parser.h", "drive_log.h", "function_graph.h"),
    "boost.h",
)

#: Types of system headers that the libraries' headers use.
_SYSTEM_TYPES = """
typedef uint8_t __u8; typedef uint16_t __u16; typedef uint32_t __u32; typedef uint64_t __u64;
typedef int8_t __s8; typedef int32_t __s32; typedef int64_t __s64;
typedef int64_t off_t;
typedef void *rados_ioctx_t;
struct iovec { void *iov_base; size_t iov_len; };
"""
_LOADER = """
void *dlopen(const char *path, int flags);
void *dlvsym(void *library, const char *name, const char *version);
"""


class Library(NamedTuple):
    """A loaded library."""

    #: Its types: a `cffi.FFI`.
    ffi: Any
    #: Its functions and constants.
    lib: Any

    def text(self, pointer: Any) -> str | None:
        """Return a C string, or None for NULL. Bytes that are not UTF-8 are escaped."""
        return self.ffi.string(pointer).decode(errors="backslashreplace") if pointer else None

    def new(self, struct: str, **members: object) -> Any:
        """Return a pointer to a new structure; its own `size`, if it has one, is set.

        Raises
        ------
        ValueError
            If a value does not fit its member.
        """
        created = self.ffi.new(f"struct {struct} *")
        for name, value in members.items():
            try:
                setattr(created, name, value)
            except OverflowError as error:
                raise ValueError(f"{name} is {value}: {error}") from None
        members_by_name = dict(self.ffi.typeof(created).item.fields)
        if "size" in members_by_name and members_by_name["size"].type.cname == "size_t":
            created.size = self.ffi.sizeof(created[0])
        return created

    def strings(self, texts: Iterable[bytes | None]) -> Any:
        """Return an array of C strings. The result keeps them alive."""
        kept = [self.ffi.NULL if text is None else self.ffi.new("char[]", text) for text in texts]
        array = self.ffi.new("const char *[]", kept)
        _strings[array] = kept
        return array

    def counters(self, struct: Any) -> dict[str, int]:
        """Return the integer members of a structure by name."""
        members = self.ffi.typeof(struct).fields
        return {name: getattr(struct, name) for name, member in members
                if member.type.kind == "primitive" and name != "reserved"}  # fmt: skip

    def columns(self, struct: str, arrays: Mapping[str, npt.NDArray[Any]], **members: int) -> Any:
        """Return a new structure with pointers to the data of arrays, which the caller keeps."""
        created = self.new(struct, **members)
        for name, array in arrays.items():
            setattr(created, name, self.address(array, self.ffi.typeof(getattr(created, name))))
        return created

    def address(self, array: npt.NDArray[Any] | None, kind: Any = "void *") -> Any:
        """Return the address of an array's data, which the caller keeps alive, or NULL."""
        return self.ffi.NULL if array is None else self.ffi.cast(kind, array.ctypes.data)

    @contextlib.contextmanager
    def filled(self, buffers: Iterable[Any]) -> Iterator[list[Any]]:
        """Yield the memory of writable, C-contiguous buffers, without empty ones.

        Raises
        ------
        TypeError
            If a buffer is read-only or not contiguous.
        """
        with contextlib.ExitStack() as held:
            try:
                views = [
                    held.enter_context(self.ffi.from_buffer(buffer, require_writable=True))
                    for buffer in buffers
                    if memoryview(buffer).nbytes
                ]
            except (BufferError, TypeError, ValueError) as error:
                raise TypeError(f"cannot read into the buffer: {error}") from None
            yield views


#: The strings of each array of `Library.strings`, for as long as it exists.
_strings: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def _read_header(name: str) -> str:
    for folder in (_HERE, *_HEADER_FOLDERS):
        if (folder / name).exists():
            return (folder / name).read_text()
    raise LinnappError(f"{_HERE / name}: this header of linnapp is missing; install linnapp again")


def declare(*headers: str, more: str = "") -> Any:
    """Return a `cffi.FFI` with the declarations of C headers, and `more` declarations.

    A macro whose value is a number becomes an enumerator. Other preprocessor lines and the parts
    for C++ are left out.
    """
    from cffi import FFI

    text = "\n".join(map(_read_header, headers))
    text = re.sub(r"/\*.*?\*/|#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    text = text.replace("\\\n", " ")
    constant = r"^#define (\w+)[ \t]+(\(?-?\d+(?:u? << \d+)?\)?)[ \t]*$"
    text = re.sub(constant, r"enum { \1 = \2 };", text, flags=re.MULTILINE)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    ffi = FFI()
    ffi.cdef(_SYSTEM_TYPES + text + more)
    return ffi


def row_type(ffi: Any, struct: str) -> np.dtype[Any]:
    """Return the numpy type of a structure of integers and arrays of them."""
    import numpy as np

    kind = ffi.typeof(f"struct {struct}")
    fields: dict[str, tuple[Any, int]] = {}
    for name, member in kind.fields:
        is_array = member.type.kind == "array"
        item = (member.type.item if is_array else member.type).cname.removesuffix("_t")
        fields[name] = ((item, (member.type.length,)) if is_array else item, member.offset)
    return np.dtype({
        "names": list(fields),
        "formats": [item for item, _ in fields.values()],
        "offsets": [offset for _, offset in fields.values()],
        "itemsize": ffi.sizeof(kind),
    })  # fmt: skip


def library_path(name: str, variable: str) -> Path:
    """Find a compiled library: environment `variable`, next to this file, or ``build/lib``."""
    override = os.environ.get(variable)
    if override:
        return Path(override)
    installed = _HERE / name
    return installed if installed.exists() else _REPOSITORY / "build" / "lib" / name


def load_library(name: str, variable: str, ffi: Any) -> Library:
    """Load a compiled library of this package."""
    path = library_path(name, variable)
    try:
        return Library(ffi, ffi.dlopen(str(path)))
    except OSError as error:
        reason = str(error) if path.exists() else "not built"
        raise LinnappError(
            f"{path}: {reason}; run `make native` in the repository, or set {variable}"
        ) from error


def load_public(
    soname: str, variable: str, goals: tuple[str, str], version: str, *headers: str
) -> Library:
    """Load a library that C programs use as well; any version of it may be installed.

    `goals` are targets of make: the one that builds the library in a checkout, in the folder of
    that name, and the one that installs it. A library with another `version` of its symbols has
    other structures. The last header declares the library's own functions.
    """
    from cffi import FFI

    built = _REPOSITORY / "build" / goals[0] / soname
    path = os.environ.get(variable) or (str(built) if built.exists() else soname)
    remedy = (
        f"run `make {goals[0]}` in the repository, `make {goals[1]}` for the whole system, install "
        f"the package {soname.replace('.so.', '')}, or set {variable}"
    )
    ffi, loader = declare(*headers), FFI()
    loader.cdef(_LOADER)
    system = loader.dlopen(None)
    try:
        library = Library(ffi, ffi.dlopen(path))
    except OSError as error:
        raise LinnappError(f"{path}: {error}; {remedy}") from error
    handle = system.dlopen(path.encode(), os.RTLD_NOW)
    for name in re.findall(r"^\w[\w ]*?\*?(linnos_\w+)\(", _read_header(headers[-1]), re.MULTILINE):
        if not system.dlvsym(handle, name.encode(), version.encode()):
            raise LinnappError(f"{path}: has no {name} of {version}; {remedy}")
    return library


def check_status(library: Library, status: int, error_text: Any) -> None:
    """Raise the library's message for the last failed call of this thread, if the call failed."""
    if status < 0:
        raise OSError(-status, os.fsdecode(library.ffi.string(error_text())))


def check_fits(n_bits: int, **values: int) -> None:
    """Raise a ValueError for a number that does not fit an unsigned integer of `n_bits` bits."""
    for name, value in values.items():
        if not 0 <= value < 1 << n_bits:
            raise ValueError(f"{name} is {value}; it must be between 0 and {(1 << n_bits) - 1}")


class Counters(SimpleNamespace):
    """Counters of a C structure: each of its members is an attribute."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Closable(abc.ABC):
    """Holds an object of a library as its `_handle`, and frees it with `close`."""

    _handle: Any

    @abc.abstractmethod
    def close(self) -> None:
        """Free the object; may be repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


def loaded_once(load: Callable[[], Library]) -> Callable[[], Library]:
    """Return a function that loads a library at the first call, whatever thread calls.

    Two threads that load at the same time would otherwise get different declarations, and the
    structures of one do not fit the functions of the other.
    """
    lock = threading.Lock()
    cached = functools.cache(load)

    @functools.wraps(load)
    def library() -> Library:
        with lock:
            return cached()

    vars(library)["cache_clear"] = cached.cache_clear
    return library


@loaded_once
def native() -> Library:
    """Return the compiled core, which is loaded once."""
    return load_library("liblinnapp_native.so", "LINNAPP_NATIVE_LIB", declare(*_CORE_HEADERS))
