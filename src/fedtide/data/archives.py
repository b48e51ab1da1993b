"""Files out of a folder, a tar archive or a zip archive, by their names; nothing is unpacked to disk."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

from fedtide.data.base import File, check_size, wrong

# Unlike tarfile's own, these say when a stream ends too soon.
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


def spellings(name: str) -> tuple[str, ...]:
    """The names under which a file may lie: gzipped or not, and IDX also with a dot, as some copies have it."""
    dotted = name.replace("-idx", ".idx")
    return tuple(dict.fromkeys((name, f"{name}.gz", dotted, f"{dotted}.gz")))


def read_folder(folder: Path, names: Sequence[str], most: int) -> list[File]:
    """The contents of files in a folder, each of at most so many bytes."""
    for name in names:
        check_size(folder / name, (folder / name).stat().st_size, most)
    return [File(str(folder / name), (folder / name).read_bytes()) for name in names]


def read_archive(path: Path, names: Sequence[str], most: int) -> list[File]:
    """The contents of an archive's members, wherever in it they lie, in the order of the names.

    A member of more than `most` bytes is not read: what is said of its size is all that is unpacked.
    """
    spelt = {spelling: name for name in names for spelling in spellings(name)}
    found: dict[str, File] = {}
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for member in archive.infolist():
                    name = spelt.get(PurePosixPath(member.filename).name)
                    if name is not None and name not in found:
                        check_size(f"{path}: {member.filename}", member.file_size, most)
                        found[name] = File(f"{path}: {member.filename}", archive.read(member))
        else:
            # One pass, which ends when all were seen.
            with _unzipped(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    name = spelt.get(PurePosixPath(member.name).name) if member.isfile() else None
                    content = None if name is None else archive.extractfile(member)
                    if name is not None and content is not None and name not in found:
                        check_size(f"{path}: {member.name}", member.size, most)
                        found[name] = File(f"{path}: {member.name}", content.read())
                        if len(found) == len(names):
                            break
                else:
                    while stream.read(2**20):  # something is missing: is it cut off?
                        pass
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        # A RuntimeError is an encrypted member, or one packed in a way that Python does not know.
        wrong(path, f"truncated or damaged, or not an archive ({' '.join(str(error).split()) or 'it ends too soon'})")
    missing = [name for name in names if name not in found]
    if missing:
        wrong(path, f"{', '.join(missing)} expected in this archive, not found")
    return [found[name] for name in names]


def _unzipped(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        begin = file.read(5)
    return next((opener for magic, opener in _OPENERS.items() if begin.startswith(magic)), open)(path, "rb")
