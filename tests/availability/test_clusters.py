import numpy as np
import pytest

from fedtide.availability import Clusters, Cyclic, Markov
from fedtide.errors import InvalidInput


def test_clients_of_a_cluster_share_its_chain():
    chains = Markov([0.9, 0.5, 0.1], [0.0, 0.5, 0.9])
    member = np.array([2, 0, 1, 0, 2])
    clusters = Clusters(chains, member)
    np.testing.assert_array_equal(clusters.sample(1, 200), chains.sample(1, 200)[:, member])
    np.testing.assert_array_equal(clusters.availability, [0.1, 0.9, 0.5, 0.9, 0.1])
    np.testing.assert_array_equal(clusters.correlation, [0.9, 0.0, 0.5, 0.0, 0.9])


def test_what_the_process_does_not_have_the_clusters_have_not():
    assert Clusters(Cyclic([0, 1]), [0, 1, 1]).correlation is None


@pytest.mark.parametrize(
    ("membership", "message"),
    [
        ([0, 3], r"membership\[1\] = 3: must be in 0 … 2"),
        ([-1, 0], r"membership\[0\] = -1"),
        ([0.5, 1.0], "membership = .*a whole number for each client"),
        ([], "membership"),
        ([[0, 1]], "membership"),
    ],
)
def test_bad_membership(membership, message: str):
    with pytest.raises(InvalidInput, match=message):
        Clusters(Markov([0.9, 0.5, 0.1], 0.0), membership)
