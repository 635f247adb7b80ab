# SPDX-License-Identifier: MIT
"""Output that appears whole or not at all: written beside its place, then renamed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO

from linnapp.errors import LinnappError
from linnapp.signals import signals_held

#: what every function of the package takes for the name of a file or folder
AnyPath = str | os.PathLike[str]


def explain_os_error(error: OSError, path: AnyPath) -> LinnappError:
    """Turn an ``OSError`` on `path` into an error that names the file and the reason."""
    reason = error.strerror or str(error)
    return LinnappError(f"{error.filename or path}: {reason}")


@contextlib.contextmanager
def os_errors(
    path: AnyPath, explained: Callable[[OSError, AnyPath], LinnappError] = explain_os_error
) -> Iterator[None]:
    """Explain what the system refuses of `path` in the block."""
    try:
        yield
    except OSError as error:
        raise explained(error, path) from error


@contextlib.contextmanager
def locked_folder(folder: AnyPath, taken: str) -> Iterator[None]:
    """Have a folder alone, which is made where there is none; `taken` says that another has it."""
    with contextlib.ExitStack() as stack:
        with os_errors(folder):
            Path(folder).mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(Path(folder, ".lock").open("a"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LinnappError(f"{folder}: {taken}") from None
        yield


@contextlib.contextmanager
def replaced_file(path: AnyPath) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path`; rename it onto `path` when the block succeeds.

    Its directory must exist. If that cannot be written, the disk is full, or `path` is there and no
    regular file (a rename would put a file in a device's place), `path` is untouched.
    """
    path = _replaceable(Path(path), directory=False)
    temporary = _beside(path)
    try:
        try:
            stream = temporary.open("xb")
        except OSError as error:
            # Not the temporary file's name, which means nothing to the user.
            raise LinnappError(
                f"{path.parent}: {error.strerror}; {path.name} goes there"
            ) from error
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        _remove(temporary)
        raise _explained(error, temporary, path) from error
    except BaseException:
        _remove(temporary)
        raise


#: names of standard output, which a rename must not replace
_STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_standard_output(path: AnyPath) -> bool:
    """Whether a name means standard output."""
    return os.fspath(path) in _STANDARD_OUTPUT


@contextlib.contextmanager
def output_file(path: AnyPath) -> Iterator[IO[bytes]]:
    """Open a file as :func:`replaced_file` does, or standard output by one of its names."""
    if not is_standard_output(path):
        with replaced_file(path) as stream:
            yield stream
        return
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def replace_text(path: AnyPath, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all; see :func:`replaced_file`."""
    with replaced_file(path) as stream:
        stream.write(text.encode())


def _beside(path: Path) -> Path:
    """A name for what will take the place of `path`.

    Known before there is such a file, not after as with tempfile: whenever an interruption comes,
    it can be removed.
    """
    return path.parent / f".{path.name}.{os.urandom(4).hex()}"


def _explained(error: OSError, temporary: Path, path: Path) -> LinnappError:
    """As :func:`explain_os_error`, with the name that the output is to have."""
    if error.filename is not None:
        error.filename = str(error.filename).replace(str(temporary), str(path))
    return explain_os_error(error, path)


def _remove(temporary: Path) -> None:
    """Remove what there is of a file; where none can be there is none."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def _replaceable(path: Path, *, directory: bool) -> Path:
    """What `path` really names, a link followed, when it is absent or of the right kind."""
    try:
        real = path.resolve()
        if real.exists() and not (real.is_dir() if directory else real.is_file()):
            wanted = "a directory" if directory else "a regular file"
            found = "a directory" if real.is_dir() else "a file, or a device"
            raise LinnappError(f"{path}: {found}; the output is {wanted}")
    except (OSError, RuntimeError) as error:  # a loop of links, or a name too long
        raise LinnappError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return real


def check_replaced_directory(path: AnyPath, suffixes: tuple[str, ...]) -> Path:
    """Find out whether :func:`replaced_directory` would work, before hours of work for it.

    Returned is what `path` really names, a link followed.
    """
    path = _replaceable(Path(path), directory=True)
    with os_errors(path):
        others = sorted(
            entry.name
            for entry in (path.iterdir() if path.exists() else ())
            if not _is_made_of(entry, suffixes)
        )
    if others:
        raise LinnappError(
            f"{path}: holds {others[0]}, which is none of {', '.join(suffixes)}; it would be "
            "replaced as a whole: name another directory, or a new one"
        )
    check_can_make(path)
    return path


def check_can_make(path: AnyPath) -> None:
    """Find out whether files and folders can be made where `path` is to be."""
    path = Path(path)
    there = next(parent for parent in path.parents if os.path.lexists(parent))
    if not there.is_dir():
        raise LinnappError(f"{there}: not a directory; {path.name} is to go there")
    # Rights are not all: some file systems take no folder of root's either.
    made = _beside(there / path.name)
    try:
        made.mkdir(0o700)
    except OSError as error:
        raise LinnappError(f"{there}: {error.strerror}; {path.name} is to go there") from error
    finally:
        with contextlib.suppress(OSError):
            made.rmdir()


@contextlib.contextmanager
def replaced_directory(
    path: AnyPath, suffixes: tuple[str, ...], replaced: Collection[str] = ()
) -> Iterator[Path]:
    """Yield a temporary directory beside `path`; it takes the place of `path` on success.

    A previous `path` is moved aside first and removed last, so that a complete directory exists
    under one of the two names at every moment. It may hold files with these suffixes only, and
    folders of such files, as made by another run; else it is somebody's own. All of them are kept
    but files in `path` itself that the block writes again or that `replaced` names.
    """
    path = check_replaced_directory(path, suffixes)
    parent = path.parent
    with os_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        try:
            temporary.mkdir(0o700)
        except OSError as error:
            raise LinnappError(f"{parent}: {error.strerror}; {path.name} goes there") from error
        yield temporary
        if path.exists():
            _keep_others(path, temporary, {*replaced, *(each.name for each in temporary.iterdir())})
        temporary.chmod(0o755)
        with signals_held():  # between the two renames nothing has the name
            _put_in_place(temporary, path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _explained(error, temporary, path) from error
    except LinnappError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if str(temporary) not in str(error):
            raise
        raise type(error)(str(error).replace(str(temporary), str(path))) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _is_made_of(entry: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether a file has one of the suffixes, or a folder holds nothing else."""
    if entry.is_dir() and not entry.is_symlink():
        return all(_is_made_of(each, suffixes) for each in entry.iterdir())
    return entry.suffix in suffixes and entry.is_file()


def _keep_others(old: Path, new: Path, replaced: Collection[str]) -> None:
    for entry in old.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(
                entry, new / entry.name, symlinks=True, copy_function=_link, dirs_exist_ok=True
            )
        elif entry.name not in replaced:
            _link(entry, new / entry.name)


def _link(old: AnyPath, new: AnyPath) -> None:
    """Have the same file under another name: a hard link also keeps its owner."""
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:
        shutil.copy2(old, new, follow_symlinks=False)


def _put_in_place(temporary: Path, path: Path) -> None:
    old = path.with_name(f".{path.name}.old.{os.getpid()}")
    moved = path.exists()
    if moved:
        path.rename(old)
    try:
        temporary.rename(path)
    except OSError:
        if moved:
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
