"""Plain .npz files."""

import numpy as np
import pytest

from fedtide.data.base import Expected
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
    x, y, test_x, test_y = read(path, Expected((4,), (2,), (2, 2), 3))
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
        (
            {"x": X, "y": Y, "is_test": TEST.astype(int)},
            "is_test of booleans, one a sample, expected; int64 of shape (6,) found",
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
        (Expected((2,), (4,), (2, 2), 3), "2 training samples expected, 4 found; are train and test swapped?"),
        (Expected((4,), (3,), (2, 2), 3), "3 test samples expected, 2 found"),
        (Expected((4,), (2,), (3, 3), 3), "uint8 images of shape (3, 3) expected, uint8 (2, 2) found"),
        (Expected((4,), (2,), (2, 2), 2), "labels 0 … 1 expected, 2 found at sample 2"),
    ):
        with pytest.raises(FedtideError) as caught:
            read(path, expected)
        assert str(caught.value) == f"{path}: {line}"
