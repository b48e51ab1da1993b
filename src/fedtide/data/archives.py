"""Reads files by name from a folder, a tar archive or a zip archive; nothing is unpacked to disk."""

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

# Unlike those of tarfile, these detect truncated streams.
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


def spellings(name: str) -> tuple[str, ...]:
    """The possible names of a file: gzipped or not, and for IDX also the variant with a dot."""
    dotted = name.replace("-idx", ".idx")
    return tuple(dict.fromkeys((name, f"{name}.gz", dotted, f"{dotted}.gz")))


def read_folder(folder: Path, names: Sequence[str], most: int) -> list[File]:
    """The contents of files in a folder, each of at most `most` bytes."""
    for name in names:
        check_size(folder / name, (folder / name).stat().st_size, most)
    return [File(str(folder / name), (folder / name).read_bytes()) for name in names]


def read_archive(path: Path, names: Sequence[str], most: int) -> list[File]:
    """The contents of an archive's members, in any of its folders, in the order of the names.

    A member of more than `most` bytes, by the size in its header, is not read.
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
            # One pass, which ends when all members were found.
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
                    while stream.read(2**20):  # a member is missing: is the archive truncated?
                        pass
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        # RuntimeError: an encrypted member, or an unknown compression.
        wrong(path, f"truncated or damaged, or not an archive ({' '.join(str(error).split()) or 'unexpected end'})")
    missing = [name for name in names if name not in found]
    if missing:
        wrong(path, f"{', '.join(missing)} expected in this archive, not found")
    return [found[name] for name in names]


def _unzipped(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        begin = file.read(5)
    return next((opener for magic, opener in _OPENERS.items() if begin.startswith(magic)), open)(path, "rb")
