"""STL-10: columns first, classes from 1."""

import numpy as np
import pytest

from fedtide.data.base import Contents, File
from fedtide.data.stl import read
from fedtide.errors import FedtideError

EXPECTED = Contents((3,), (5,), (96, 96, 3), 10)
NAMES = ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng([7])
    return [
        v for n in (3, 5) for v in (rng.integers(0, 256, (n, 96, 96, 3), np.uint8), rng.integers(0, 10, n).astype("u1"))
    ]


@pytest.fixture(scope="module")
def contents(arrays):
    x, y, test_x, test_y = arrays
    by_column = [np.ascontiguousarray(v.transpose(0, 3, 2, 1)).tobytes() for v in (x, test_x)]
    return [by_column[0], (y + 1).tobytes(), by_column[1], (test_y + 1).tobytes()]


def test_images_stand_upright(arrays, contents):
    found = read(list(map(File, NAMES, contents)), EXPECTED)
    for mine, theirs in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("order", "line"),
    [
        ((1, 0, 2, 3), "train_X.bin: images expected, 3 bytes found, as many as labels; are the files swapped?"),
        ((2, 1, 0, 3), "train_X.bin: 3 images expected, 5 found; are train and test swapped?"),
        ((0, 3, 2, 1), "train_y.bin: 3 labels expected, 5 found; are train and test swapped?"),
        ((2, 3, 0, 1), "train_X.bin: 3 images expected, 5 found; are train and test swapped?"),
    ],
)
def test_swapped_files_are_named(contents, order, line):
    with pytest.raises(FedtideError) as caught:
        read([File(name, contents[i]) for name, i in zip(NAMES, order, strict=True)], EXPECTED)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("place", "change", "line"),
    [
        (0, lambda c: c[:-1], "train_X.bin: truncated: 82,944 bytes expected (3 × 27,648), 82,943 found"),
        (2, lambda c: c[:-27648], "test_X.bin: 5 images expected, 4 found"),
        (1, lambda c: c[:-1], "train_y.bin: 3 labels expected, 2 found"),
        (3, lambda c: b"\0" + c[1:], "test_y.bin: labels 1 … 10 expected, 0 found at sample 0"),
        (3, lambda c: c[:1] + b"\x0b" + c[2:], "test_y.bin: labels 1 … 10 expected, 11 found at sample 1"),
    ],
)
def test_a_wrong_file_is_named(contents, place, change, line):
    files = [File(n, change(c) if i == place else c) for i, (n, c) in enumerate(zip(NAMES, contents, strict=True))]
    with pytest.raises(FedtideError) as caught:
        read(files, EXPECTED)
    assert str(caught.value) == line
