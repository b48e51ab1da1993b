"""CIFAR in both formats, and pickles that want more than they may."""

import pickle

import numpy as np
import pytest

from fedtide.data.base import Contents, File
from fedtide.data.cifar import read_binary, read_python
from fedtide.data.unpickle import unpickled
from fedtide.errors import FedtideError

EXPECTED = Contents((10,), (3,), (32, 32, 3), 10)


@pytest.fixture(scope="module")
def images():
    """Images [n, row, column, colour] and labels of five training batches and a test batch."""
    rng = np.random.default_rng([6])
    sizes = [2, 2, 2, 2, 2, 3]
    return [(rng.integers(0, 256, (n, 32, 32, 3), np.uint8), rng.integers(0, 10, n)) for n in sizes]


def rows(x: np.ndarray) -> np.ndarray:
    """As stored: all red, all green, all blue."""
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)).reshape(len(x), -1)


def binary(images, coarse: bool = False) -> list[File]:
    files = []
    for i, (x, y) in enumerate(images):
        labels = y.astype(np.uint8)[:, None]
        labels = np.hstack([19 - labels, labels]) if coarse else labels
        files.append(File(f"batch {i}", np.hstack([labels, rows(x)]).tobytes()))
    return files


def python(formats, images, key: str = "labels") -> list[File]:
    last = len(images) - 1
    names = [f"training batch {i + 1} of {last}" for i in range(last)] + ["testing batch 1 of 1"]
    return [
        File(
            f"batch {i}",
            formats.as_python2_batch({"batch_label": name.encode(), key: y.tolist(), "data": rows(x)}),
        )
        for i, (name, (x, y)) in enumerate(zip(names, images, strict=True))
    ]


def assert_same(found, images):
    np.testing.assert_array_equal(found.x, np.concatenate([x for x, _ in images[:-1]]))
    np.testing.assert_array_equal(found.y, np.concatenate([y for _, y in images[:-1]]))
    np.testing.assert_array_equal(found.test_x, images[-1][0])
    np.testing.assert_array_equal(found.test_y, images[-1][1])


def test_the_two_formats_hold_the_same(formats, images):
    assert_same(read_binary(binary(images), EXPECTED), images)
    assert_same(read_python(python(formats, images), EXPECTED), images)


def test_cifar100_has_two_labels_and_the_fine_one_counts(formats, images):
    images = [(np.concatenate([x for x, _ in images[:-1]]), np.concatenate([y for _, y in images[:-1]])), images[-1]]
    assert_same(read_binary(binary(images, coarse=True), EXPECTED, label_bytes=2), images)
    assert_same(read_python(python(formats, images, "fine_labels"), EXPECTED, labels="fine_labels"), images)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_pickles_of_python_3_are_read_too(images, protocol):
    batches = [{"labels": y.tolist(), "data": rows(x)} for x, y in images]
    files = [File(str(i), pickle.dumps(batch, protocol)) for i, batch in enumerate(batches)]
    assert_same(read_python(files, EXPECTED), images)


def test_a_wrong_binary_batch_is_named(images):
    good = binary(images)
    for i, content, line in (
        (2, good[2].content[:-5], "batch 2: truncated: 6,146 bytes expected (2 × 3,073), 6,141 found"),
        (5, good[0].content, "batch 5: truncated: 9,219 bytes expected (3 × 3,073), 6,146 found"),
        (0, good[5].content, "batch 0: too long: 6,146 bytes expected (2 × 3,073), 9,219 found"),
        (1, b"\x0b" + good[1].content[1:], "batch 1: labels 0 … 9 expected, 11 found at sample 0"),
    ):
        files = [File(f.where, content if i == j else f.content) for j, f in enumerate(good)]
        with pytest.raises(FedtideError) as caught:
            read_binary(files, EXPECTED)
        assert str(caught.value) == line


def test_a_wrong_python_batch_is_named(formats, images):
    good = python(formats, images)
    fine = python(formats, images, "fine_labels")[1].content
    few = formats.as_python2_batch({"labels": [1, 2, 3], "data": rows(images[1][0])})
    small = formats.as_python2_batch({"labels": [1, 2], "data": np.zeros((2, 10), np.uint8)})
    high = formats.as_python2_batch({"labels": [1, 10], "data": rows(images[1][0])})
    second = "batch 1: 'training batch 2 of 5' expected"
    for content, line in (
        (good[5].content, f"{second}, 'testing batch 1 of 1' found; are files swapped?"),
        (good[0].content, f"{second}, 'training batch 1 of 5' found; are files swapped?"),
        (fine, "batch 1: 'data' and 'labels' expected, 'batch_label', 'data', 'fine_labels' found"),
        (good[1].content[:-50], "batch 1: truncated"),
        (b"", "batch 1: truncated: the pickle does not end within its 0 bytes"),
        (b"\x80\x02](.", "batch 1: not a batch of images: "),
        (b"\x80\x02K\x01.", "batch 1: a dictionary of images and labels expected, int found"),
        (small, "batch 1: 'data' of uint8 [2, 3,072] expected, uint8 of shape (2, 10) found"),
        (few, "batch 1: 2 labels expected, 3 found"),
        (high, "batch 1: labels 0 … 9 expected, 10 found at sample 1"),
    ):  # fmt: skip
        files = [File(f.where, content if j == 1 else f.content) for j, f in enumerate(good)]
        with pytest.raises(FedtideError) as caught:
            read_python(files, EXPECTED)
        assert str(caught.value).startswith(line)
        assert "\n" not in str(caught.value)


