"""Tiny files in the published formats, and folders that no other data are in."""

import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedtide.data import CATALOGUE


def as_idx(array: np.ndarray) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def short_text(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text


def as_python2_batch(batch: dict[str, bytes | list[int] | np.ndarray]) -> bytes:
    """A pickle as Python 2 and its NumPy wrote the published batches."""
    out = b"\x80\x02}("
    for key, value in batch.items():
        out += short_text(key.encode())
        if isinstance(value, bytes):
            out += short_text(value)
        elif isinstance(value, list):
            out += b"](" + b"".join(b"K" + bytes([n]) for n in value) + b"e"
        else:
            shape = b"".join(b"M" + struct.pack("<H", n) for n in value.shape) + b"\x86"
            kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
            raw = b"T" + struct.pack("<I", value.size) + value.tobytes()
            out += b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
            out += b"(K\x01" + shape + kind + b"\x89" + raw + b"tb"
    return out + b"u."


def as_tar(files: dict[str, bytes], folder: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def as_zip(files: dict[str, bytes], folder: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{folder}/{name}", content)
    return buffer.getvalue()


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


class Formats:
    """The builders, for tests that cannot import this file."""

    as_idx, as_python2_batch, as_tar, as_zip, write = map(
        staticmethod, (as_idx, as_python2_batch, as_tar, as_zip, write)
    )


@pytest.fixture(scope="session")
def formats() -> type[Formats]:
    return Formats


@pytest.fixture(autouse=True)
def alone(tmp_path_factory, monkeypatch) -> Path:
    """No data but the test's: an empty user cache, no environment variable."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.delenv("FEDTIDE_DATA", raising=False)
    for variable in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(home))
    return home


@pytest.fixture
def tiny(monkeypatch):
    """Catalogue entries that expect few samples: 20 to train and 10 to test unless said otherwise."""

    def shrink(name: str, train: int = 20, test: int = 10, **changes):
        entry = CATALOGUE[name]
        expected = entry.expected._replace(train=(train,), test=(test,))
        entry = entry._replace(expected=expected, **changes)
        monkeypatch.setitem(CATALOGUE, name, entry)
        return entry

    return shrink


@pytest.fixture
def idx_files():
    """A small data set of 28 × 28 images as IDX files, and its arrays."""
    rng = np.random.default_rng([5])
    arrays = [
        rng.integers(0, 256, (20, 28, 28), np.uint8),
        rng.integers(0, 10, 20, np.uint8),
        rng.integers(0, 256, (10, 28, 28), np.uint8),
        rng.integers(0, 10, 10, np.uint8),
    ]
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return dict(zip(names, map(as_idx, arrays), strict=True)), arrays
