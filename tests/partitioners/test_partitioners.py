"""Partitions are disjoint, complete, seeded, and end for any concentration."""

import functools
import inspect
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide import partitioners
from fedtide.errors import FedtideError, InvalidInput
from fedtide.partitioners import (
    CATALOGUE,
    Partition,
    clustered,
    dirichlet,
    find,
    iid,
    label_skew,
    power_law,
    rare_pattern,
    super_clusters,
)

EXTREMES = (1e-300, 1e-6, 0.3, 1.0, 1e6, 1e300)
HALVES = ((0, 2, 4), (1, 3, 5))
COMPLETE = {
    "iid": iid,
    **{f"dirichlet({a:g})": functools.partial(dirichlet, concentration=a) for a in EXTREMES},
    **{f"equal dirichlet({a:g})": functools.partial(dirichlet, concentration=a, equal=True) for a in EXTREMES},
    **{f"power_law({a:g})": functools.partial(power_law, exponent=a) for a in (0.0, 1.5, 1e300)},
    "shuffled power_law": functools.partial(power_law, exponent=1.0, shuffled=True),
    "homogeneous": functools.partial(clustered, clusters=1),
    **{f"clustered({a:g})": functools.partial(clustered, clusters=1, concentration=a) for a in EXTREMES},
    **{f"clustered(within={a:g})": functools.partial(clustered, clusters=1, within=a) for a in EXTREMES},
}
"""Partitioners that give every sample to exactly one client and every client one or more. A new one is one line."""

INCOMPLETE = {
    "label_skew": functools.partial(label_skew, classes=1),
    "rare_pattern": functools.partial(rare_pattern, pattern=(0,), rare=1),
    **{
        f"super_clusters({a:g})": functools.partial(super_clusters, concentration=a, groups=HALVES, smallest=1)
        for a in EXTREMES
    },
}
"""Those that leave samples out, or need more than one for each client."""

PARTITIONERS = COMPLETE | INCOMPLETE


def alike(first: Partition, second: Partition) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)) and first.notes == second.notes


def mixes(labels, parts) -> np.ndarray:
    """Samples of each class [N, classes]."""
    return np.array([np.bincount(labels[mine], minlength=labels.max() + 1) for mine in parts])


@pytest.mark.parametrize("partition", COMPLETE.values(), ids=COMPLETE)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    clients=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_sample_goes_to_exactly_one_client_and_every_client_has_one(partition, labels, clients, seed):
    labels = np.array(labels)
    clients = min(clients, len(labels))
    parts = partition(labels, clients, seed=seed)
    assert len(parts) == clients
    assert all(len(mine) >= 1 for mine in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert alike(parts, partition(labels, clients, seed=seed))


@pytest.mark.parametrize("partition", INCOMPLETE.values(), ids=INCOMPLETE)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    labels=st.lists(st.integers(0, 5), min_size=60, max_size=80).filter(lambda labels: len(set(labels)) == 6),
    clients=st.integers(2, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_nobody_shares_a_sample_and_notes_say_what_was_left_out(partition, labels, clients, seed):
    labels = np.array([*labels, *range(6)] * 2)
    parts = partition(labels, clients, seed=seed)
    everything = np.concatenate(parts)
    assert len(parts) == clients
    assert len(np.unique(everything)) == len(everything)
    assert np.isin(everything, np.arange(len(labels))).all()
    assert len(everything) == len(labels) or any("dropped" in note or "left out" in note for note in parts.notes)
    assert alike(parts, partition(labels, clients, seed=seed))


@pytest.mark.parametrize("partition", PARTITIONERS.values(), ids=PARTITIONERS)
def test_another_seed_is_another_partition(partition):
    labels = np.arange(240) % 6
    first, second = (np.concatenate(partition(labels, 5, seed=seed)) for seed in (0, 1))
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
    assert sorted(len(mine) for mine in iid(np.zeros(103), 10)) == [10] * 7 + [11] * 3


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


def test_dirichlet_notes_who_was_filled_up():
    labels = np.repeat(np.arange(2), 50)
    parts = dirichlet(labels, 4, 1e-6, smallest=10)
    own = dirichlet(labels, 4, 1e-6, smallest=0)
    poor = sum(len(mine) < 10 for mine in own)
    assert 2 <= poor <= 3
    assert parts.notes == (
        f"{poor} of 4 clients drew fewer than 10: topped up with {10 * poor} samples of the largest clients",
    )
    assert own.notes == (f"{poor} of 4 clients got no samples",)
    assert dirichlet(labels, 4, 1e6).notes == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=80),
    clients=st.integers(1, 10),
    exponent=st.floats(-300, 300),
    seed=st.integers(0, 99),
)
def test_equal_dirichlet_has_equal_sizes(labels, clients, exponent, seed):
    sizes = [len(mine) for mine in dirichlet(labels, clients, 10**exponent, smallest=0, equal=True, seed=seed)]
    assert sum(sizes) == len(labels)
    assert max(sizes) - min(sizes) <= 1


