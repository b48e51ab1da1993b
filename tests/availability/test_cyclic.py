import numpy as np
import pytest

from fedtide.availability import Cyclic
from fedtide.errors import InvalidInput


def test_groups_take_turns():
    cyclic = Cyclic([0, 2, 1, 0])
    expected = np.array([[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]], bool)
    np.testing.assert_array_equal(cyclic.sample(0, 5), expected)
    np.testing.assert_allclose(cyclic.availability, 1 / 3)
    assert cyclic.correlation is None
    assert cyclic.classes() == ["group 0", "group 2", "group 1", "group 0"]


def test_a_turn_lasts_a_period():
    np.testing.assert_array_equal(Cyclic([0, 1], period=3).sample(0, 8)[:, 0], [1, 1, 1, 0, 0, 0, 1, 1])


@pytest.mark.parametrize(("clients", "groups"), [(6, 3), (7, 3), (5, 5), (4, 1), (100, 7)])
def test_equal_groups(clients: int, groups: int):
    cyclic = Cyclic(groups, clients=clients)
    assert cyclic.clients == clients
    sizes = np.bincount(np.asarray(cyclic.groups))
    assert len(sizes) == groups
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(cyclic.sample(0, groups).sum(0), 1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Cyclic(3), "groups = 3: must be the group of each client, or a number and `clients`"),
        (lambda: Cyclic(5, clients=4), "groups = 5: must be a number of groups from 1 to 4"),
        (lambda: Cyclic(1.5, clients=4), "groups = 1.5"),
        (lambda: Cyclic([0, 2]), r"without gaps: group \[1\] has no client"),
        (lambda: Cyclic([0, 1], clients=3), "one for each of 3 clients"),
        (lambda: Cyclic([0, -1]), r"groups\[1\] = -1: must be 0 or more"),
        (lambda: Cyclic([0, 1], period=0), "period = 0: must be 1 or more"),
    ],
)
def test_bad_groups(build, message: str):
    with pytest.raises(InvalidInput, match=message):
        build()
