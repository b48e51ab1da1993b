"""Shared by all readers: data sets, contents of files, and errors about invalid files."""

import gzip
import io
import math
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from fedtide.errors import FedtideError


class DataSet(NamedTuple):
    """Samples and their classes 0 … `classes` − 1, in a training and a test part. The arrays are read-only."""

    name: str
    x: np.ndarray  # uint8 [n, …], images as [n, height, width] or [n, height, width, channels]
    y: np.ndarray  # int32 [n]
    test_x: np.ndarray
    test_y: np.ndarray
    classes: int


class Arrays(NamedTuple):
    """The arrays that a reader returns."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


class File(NamedTuple):
    """The content of a file and its location for messages: a path, or an archive and a member."""

    where: str
    content: bytes


class Contents(NamedTuple):
    """The expected contents of the files of a data set. Several sizes if several versions were published."""

    train: tuple[int, ...]  # numbers of samples
    test: tuple[int, ...]
    shape: tuple[int, ...]  # of one image
    classes: int

    @property
    def most_bytes(self) -> int:
        """The largest size of a file in any format: pickles take up to twice the pixels, plus names."""
        return max(*self.train, *self.test) * (2 * math.prod(self.shape) + 1024) + 2**20


Reader = Callable[[Sequence[File], Contents], Arrays]


_CHUNK = 2**20  # bounds the memory of one read, because headers may request any size


def wrong(where: object, words: str) -> NoReturn:
    """Raises a one-line error about an invalid file."""
    raise FedtideError(f"{where}: {words}")


def plain(file: File, most: int) -> bytes:
    """The content, decompressed if it starts like gzip (whatever its name), up to `most` + 1 bytes."""
    if file.content[:2] != b"\x1f\x8b":
        return file.content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(file.content)) as stream:
            out = bytearray()
            while part := stream.read(min(most + 1 - len(out), _CHUNK)):
                out += part
            return bytes(out)
    except EOFError:
        wrong(file.where, f"truncated: its gzip stream does not end within its {len(file.content):,} bytes")
    except (OSError, zlib.error) as error:
        wrong(file.where, f"damaged gzip stream ({error})")


def check_bytes(file: File, found: int, expected: int, what: str) -> None:
    """`what` explains the expected number of bytes."""
    if found != expected:
        kind = "truncated" if found < expected else "too long"
        more = " or more" if found == expected + 1 else ""  # at most one byte too many is decompressed
        wrong(file.where, f"{kind}: {expected:,} bytes expected ({what}), {found:,}{more} found")


def check_size(where: object, found: int, most: int) -> None:
    """Checked before a file is read, because it may be far too large."""
    if found > most:
        wrong(where, f"too long: at most {most:,} bytes expected, {found:,} found")


def check_count(file: File, what: str, found: int, allowed: Sequence[int], other: Sequence[int]) -> None:
    """`other` are the sizes of the other part, which reveal swapped parts."""
    if found not in allowed:
        hint = "; are train and test swapped?" if found in other else ""
        wrong(file.where, f"{' or '.join(f'{n:,}' for n in allowed)} {what} expected, {found:,} found{hint}")


def classes_from(file: File, labels: np.ndarray, classes: int, first: int = 0) -> np.ndarray:
    """Labels `first` … `first` + `classes` − 1 as classes 0, 1, …; anything else is an error."""
    outside = np.flatnonzero((labels < first) | (labels >= first + classes))
    if len(outside):
        at = int(outside[0])
        wrong(file.where, f"labels {first} … {first + classes - 1} expected, {int(labels[at])} found at sample {at:,}")
    return labels.astype(np.int32) - np.int32(first)
