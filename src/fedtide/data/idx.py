"""IDX: the format of MNIST, Fashion-MNIST and EMNIST, gzipped or not.

Bytes 0, 0, the type (8: uint8), the number d of dimensions; d sizes as big-endian 32-bit integers; the values.
"""

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedtide.data.base import Arrays, Contents, File, check_bytes, check_count, classes_from, plain, wrong

_UINT8 = 8
_KINDS = {1: "labels", 3: "images"}


def read_array(file: File, dimensions: int) -> np.ndarray:
    """The uint8 array of an IDX file with this number of dimensions."""
    header, shape = _header(file, dimensions)
    size = header + math.prod(shape)
    content = plain(file, size)
    check_bytes(file, len(content), size, f"{header} + {' × '.join(f'{n:,}' for n in shape)}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _header(file: File, dimensions: int) -> tuple[int, tuple[int, ...]]:
    """The length of the header and its shape; only the header is decompressed."""
    kind = _KINDS.get(dimensions, f"{dimensions}-dimensional data")
    header = 4 + 4 * dimensions
    magic = bytes([0, 0, _UINT8, dimensions])
    content = plain(file, header)
    if len(content) >= 4 and content[:4] != magic:
        if content[:3] == magic[:3] and content[3] in _KINDS:
            wrong(file.where, f"{kind} expected, {_KINDS[content[3]]} found; are images and labels swapped?")
        wrong(file.where, f"not an IDX file of {kind}: it begins with 0x{content[:4].hex()}, not 0x{magic.hex()}")
    if len(content) < header:
        wrong(file.where, f"truncated: an IDX header of {header} bytes expected, {len(content)} bytes found")
    return header, struct.unpack(f">{dimensions}I", content[4:header])


def read(files: Sequence[File], expected: Contents, *, transposed: bool = False, first: int = 0) -> Arrays:
    """Training images and labels, test images and labels. `first` is the smallest label."""
    found = []
    for part, (images, labels) in enumerate((files[:2], files[2:])):
        sizes, others = (expected.train, expected.test)[:: 1 - 2 * part]
        (count, *shape), (label_count,) = _header(images, 3)[1], _header(labels, 1)[1]
        check_count(images, "images", count, sizes, others)
        if tuple(shape) != expected.shape:
            wrong(images.where, f"images of {_by(expected.shape)} expected, {_by(shape)} found")
        check_count(labels, "labels", label_count, (count,), others)
        x, y = read_array(images, 3), read_array(labels, 1)
        # EMNIST stores its images column by column, like MATLAB.
        x = np.ascontiguousarray(x.transpose(0, 2, 1)) if transposed else x
        found += [x, classes_from(labels, y, expected.classes, first)]
    return Arrays(*found)


def first_labels(path: Path, count: int) -> tuple[int, ...]:
    """The first labels of a file, which distinguish data sets whose files have the same names; () if it has no labels.

    Only the beginning is read.
    """
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if zipped else path.open("rb") as file:
            content = file.read(8 + count)
    except (EOFError, OSError, zlib.error):
        return ()
    return tuple(content[8:]) if content[:4] == bytes([0, 0, _UINT8, 1]) else ()


def _by(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))
