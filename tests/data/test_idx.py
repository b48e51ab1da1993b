"""IDX: what is written is read, and what is wrong is named."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedtide.data.base import Contents, File, plain
from fedtide.data.idx import first_labels, read, read_array
from fedtide.errors import FedtideError

EXPECTED = Contents((20,), (10,), (28, 28), 10)


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6)), st.booleans())
def test_any_array_comes_back(formats, array, zipped):
    content = formats.as_idx(array)
    found = read_array(File("a", gzip.compress(content) if zipped else content), array.ndim)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, array)


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=3, max_side=5)), st.data(), st.booleans())
def test_any_shorter_or_longer_file_is_refused_in_one_line(formats, array, data, zipped):
    content = formats.as_idx(array)
    stored = gzip.compress(content) if zipped else content
    cut = data.draw(st.integers(0, len(stored) - 1)) if not data.draw(st.booleans()) else None
    damaged = content + b"\0" if cut is None else stored[:cut]
    with pytest.raises(FedtideError, match=r"^a\.gz: ") as caught:
        read_array(File("a.gz", damaged), array.ndim)
    assert "\n" not in str(caught.value)


def test_a_set_is_read_as_it_was_written(formats, idx_files):
    files, written = idx_files
    found = read([File(name, content) for name, content in files.items()], EXPECTED)
    for mine, theirs in zip(found, written, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert found.y.dtype == np.int32


def test_emnist_is_turned_and_its_letters_count_from_0(formats, idx_files):
    _, (x, y, test_x, test_y) = idx_files
    stored = [x.transpose(0, 2, 1), y + 1, test_x.transpose(0, 2, 1), test_y + 1]
    files = [File(str(i), formats.as_idx(np.ascontiguousarray(a))) for i, a in enumerate(stored)]
    found = read(files, EXPECTED, transposed=True, first=1)
    np.testing.assert_array_equal(found.x, x)
    np.testing.assert_array_equal(found.test_y, test_y)
    assert found.x.flags.c_contiguous
    with pytest.raises(FedtideError, match=r"^1: labels 0 … 9 expected, 10 found at sample"):
        read(files, EXPECTED, transposed=True)


X, Y, TEST_X, TEST_Y = "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({X: Y, Y: X}, f"{X}: images expected, labels found; are images and labels swapped?"),
        ({X: TEST_X, TEST_X: X}, f"{X}: 20 images expected, 10 found; are train and test swapped?"),
        ({Y: TEST_Y, TEST_Y: Y}, f"{Y}: 20 labels expected, 10 found; are train and test swapped?"),
    ],
)
def test_swapped_files_are_named(idx_files, change, line):
    files, _ = idx_files
    with pytest.raises(FedtideError) as caught:
        read([File(name, files[change.get(name, name)]) for name in files], EXPECTED)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "truncated: an IDX header of 16 bytes expected, 0 bytes found"),
        (b"\0\0\x08\x03\0\0", "truncated: an IDX header of 16 bytes expected, 6 bytes found"),
        (b"PK\x03\x04 a zip", "not an IDX file of images: it begins with 0x504b0304, not 0x00000803"),
        (
            b"\0\0\x08\x03\0\0\0\x02\0\0\0\x03\0\0\0\x04abc",
            "truncated: 40 bytes expected (16 + 2 × 3 × 4), 19 found",
        ),
        (
            b"\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01ab",
            "too long: 17 bytes expected (16 + 1 × 1 × 1), 18 or more found",
        ),
        (b"\0\0\x08\x03" + b"\xff" * 12, "truncated: 79,"),  # sizes beyond any memory are not asked for
        (gzip.compress(b"abc")[:-9], "truncated: its gzip stream does not end within its 14 bytes"),
        (gzip.compress(b"abc")[:-8] + b"12345678", "damaged gzip stream"),
    ],
    ids=["nothing", "half a header", "a zip", "too short", "too long", "too large", "half a gzip", "a damaged gzip"],
)
def test_wrong_content_is_named(content, line):
    with pytest.raises(FedtideError) as caught:
        read_array(File("f", content), 3)
    assert str(caught.value).startswith(f"f: {line}")


def test_images_of_another_size_are_named(formats, idx_files):
    files, _ = idx_files
    files = files | {X: formats.as_idx(np.zeros((20, 8, 8)))}
    with pytest.raises(FedtideError, match=rf"^{X}: images of 28 × 28 expected, 8 × 8 found$"):
        read([File(name, content) for name, content in files.items()], EXPECTED)


@pytest.mark.parametrize("zipped", [False, True])
def test_the_first_labels_are_looked_up(tmp_path, formats, zipped):
    content = formats.as_idx(np.arange(30))
    path = tmp_path / "labels"
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert first_labels(path, 4) == (0, 1, 2, 3)
    path.write_bytes(b"\x1f\x8b" if zipped else b"something else")
    assert first_labels(path, 4) == ()


def test_no_more_is_unpacked_than_the_header_asks_for(formats, idx_files, monkeypatch):
    files, _ = idx_files
    long = gzip.compress(formats.as_idx(np.zeros((2, 2))) + bytes(5_000_000))
    assert len(plain(File("a.gz", long), 12)) == 13
    with pytest.raises(FedtideError, match=r"^a\.gz: too long: 16 bytes expected \(12 \+ 2 × 2\), 17 or more found$"):
        read_array(File("a.gz", long), 2)
    # A header that is not what the data set has is refused before anything behind it is unpacked.
    unpacked = []
    monkeypatch.setattr("fedtide.data.idx.plain", lambda file, most: unpacked.append(most) or plain(file, most))
    many = gzip.compress(formats.as_idx(np.zeros((6000, 28, 28))))
    with pytest.raises(FedtideError, match=rf"^{X}: 20 images expected, 6,000 found$"):
        read([File(name, content) for name, content in (files | {X: many}).items()], EXPECTED)
    assert max(unpacked) == 16
