"""Partitions are disjoint, complete, seeded, and end for any concentration."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide.errors import InvalidInput
from fedtide.partitioners import dirichlet, iid

PARTITIONERS = [
    pytest.param(lambda labels, clients, seed: iid(len(labels), clients, seed=seed), id="iid"),
    *(
        pytest.param(
            functools.partial(lambda a, labels, clients, seed: dirichlet(labels, clients, a, seed=seed), a),
            id=f"dirichlet({a:g})",
        )
        for a in (1e-300, 1e-6, 0.3, 1.0, 1e6)
    ),
]
"""Functions (labels, clients, seed) -> index arrays. A new partitioner is one line here."""


@pytest.mark.parametrize("partition", PARTITIONERS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    clients=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_sample_goes_to_exactly_one_client_and_every_client_has_one(partition, labels, clients, seed):
    labels = np.array(labels)
    clients = min(clients, len(labels))
    parts = partition(labels, clients, seed)
    assert len(parts) == clients
    assert all(len(mine) >= 1 for mine in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    again = partition(labels, clients, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("partition", PARTITIONERS)
def test_another_seed_is_another_partition(partition):
    labels = np.arange(200) % 10
    first, second = (np.concatenate(partition(labels, 5, seed)) for seed in (0, 1))
    assert not np.array_equal(first, second)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=80),
    clients=st.integers(1, 10),
    exponent=st.floats(-8, 8),
    data=st.data(),
)
def test_dirichlet_gives_everyone_the_smallest_size(labels, clients, exponent, data):
    smallest = data.draw(st.integers(0, len(labels) // clients))
    parts = dirichlet(labels, clients, 10**exponent, smallest=smallest)
    assert min(len(mine) for mine in parts) >= smallest
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))


def test_iid_shares_differ_by_at_most_one():
    assert sorted(len(mine) for mine in iid(103, 10)) == [10] * 7 + [11] * 3


def test_a_small_concentration_gives_a_class_to_one_client_and_a_large_one_to_all():
    labels = np.repeat(np.arange(10), 100)
    parts = dirichlet(labels, 20, 1e-6, smallest=0)
    owners = [sum(c in labels[mine] for mine in parts) for c in range(10)]
    assert owners == [1] * 10
    even = [np.bincount(labels[mine], minlength=10) for mine in dirichlet(labels, 20, 1e6)]
    assert np.abs(np.array(even) - 5).max() <= 1


def test_dirichlet_shares_have_the_right_moments():
    # One class of 4,000 samples over 4 clients, 400 draws: a share has mean 1/4 and variance (3/16) / (4a + 1).
    # With a = 0.5 their standard errors are 0.0125 and at most 6 %; the bands are over 3 of them (error rate < 0.3 %).
    a = 0.5
    shares = np.array(
        [[len(mine) / 4000 for mine in dirichlet(np.zeros(4000), 4, a, smallest=0, seed=s)] for s in range(400)]
    )
    np.testing.assert_allclose(shares.mean(axis=0), 0.25, atol=0.06)
    np.testing.assert_allclose(shares.var(), 3 / 16 / (4 * a + 1), rtol=0.2)


def test_a_prefix_of_a_client_is_a_fair_sample():
    # Classes in order in the data, one client: half of the indices hold about half of each class. Under a random
    # order the count is hypergeometric with standard deviation 5; the band is ± 30 (error rate below 1e-8).
    labels = np.repeat([0, 1], 100)
    (mine,) = dirichlet(labels, 1, 1.0)
    assert abs((labels[mine[:100]] == 0).sum() - 50) < 30


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: dirichlet([0, 1], 2, 0.0), "concentration = 0.0: must be positive and finite"),
        (lambda: dirichlet([0, 1], 2, float("nan")), "concentration = nan: must be positive and finite"),
        (lambda: dirichlet([0, 1], 3, 1.0), "smallest = 1: must be at most 0: 3 clients share 2 samples"),
        (lambda: dirichlet([0, 1], 0, 1.0), "clients = 0: must be 1 or more"),
        (lambda: dirichlet([[0, 1]], 1, 1.0), r"shape of labels = (1, 2): must be (samples,)"),
        (lambda: dirichlet([0, 1], 1, 1.0, smallest=-1), "smallest = -1: must be 0 or more"),
        (lambda: iid(2, 3), "samples = 2: must be at least 3: one for each client"),
        (lambda: iid(2, 0), "clients = 0: must be 1 or more"),
        (lambda: iid(2, 1, seed=-1), "seed = -1: must be 0 or more"),
    ],
)
def test_errors_name_field_value_and_what_is_allowed(call, line):
    with pytest.raises(InvalidInput) as caught:
        call()
    assert str(caught.value) == line
