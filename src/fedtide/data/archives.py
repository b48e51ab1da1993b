"""Files out of a folder, a tar archive or a zip archive, by their names; nothing is unpacked to disk."""

import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from fedtide.data.base import File, wrong


def spellings(name: str) -> tuple[str, ...]:
    """The names under which a file may lie: gzipped or not, and IDX also with a dot, as some copies have it."""
    dotted = name.replace("-idx", ".idx")
    return tuple(dict.fromkeys((name, f"{name}.gz", dotted, f"{dotted}.gz")))


def read_folder(folder: Path, names: Sequence[str]) -> list[File]:
    """The contents of files in a folder."""
    return [File(str(folder / name), (folder / name).read_bytes()) for name in names]


def read_archive(path: Path, names: Sequence[str]) -> list[File]:
    """The contents of an archive's members, wherever in it they lie, in the order of the names."""
    spelt = {spelling: name for name in names for spelling in spellings(name)}
    found: dict[str, File] = {}
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for member in archive.infolist():
                    name = spelt.get(PurePosixPath(member.filename).name)
                    if name is not None and name not in found:
                        found[name] = File(f"{path}: {member.filename}", archive.read(member))
        else:
            with tarfile.open(path, "r|*") as archive:  # one pass, which ends when all were seen
                for member in archive:
                    name = spelt.get(PurePosixPath(member.name).name) if member.isfile() else None
                    content = None if name is None else archive.extractfile(member)
                    if name is not None and content is not None and name not in found:
                        found[name] = File(f"{path}: {member.name}", content.read())
                        if len(found) == len(names):
                            break
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        wrong(path, f"truncated or damaged, or not an archive ({' '.join(str(error).split()) or 'it ends too soon'})")
    missing = [name for name in names if name not in found]
    if missing:
        wrong(path, f"{', '.join(missing)} expected in this archive, not found")
    return [found[name] for name in names]
