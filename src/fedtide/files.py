"""Atomic writes, and folders locked by one process at a time."""

import errno
import logging
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from fedtide.errors import FedtideError

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

log = logging.getLogger("fedtide")

_PARTIAL = ".partial"
_LOCK = "fedtide.lock"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNWRITABLE = _FULL | {errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


def remove_partial(folder: Path, names: Iterable[str] = ("*",)) -> None:
    """Removes partial files with these names that a killed process left below a folder."""
    for name in names:
        for leftover in list(folder.rglob(f".{name}.*{_PARTIAL}")):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def vacant(folder: Path, *besides: str) -> bool:
    """Whether a folder is new or empty, apart from what a run that never started left there, and from files whose names
    match `besides`."""
    if not folder.is_dir():
        return not folder.exists()
    ours = (_LOCK, f".*{_PARTIAL}", *besides)
    return all(any(path.match(pattern) for pattern in ours) for path in folder.iterdir())


@contextmanager
def atomic(path: Path | str) -> Iterator[Path]:
    """Yields a temporary path near `path`, which is renamed to `path` on success and removed on failure.

    A file that cannot be written raises an OSError with its name, whichever library wrote it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a separate folder, because safetensors writes a temporary file beside its target.
    near = {"dir": path.parent, "prefix": f".{path.name}.", "suffix": _PARTIAL}
    try:
        with tempfile.TemporaryDirectory(**near, ignore_cleanup_errors=True) as own:
            temporary = Path(own, path.name)
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
    except Exception as error:
        number, named = _number(error), getattr(error, "filename", None)
        other = named is not None and _PARTIAL not in str(named)  # the error of another file
        # Without a name, the error is not necessarily of this file.
        unnamed = getattr(error, "errno", None) is not None and named is None and number not in _FULL
        if number not in _UNWRITABLE or other or unnamed:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def _number(error: Exception) -> int | None:
    """The errno of an error; libraries in Rust (polars, safetensors) give it only in the message."""
    if getattr(error, "errno", None) is not None:
        return error.errno  # pyright: ignore[reportAttributeAccessIssue]
    match = re.search(r"\(os error (\d+)\)", str(error))
    return int(match[1]) if match else None


@contextmanager
def alone(folder: Path, busy: str) -> Iterator[None]:
    """Locks a folder until the block or the process ends; raises `FedtideError` if another process holds the lock.

    The lock is a `flock`: the system releases it when the process and its forks die, for whatever reason; it also
    excludes other threads of this process; and, unlike a POSIX record lock, it is not released by closing another
    descriptor of the file. Over NFS, Linux turns it into a byte-range lock on the server, so other machines are
    excluded as well. Where there are no locks (Windows, some cluster file systems), there is no protection.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    path = folder / _LOCK
    with _locked(path, busy) as file:
        try:
            with suppress(OSError):  # a full disk must not prevent the lock; only its holder stays unknown
                file.truncate(0)
                file.write(f"PID {os.getpid()} on {socket.gethostname()} since {time.strftime('%F %T')}".encode())
                os.fsync(file.fileno())
            yield
        finally:
            with suppress(OSError):
                path.unlink()  # while it is locked: a waiting process notices below that it was removed


@contextmanager
def free(path: Path) -> Iterator[bool]:
    """Whether no other process holds the lock of this name, as in `alone`; if so, it is held until the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = nullcontext() if fcntl is None else _locked(path, "")
    except FedtideError:
        lock = None
    if lock is None:
        yield False
        return
    with lock:
        try:
            yield True
        finally:
            with suppress(OSError):
                path.unlink()


def _locked(path: Path, busy: str) -> BinaryIO:
    assert fcntl is not None
    while True:
        try:
            file = path.open("ab+", buffering=0)
        except PermissionError:  # created by another account; a lock needs only read access
            file = path.open("rb", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        except (BlockingIOError, PermissionError):  # the latter on SMB
            time.sleep(0.1)  # its holder may be writing its name
            file.seek(0)
            holder = file.read().decode(errors="replace")
            file.close()
            raise FedtideError(f"{path.parent}: {busy}" + (f" ({holder})" if holder else "")) from None
        except OSError as error:
            if error.errno in _NO_LOCKS:
                log.warning(
                    "%s: this file system does not support locks; do not start a second process in this folder",
                    path.parent,
                )
                return file
            if error.errno not in (errno.ENOENT, errno.ESTALE):
                file.close()
                raise
        file.close()  # removed by its last holder since it was opened


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Writes a UTF-8 text file atomically: readers find either the old file or the complete new one."""
    path = Path(path)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
