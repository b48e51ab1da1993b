"""Plain .npz files."""

import io
import zipfile

import numpy as np
import pytest

from fedtide.data.base import Contents
from fedtide.data.npz import is_data, read
from fedtide.errors import FedtideError

X = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2)
Y = np.array([0, 1, 2, 0, 1, 2])
TEST = np.array([0, 0, 0, 1, 0, 1], bool)


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": X, "y": Y, "is_test": TEST},
        {"x": X[~TEST], "y": Y[~TEST], "test_x": X[TEST], "test_y": Y[TEST], "more": np.zeros(3)},
        {"x_train": X[~TEST], "y_train": Y[~TEST].astype("u1"), "x_test": X[TEST], "y_test": Y[TEST]},
    ],
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_each_layout_is_read(tmp_path, arrays, save):
    path = tmp_path / "a.npz"
    save(path, **arrays)
    assert is_data(path)
    x, y, test_x, test_y = read(path, Contents((4,), (2,), (2, 2), 3))
    np.testing.assert_array_equal(x, X[~TEST])
    np.testing.assert_array_equal(y, Y[~TEST])
    np.testing.assert_array_equal(test_x, X[TEST])
    np.testing.assert_array_equal(test_y, Y[TEST])
    assert (x.dtype, y.dtype) == (np.uint8, np.int32)


def test_floats_stay_floats(tmp_path):
    np.savez(tmp_path / "a.npz", x=X / 255, y=Y, is_test=TEST)
    x = read(tmp_path / "a.npz").x
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, X[~TEST] / 255, rtol=1e-6)


LAYOUTS = "arrays x, y, test_x, test_y, or x_train, y_train, x_test, y_test, or x, y, is_test expected"


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"x": X, "y": Y}, f"{LAYOUTS}; x, y found"),
        ({}, f"{LAYOUTS}; nothing found"),
        ({"x": Y, "y": X, "is_test": TEST}, "x of uint8 or floats [samples, …] expected, int64 of shape (6,) found"),
        ({"x": X, "y": Y[:5], "is_test": TEST}, "y of 6 whole numbers expected, int64 of shape (5,) found"),
        ({"x": X, "y": Y / 2, "is_test": TEST}, "y of 6 whole numbers expected, float64 of shape (6,) found"),
        ({"x": X, "y": Y - 1, "is_test": TEST}, "classes 0, 1, … expected in y, -1 found"),
        ({"x": X, "y": Y + 2**40, "is_test": TEST}, f"classes below 100,000 expected in y, {2**40 + 2} found"),
        ({"x": X, "y": Y + 2**31 - 3, "is_test": TEST}, f"classes below 100,000 expected in y, {2**31 - 1} found"),
        ({"x": X, "y": Y.astype("u8") + 2**63, "is_test": TEST}, "classes below 100,000 expected in y, 9223372036854"),
        (
            {"x": X, "y": Y, "is_test": TEST.astype(int)},
            "is_test with one boolean per sample expected; int64 of shape (6,) found",
        ),
        ({"x": X, "y": Y, "is_test": TEST | True}, "training samples expected, none found"),
        ({"x": np.full((6, 2), np.inf), "y": Y, "is_test": TEST}, "finite numbers expected in x, NaN or ∞ found"),
        (
            {"x": X, "y": Y, "test_x": X[:, :1], "test_y": Y},
            "test samples as the training samples, uint8 (2, 2), expected; uint8 (1, 2) found",
        ),
        ({"x": X.astype(object), "y": Y, "is_test": TEST}, "truncated or damaged; Python objects inside; "),
    ],
)
def test_wrong_arrays_are_named(tmp_path, arrays, line):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(FedtideError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {line}")


def test_a_file_that_is_no_npz_is_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y, is_test=TEST)
    whole = path.read_bytes()
    np.save(tmp_path / "one.npy", X)
    for content, words in (
        (whole[: len(whole) // 2], "truncated or damaged"),
        (b"", "not an .npz file"),
        (b"something else", "not an .npz file"),
        ((tmp_path / "one.npy").read_bytes(), "not an .npz file"),
    ):
        path.write_bytes(content)
        assert not is_data(path)
        with pytest.raises(FedtideError) as caught:
            read(path)
        assert str(caught.value) == f"{path}: {words}; {LAYOUTS}"


def test_what_a_known_set_must_hold_is_checked(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y, is_test=TEST)
    for expected, line in (
        (Contents((2,), (4,), (2, 2), 3), "2 training samples expected, 4 found; are train and test swapped?"),
        (Contents((4,), (3,), (2, 2), 3), "3 test samples expected, 2 found"),
        (Contents((4,), (2,), (3, 3), 3), "uint8 images of shape (3, 3) expected, uint8 (2, 2) found"),
        (Contents((4,), (2,), (2, 2), 2), "labels 0 … 1 expected, 2 found at sample 2"),
    ):
        with pytest.raises(FedtideError) as caught:
            read(path, expected)
        assert str(caught.value) == f"{path}: {line}"


def test_an_array_that_asks_for_more_than_the_file_holds_is_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, y=Y, is_test=TEST)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 2)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", header.getvalue() + b"ab")
    with pytest.raises(FedtideError) as caught:
        read(path)
    found = len(header.getvalue()) + 2
    assert str(caught.value) == (
        f"{path}: truncated or damaged: x of 2,000,000,000,000 bytes expected from its header, {found} found"
    )


def test_a_member_too_large_for_a_known_set_is_not_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((600_000, 2), np.uint8), y=Y, is_test=TEST)
    with pytest.raises(FedtideError, match=r"a\.npz: x: too long: at most 1,054,720 bytes expected, 1,200,128 found$"):
        read(path, Contents((4,), (6,), (2, 2, 0), 3))


def test_memory_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    def none(*_, **__):
        raise MemoryError

    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y, is_test=TEST)
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", none)
    with pytest.raises(FedtideError, match=r"a\.npz: its arrays do not fit into memory$"):
        read(path)


def test_an_encrypted_file_is_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y, is_test=TEST)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1  # in the directory
    content[content.index(b"PK\x03\x04") + 6] |= 1
    path.write_bytes(content)
    with pytest.raises(FedtideError, match=r"a\.npz: x is encrypted$"):
        read(path)


def test_a_file_that_was_looked_at_is_closed(tmp_path, monkeypatch):
    opened = []

    class Kept(zipfile.ZipFile):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            opened.append(self)

    np.savez(tmp_path / "a.npz", x=X, y=Y, is_test=TEST)
    monkeypatch.setattr(zipfile, "ZipFile", Kept)
    assert is_data(tmp_path / "a.npz")
    assert [archive.fp for archive in opened] == [None]
