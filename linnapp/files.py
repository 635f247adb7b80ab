# SPDX-License-Identifier: MIT
"""Write files atomically: under a temporary name in the same folder, then renamed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO

from linnapp.errors import LinnappError
from linnapp.signals import signals_held

#: Type of the file and folder names that the package's functions accept.
AnyPath = str | os.PathLike[str]


def explain_os_error(error: OSError, path: AnyPath) -> LinnappError:
    """Turn an ``OSError`` on `path` into an error that names the file and the reason."""
    reason = error.strerror or str(error)
    return LinnappError(f"{error.filename or path}: {reason}")


def shipped_folder(name: str, in_checkout: str) -> Path:
    """Return a folder of the project's data, inside an installed package or in a checkout."""
    package = Path(__file__).resolve().parent
    return package / name if (package / name).is_dir() else package.parent / in_checkout


@contextlib.contextmanager
def os_errors(
    path: AnyPath, explained: Callable[[OSError, AnyPath], LinnappError] = explain_os_error
) -> Iterator[None]:
    """Convert the system's errors in the block into errors about `path`."""
    try:
        yield
    except OSError as error:
        raise explained(error, path) from error


@contextlib.contextmanager
def locked_folder(folder: AnyPath, taken: str) -> Iterator[None]:
    """Lock a folder until the block ends, and create it if needed.

    If another process has locked it, LinnappError is raised with the message `taken`.
    """
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
    """Open a temporary file next to `path`; rename it to `path` if the block succeeds.

    The directory must exist. If it is not writable, the disk is full, or `path` exists and is not a
    regular file (a rename would replace a device by a file), `path` is unchanged.
    """
    path = _replaceable(Path(path), directory=False)
    temporary = _temporary_name(path)
    try:
        try:
            stream = temporary.open("xb")
        except OSError as error:
            # The user does not know the name of the temporary file.
            raise LinnappError(
                f"{path.parent}: {error.strerror}; {path.name} cannot be created there"
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


def replace_text(path: AnyPath, text: str) -> None:
    """Write a text file in UTF-8 atomically; see :func:`replaced_file`."""
    with replaced_file(path) as stream:
        stream.write(text.encode())


def _temporary_name(path: Path) -> Path:
    """Return a temporary name for the replacement of `path`.

    Unlike with tempfile, the name is known before the file exists, so the file can be removed after
    an interruption at any point.
    """
    return path.parent / f".{path.name}.{os.urandom(4).hex()}"


def _explained(error: OSError, temporary: Path, path: Path) -> LinnappError:
    """Convert an error like :func:`explain_os_error`, with the final name of the output."""
    if error.filename is not None:
        error.filename = str(error.filename).replace(str(temporary), str(path))
    return explain_os_error(error, path)


def _remove(temporary: Path) -> None:
    """Remove a file; ignore errors, because the file may not exist."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def _replaceable(path: Path, *, directory: bool) -> Path:
    """Resolve links in `path`; raise an error if it exists and is not of the right kind."""
    try:
        real = path.resolve()
        # `path` is checked, not `real`: the name of the pipe behind /dev/stdout does not exist.
        if path.exists() and not (path.is_dir() if directory else path.is_file()):
            wanted = "a directory" if directory else "a regular file"
            kinds = {"a directory": path.is_dir(), "a file": path.is_file()}
            found = next((kind for kind, is_it in kinds.items() if is_it), "a pipe or a device")
            raise LinnappError(f"{path}: {found}; the output is {wanted}: name another one")
    except (OSError, RuntimeError) as error:  # a loop of links, or a name that is too long
        raise LinnappError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return real


def check_replaced_directory(path: AnyPath, suffixes: tuple[str, ...]) -> Path:
    """Check that :func:`replaced_directory` will work, before hours of computation.

    Return `path` with links resolved.
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
    """Check that files and folders can be created in the place of `path`."""
    path = Path(path)
    parent = next(parent for parent in path.parents if os.path.lexists(parent))
    if not parent.is_dir():
        raise LinnappError(f"{parent}: not a directory; {path.name} cannot be created there")
    # Permissions are not sufficient: some file systems refuse new folders even for root.
    probe = _temporary_name(parent / path.name)
    try:
        probe.mkdir(0o700)
    except OSError as error:
        raise LinnappError(
            f"{parent}: {error.strerror}; {path.name} cannot be created there"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            probe.rmdir()


@contextlib.contextmanager
def replaced_directory(
    path: AnyPath, suffixes: tuple[str, ...], replaced: Collection[str] = ()
) -> Iterator[Path]:
    """Yield a temporary directory next to `path`; it replaces `path` on success.

    A previous `path` is moved aside first and removed last, so a complete directory exists
    under one of the two names at any time. It may only contain files with these suffixes and
    folders of such files, which another run wrote; otherwise it belongs to the user and is refused.
    All of these files are kept, except files in `path` itself that the block writes again or that
    `replaced` names.
    """
    path = check_replaced_directory(path, suffixes)
    parent = path.parent
    with os_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(path)
    try:
        try:
            temporary.mkdir(0o700)
        except OSError as error:
            raise LinnappError(
                f"{parent}: {error.strerror}; {path.name} cannot be created there"
            ) from error
        yield temporary
        if path.exists():
            _keep_others(path, temporary, {*replaced, *(each.name for each in temporary.iterdir())})
        temporary.chmod(0o755)
        with signals_held():  # between the two renames, `path` does not exist
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
    """Return true if `entry` is a file with one of the suffixes or a folder of only such files."""
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
    """Create another name for a file; a hard link also keeps its owner."""
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