class Harmful:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_cannot_run_anything(tmp_path, protocol):
    import os

    path = tmp_path / "made"
    pickled = pickle.dumps({"data": Harmful(os.mkdir, str(path))}, protocol)
    pickle.loads(pickled)
    assert path.is_dir()  # this is what a pickle can do
    path.rmdir()
    with pytest.raises(FedtideError, match=r"^f: not a batch of images: it imports \w+\.mkdir$"):
        unpickled(File("f", pickled))
    assert not path.exists()


@pytest.mark.parametrize(
    "value",
    [eval, np.float64(3.0), np.array([1.0, 2.0]), np.array([{}], object), np.zeros(2, "u1,u1"), np.ma.zeros(3), {1, 2}],
    ids=["builtin", "scalar", "floats", "objects", "records", "masked", "set"],
)
def test_a_pickle_may_hold_plain_values_and_arrays_of_bytes_only(value):
    with pytest.raises(FedtideError, match=r"^f: not a batch of images: "):
        unpickled(File("f", pickle.dumps({"data": value}, 2)))


def test_states_of_arrays_are_not_believed():
    """Sizes that do not fit, types that are no types, other encodings: refused, whatever NumPy would make of them."""
    start = b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
    for state in (
        b"(K\x01K\x64\x85" + kind + b"\x89U\x02abtbu.",  # 100 values in 2 bytes
        b"(K\x01K\x02\x85U\x02u1\x89U\x02abtbu.",  # a text as type
        b"(K\x01K\x01\x85" + kind + b"\x89](K\x01etbu.",  # a list as content
        b"}b" + b"u.",  # no state at all
    ):
        with pytest.raises(FedtideError, match=r"^f: not a batch of images: "):
            unpickled(File("f", start + state))
    zipped = b"\x80\x02}(U\x01ac_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86Ru."
    with pytest.raises(FedtideError, match="an encoding that is not latin-1"):
        unpickled(File("f", zipped))


@pytest.mark.parametrize(
    ("pickled", "line"),
    [
        (b"\x80\x02}r\x00\x00\x00\x10.", "not a batch of images: a memo of 268,435,456 entries"),
        (b"}p268435456\n.", "not a batch of images: a memo of 268,435,456 entries"),
        (b"\x80\x02}(K\x01" + b"\x85" * 100_000 + b"K\x01u.",
         "not a batch of images: more than 1,000 tuples"),
        (b"\x80\x02}(K\x01" + b"\x85" * 900 + b"K\x01u.", "not a batch of images: texts expected as keys"),
        (b"\x80\x04\x96" + b"\xff" * 7 + b"\x00ab.", "truncated: the pickle does not end within its 14 bytes"),
    ],
    ids=["memo", "memo in text", "deep key", "key", "length"],
)  # fmt: skip
def test_a_pickle_cannot_take_more_memory_or_stack_than_its_size(pickled, line):
    with pytest.raises(FedtideError) as caught:
        unpickled(File("f", pickled))
    assert str(caught.value) == f"f: {line}"


def test_labels_that_are_no_labels_are_named(images):
    nested: list = []
    for _ in range(100):
        nested = [nested]
    batches = [{"labels": y.tolist(), "data": rows(x)} for x, y in images]
    for change, line in (
        ({"labels": [1, 10**30]}, "0: a list of whole numbers below 2³¹ expected as labels"),
        ({"labels": [1, 10**5000]}, "0: a list of whole numbers below 2³¹ expected as labels"),
        ({"labels": [1, -(2**40)]}, "0: a list of whole numbers below 2³¹ expected as labels"),
        ({"batch_label": nested}, "0: 'training batch 1 of 5' expected as batch_label, list found"),
    ):
        files = [File(str(i), pickle.dumps(b | change if i == 0 else b, 2)) for i, b in enumerate(batches)]
        with pytest.raises(FedtideError) as caught:
            read_python(files, EXPECTED)
        assert str(caught.value) == line
