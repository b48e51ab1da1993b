"""Images over clients: nothing lost, test samples where the training samples are."""

import functools
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide.data import load
from fedtide.errors import FedtideError, InvalidInput
from fedtide.partitioners import dirichlet, label_skew, rare_pattern
from fedtide.problems import images, softmax_regression
from fedtide.problems.images import dealt


def rows(x, y):
    """Samples in an order of their own, to compare sets of them."""
    both = np.column_stack([np.asarray(x).reshape(len(x), -1), np.asarray(y)])
    return both[np.lexsort(both.T)]


def test_every_image_is_somebodys_and_stays_bytes():
    digits = load("digits")
    problem = images(clients=7, partition=functools.partial(dirichlet, concentration=0.1))
    assert problem.x.dtype == np.uint8
    np.testing.assert_array_equal(rows(problem.x, problem.y), rows(digits.x, digits.y))
    np.testing.assert_array_equal(rows(problem.test_x, problem.test_y), rows(digits.test_x, digits.test_y))
    assert (np.sum(problem.sizes), np.sum(problem.test_sizes)) == (len(digits.y), len(digits.test_y))


def test_the_default_is_a_dirichlet_partition_and_softmax_regression():
    problem = images(clients=5, seed=3)
    parts = dirichlet(load("digits").y, 5, 0.3, seed=3)
    np.testing.assert_array_equal(problem.sizes, [len(mine) for mine in parts])
    np.testing.assert_array_equal(problem.x[: len(parts[0])], load("digits").x[parts[0]])
    assert problem.model == softmax_regression((8, 8), 10)


def test_a_client_is_tested_on_what_it_has():
    problem = images(clients=10, partition=functools.partial(label_skew, classes=2))
    train, ends = problem.label_counts, np.cumsum(problem.test_sizes)
    test = np.array(
        [np.bincount(mine, minlength=10) for mine in np.split(np.asarray(problem.test_y), ends[:-1])]
    )  # fmt: skip
    share = test.sum(axis=0) / train.sum(axis=0)
    assert np.abs(test - train * share).max() < 1  # largest remainders: off by less than one sample
    assert (test[train == 0] == 0).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=6).filter(lambda c: any(c)),
    st.lists(st.integers(0, 4), max_size=40),
)
def test_every_test_sample_goes_to_exactly_one_client(labels, test_labels):
    """Also those of classes that nobody has."""
    parts = dealt(np.array(test_labels, int), [np.array(mine, int) for mine in labels], [0])
    assert len(parts) == len(labels)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(test_labels)))
    assert all(len(part) == 0 for part, mine in zip(parts, labels, strict=True) if not mine)


def test_equal_clients_differ_by_at_most_one_of_a_class():
    labels = [np.arange(10)] * 7
    parts = dealt(np.repeat(np.arange(10), 12), labels, [0])
    counts = np.array([np.bincount(np.repeat(np.arange(10), 12)[part], minlength=10) for part in parts])
    assert set(counts.ravel()) == {1, 2}
    # Who gets the fifth more is drawn class by class: nobody is always first. 10 draws of 5 in 7: all 10 or none has
    # probability below 0.25 for one of 7; not so for this seed.
    assert counts.sum(axis=1).max() < 20


def test_a_seed_draws_a_subset_and_the_partition_of_one_shape():
    first, again, other = (images(clients=4, samples=200, test_samples=50, seed=seed) for seed in (1, 1, 2))
    assert first.x.shape == other.x.shape == (200, 8, 8)
    assert first.test_x.shape == other.test_x.shape == (50, 8, 8)
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(rows(first.x, first.y), rows(other.x, other.y))
    assert not np.array_equal(rows(first.test_x, first.test_y), rows(other.test_x, other.test_y))


def test_what_the_partition_could_not_give_is_logged(caplog):
    rare = (load("digits").y >= 8).sum()
    dropped = (1438 - rare) % 26 + rare % 4
    with caplog.at_level(logging.INFO, "fedtide"):
        images(clients=30, partition=functools.partial(rare_pattern, pattern=(8, 9), rare=4))
    line = f"digits: {dropped} samples dropped, so that sizes are equal"
    assert [record.message for record in caplog.records] == [line]


def test_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(InvalidInput, match=r"^samples = 5000: must be in 1 … 1438, the number of samples"):
        images(samples=5000)
    with pytest.raises(InvalidInput, match=r"^test_samples = 0: must be in 1 … 359, the number of samples"):
        images(test_samples=0)
    with pytest.raises(InvalidInput, match=r"^seed = -1: must be 0 or more"):
        images(seed=-1)
    with pytest.raises(FedtideError, match=r"^mnist: "):
        images("mnist", data_dir=tmp_path)