def test_equal_dirichlet_with_little_of_it_gives_a_client_one_class_while_it_lasts():
    labels = np.repeat(np.arange(10), 100)
    parts = dirichlet(labels, 100, 1e-6, equal=True)
    counts = mixes(labels, parts)
    assert (counts.sum(axis=1) == 10).all()
    # A client asks for 10 of one class, of which 10 clients find theirs: most of the 100 do, and the note counts the
    # samples of the others.
    whole = (counts == 10).any(axis=1)
    assert whole.sum() > 60
    (note,) = parts.notes
    moved = int(note.split(" got ")[1].split()[0])
    assert moved == 10 * (100 - whole.sum())
    assert np.abs(mixes(labels, dirichlet(labels, 100, 1e300, equal=True)) - 1).max() == 0


def test_super_clusters_bind_a_client_to_one_group():
    labels = np.arange(3000) % 10
    parts = super_clusters(labels, 10, 0.5, "fashion_mnist")
    # Shares ∝ 1 + 3/10, 1 + 4/10, 1 + 3/10: 3.25, 3.5, 3.25 clients, the half rounded up.
    groups = [{0, 1, 3}] * 3 + [{2, 4, 6, 8}] * 4 + [{5, 7, 9}] * 3
    for mine, group in zip(parts, groups, strict=True):
        assert set(labels[mine]) <= group
        assert len(mine) >= 15
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(3000))
    vehicles = [set(labels[mine]) <= {0, 1, 8, 9} for mine in super_clusters(labels, 10, 1.0, "cifar10")]
    assert vehicles == [True] * 5 + [False] * 5  # shares ∝ 1.4, 1.6: 4.67 and 5.33


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 20))
def test_every_group_has_a_client(sizes, more):
    ends = np.cumsum([0, *sizes])
    groups = [tuple(range(a, b)) for a, b in itertools.pairwise(ends)]
    labels = np.repeat(np.arange(ends[-1]), 30)
    parts = super_clusters(labels, len(sizes) + more, 1.0, groups, smallest=1)
    assert len(np.unique(np.concatenate(parts))) == len(labels)
    assert min(len(mine) for mine in parts) >= 1


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(2, 12), st.floats(-300, 300), st.integers(0, 15), st.integers(0, 99))
def test_super_clusters_give_everyone_the_smallest_size(clients, exponent, smallest, seed):
    labels = np.arange(600) % 6
    parts = super_clusters(labels, clients, 10**exponent, HALVES, smallest=smallest, seed=seed)
    assert min(len(mine) for mine in parts) >= smallest
    assert all(len({label % 2 for label in labels[mine]}) <= 1 for mine in parts)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    labels=st.lists(st.integers(0, 5), min_size=12, max_size=60),
    clients=st.integers(2, 12),
    concentration=st.sampled_from((None, *EXTREMES)),
    data=st.data(),
)
def test_any_number_of_clusters_gives_every_sample_once_and_equal_sizes(labels, clients, concentration, data):
    clusters = data.draw(st.integers(2, clients))
    parts = clustered(labels, clients, clusters, concentration)
    sizes = [len(mine) for mine in parts]
    assert len(sizes) == clients
    assert max(sizes) - min(sizes) <= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert alike(parts, clustered(labels, clients, clusters, concentration))


