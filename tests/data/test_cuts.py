"""Small data sets, by rules that leave nothing to chance."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedtide.data import load
from fedtide.data.base import Arrays
from fedtide.data.cuts import balanced, every_fifth, mnist10k


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_a_fifth_of_all_and_of_each_class_up_to_one(labels):
    labels = np.array(labels)
    marked = every_fifth(labels)
    assert marked.sum() == len(labels) // 5
    for label in np.unique(labels):
        mine = labels == label
        assert abs((marked & mine).sum() - mine.sum() / 5) < 1


def test_mnist10k_is_the_first_10_000_in_their_order():
    rng = np.random.default_rng([8])
    labels = rng.integers(0, 10, 10_500)
    numbers = np.arange(10_500)
    part = mnist10k(Arrays(numbers, labels, numbers[:5], labels[:5]))
    assert (len(part.x), len(part.test_x)) == (8_000, 2_000)
    np.testing.assert_array_equal(np.sort(np.concatenate([part.x, part.test_x])), numbers[:10_000])
    np.testing.assert_array_equal(part.y, labels[part.x])
    np.testing.assert_array_equal(part.test_y, labels[part.test_x])
    assert (np.diff(part.x) > 0).all()


def test_balanced_takes_the_first_of_each_class_in_their_order():
    labels = np.array([2, 0, 0, 1, 2, 0, 1, 2, 1, 0])
    numbers = np.arange(10)
    part = balanced(2, 1, Arrays(numbers, labels, numbers, labels))
    assert part.x.tolist() == [0, 1, 2, 3, 4, 6]
    assert part.test_x.tolist() == [0, 1, 3]
    assert part.y.tolist() == labels[part.x].tolist()


def test_the_embedded_digits_use_the_whole_range_of_bytes():
    found = load("digits")
    assert (found.x.dtype, found.x.min(), found.x.max()) == (np.uint8, 0, 255)
    assert (found.x.shape, found.test_x.shape, found.classes) == ((1438, 8, 8), (359, 8, 8), 10)
    from sklearn.datasets import load_digits

    pixels = np.concatenate([found.x, found.test_x]).astype(int)
    assert set(np.unique(pixels)) == {round(255 / 16 * level) for level in range(17)}
    assert np.bincount(np.concatenate([found.y, found.test_y])).tolist() == np.bincount(load_digits().target).tolist()