def test_rare_pattern_as_published():
    # Fashion-MNIST: 6,000 samples of each class, 30 users, 8 and 9 at the last 3. (A tenth of it here.)
    labels = np.repeat(np.arange(10), 600)
    parts = rare_pattern(labels, 30, (8, 9), 3)
    assert [len(mine) for mine in parts] == [177] * 27 + [400] * 3
    assert all(labels[mine].max() <= 7 for mine in parts[:27])
    assert all(labels[mine].min() >= 8 for mine in parts[27:])
    assert parts.notes == ("21 samples dropped, so that sizes are equal",)
    # At random within the sets: 177 of 8 classes, a class has 22 with standard deviation 4.4 (band: 5 of them).
    assert np.abs(mixes(labels, parts[:27])[:, :8] - 22).max() < 25


def test_label_skew_gives_so_many_classes_and_as_many_owners_to_each():
    labels = np.repeat(np.arange(10), 60)
    parts = label_skew(labels, 20, 3)
    counts = mixes(labels, parts)
    assert ((counts > 0).sum(axis=1) == 3).all()
    assert ((counts > 0).sum(axis=0) == 6).all()
    assert set(counts[counts > 0]) == {10}
    assert parts.notes == ()
    few = label_skew(labels, 2, 3)
    assert few.notes[0].startswith("no client has classes ")
    assert few.notes[0].endswith(": 240 samples left out")
    scarce = label_skew([0, 1, 1, 1], 4, 1)
    assert scarce.notes == (
        "1 client got fewer classes: they have too few samples", "1 of 4 clients got no samples"
    )  # fmt: skip


def test_power_law_sizes():
    parts = power_law(np.zeros(1200), 4, 1.0)
    np.testing.assert_allclose([len(mine) for mine in parts], [576, 288, 192, 144], atol=1)
    steep = power_law(np.zeros(100), 4, 50.0, smallest=5)
    assert [len(mine) for mine in steep] == [85, 5, 5, 5]
    assert steep.notes == ("3 of 4 clients drew fewer than 5: topped up with 15 samples of the largest clients",)
    firsts = {len(power_law(np.zeros(1200), 4, 1.0, shuffled=True, seed=s)[0]) for s in range(20)}
    assert firsts == {576, 288, 192, 144}


def test_clients_of_a_cluster_share_a_mix():
    # Six clusters of 5 clients with 60 samples each: within a cluster, a class's count varies as draws without
    # replacement do (standard deviation at most 3.9, band 5 of them); between clusters it varies by the law.
    labels = np.arange(1800) % 6
    counts = mixes(labels, clustered(labels, 30, 6, 0.2)).reshape(6, 5, 6)
    means = counts.mean(axis=1, keepdims=True)
    assert (counts.sum(axis=-1) == 60).all()
    assert np.abs(counts - means).max() < 20
    assert np.ptp(means, axis=0).max() > 20
    same = mixes(labels, clustered(labels, 30, 6)).reshape(6, 5, 6)
    assert np.abs(same.mean(axis=1) - 10).max() < 7  # 300 of 1,800: standard deviation of a mean below 1.3


def test_clients_within_a_cluster_may_differ():
    # As above, but with mixes of their own within homogeneous clusters: counts vary far beyond what chance gives.
    labels = np.arange(1800) % 6
    counts = mixes(labels, clustered(labels, 30, 6, within=0.2)).reshape(6, 5, 6)
    assert (counts.sum(axis=-1) == 60).all()
    assert np.abs(counts - counts.mean(axis=1, keepdims=True)).max() > 25
    assert np.abs(counts.mean(axis=1) - 10).max() < 7


def test_a_catalogue_entry_builds_a_partitioner_from_the_other_arguments():
    labels = np.arange(400) % 10
    needed = {
        "dirichlet": {"concentration": 0.3},
        "super_clusters": {"concentration": 0.3, "groups": "cifar10"},
    }
    for name, entry in CATALOGUE.items():
        partitioner = entry.build(**needed.get(name, {}))
        split = getattr(partitioners, name)
        assert alike(partitioner(labels, 10, seed=3), split(labels, 10, **needed.get(name, {}), seed=3))
        assert 20 < len(entry.summary) < 121
    with pytest.raises(InvalidInput, match=r"^partition = 'dirichelt': must be one of .*did you mean 'dirichlet'"):
        find("dirichelt")


def test_the_page_names_every_partitioner_and_its_arguments():
    page = (Path(__file__).resolve().parents[2] / "docs" / "partitions.md").read_text("utf-8")
    for name, entry in CATALOGUE.items():
        section = page.split(f"### {name}\n")[1].split("\n### ")[0]
        for argument in inspect.signature(entry.build).parameters:
            assert f"`{argument}`" in section or f"{argument} = " in section, (name, argument)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: dirichlet([0, 1], 2, 0.0), "concentration = 0.0: must be positive and finite"),
        (lambda: dirichlet([0, 1], 2, float("nan")), "concentration = nan: must be positive and finite"),
        (lambda: dirichlet([0, 1], 3, 1.0),
         "clients = 3: must be at most 2: 2 samples, 1 or more for each client (smallest)"),
        (lambda: dirichlet([0, 1], 0, 1.0), "clients = 0: must be 1 or more"),
        (lambda: dirichlet([[0, 1]], 1, 1.0), "shape of labels = (1, 2): must be (samples,), one or more"),
        (lambda: dirichlet([0, 1], 1, 1.0, smallest=-1), "smallest = -1: must be 0 or more"),
        (lambda: dirichlet([0, 1], 3, 1.0, equal=True),
         "clients = 3: must be at most 2: 2 samples, 1 or more for each client (smallest)"),
        (lambda: iid([0, 1], 3), "labels = '2 samples': must be at least 3: one for each client"),
        (lambda: iid([0, 1], 0), "clients = 0: must be 1 or more"),
        (lambda: iid([], 1), "shape of labels = (0,): must be (samples,), one or more"),
        (lambda: iid([0, 1], 1, seed=-1), "seed = -1: must be 0 or more"),
        (lambda: label_skew([0, 1], 1, 3), "classes = 3: must be in 1 … 2: the labels' classes"),
        (lambda: power_law([0, 1], 1, -1.0), "exponent = -1.0: must be 0 or more, and finite"),
        (lambda: clustered([0, 1], 2, 3), "clusters = 3: must be in 1 … 2: one client or more in each"),
        (lambda: clustered([0, 1], 2, 2, 0.0), "concentration = 0.0: must be positive and finite"),
        (lambda: clustered([0, 1], 2, 2, within=0.0), "concentration = 0.0: must be positive and finite"),
        (lambda: rare_pattern([0, 1], 2, (1,), 2), "rare = 2: must be in 1 … 1: some of the 2 clients, not all"),
        (lambda: rare_pattern([0, 0, 1], 4, (1,), 2),
         "pattern = [1]: must be classes with enough samples: 1 of the pattern are too few for 2 clients"),
        (lambda: super_clusters([0, 1], 2, 1.0, "mnist"),
         "groups = 'mnist': must be lists of classes, or one of cifar10, fashion_mnist, stl10"),
        (lambda: super_clusters([0, 1], 2, 1.0, [[0], [0, 1]]), "groups = [[0], [0, 1]]: must be disjoint"),
        (lambda: super_clusters([0, 1, 2], 2, 1.0, [[0], [1]]),
         "groups = [[0], [1]]: must be groups that contain every class: [2] is in none"),
        (lambda: super_clusters([0, 1], 1, 1.0, [[0], [1]]), "clients = 1: must be 2 or more: one for each group"),
        (lambda: super_clusters([0, 1], 2, 1.0, [[0], [1]]),
         "group 0 of classes [0]: clients = 1: must be at most 0: 1 samples, 15 or more for each client (smallest)"),
        (lambda: super_clusters([0, 1], 2, 1.0, "cifar100"),
         "groups = 'cifar100': the published five groups have 4, 7, 79, 6 and 4 classes, but which ones is not known; "
         "give the groups as lists of classes"),
    ],
)  # fmt: skip
def test_errors_name_field_value_and_what_is_allowed(call, line):
    with pytest.raises(FedtideError) as caught:
        call()
    assert str(caught.value) == line
