"""Selection of low losses: whom it picks, and that it is the mirror image of power of choice."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedtide
from fedtide import methods
from fedtide.availability import Bernoulli
from fedtide.errors import InvalidInput
from fedtide.participation import HighestLoss, LowestLoss
from fedtide.problems.quadratic import quadratic
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population
from fedtide.work import Steps

LOSS = np.array([0.5, 2.0, 1.0, 3.0, 0.1, 2.5])


@jax.jit
def draw(policy, loss, available, rounds):
    """(candidates, invited, weights) of many rounds."""
    population = Population(jnp.full(6, 1 / 6), jnp.ones(6))
    unknown = jnp.full(6, jnp.nan)

    def one(t):
        stream, nobody = Stream(5, Purpose.PARTICIPATION, t), jnp.zeros(6, bool)
        seen = Observation(available, Estimate(unknown, unknown), unknown, nobody, t, stream, population)
        asked = policy.candidates((), seen)
        decision, _ = policy.decide((), seen._replace(asked=asked, loss=jnp.where(asked, loss, 0)))
        return asked, decision.invited, decision.weight

    return jax.vmap(one)(rounds)


def test_the_smallest_losses_of_the_candidates():
    asked, invited, weight = draw(LowestLoss(2), LOSS, np.ones(6, bool), np.arange(20))
    assert np.asarray(asked).all()
    np.testing.assert_array_equal(invited, np.tile([1, 0, 0, 0, 1, 0], (20, 1)))
    np.testing.assert_array_equal(weight, np.tile([0.5, 0, 0, 0, 0.5, 0], (20, 1)))
    few, invited, weight = draw(LowestLoss(3, 4), LOSS, np.array([0, 1, 0, 0, 1, 0], bool), np.arange(3))
    np.testing.assert_array_equal(few, invited)
    np.testing.assert_array_equal(weight, np.tile([0, 0.5, 0, 0, 0.5, 0], (3, 1)))


def test_it_is_power_of_choice_with_the_opposite_losses():
    for available in (np.ones(6, bool), LOSS > 0.3):
        for loss in (LOSS, np.ones(6)):  # ties are broken alike
            lowest = draw(LowestLoss(2, 3), loss, available, np.arange(50))
            highest = draw(HighestLoss(2, 3), -loss, available, np.arange(50))
            jax.tree.map(np.testing.assert_array_equal, lowest, highest)
    assert (np.asarray(lowest[1]).sum(axis=0)[LOSS > 0.3] > 0).all()


def test_losses_that_are_not_finite_come_last():
    loss = np.array([np.nan, 2.0, np.inf, 3.0, np.nan, 2.5])
    _, invited, _ = draw(LowestLoss(3), loss, np.ones(6, bool), np.arange(20))
    np.testing.assert_array_equal(invited, np.tile([0, 1, 0, 1, 0, 1], (20, 1)))


def test_capacities():
    assert (LowestLoss(2, 4).query_capacity(9), LowestLoss(2, 4).query_capacity(3)) == (4, 3)
    assert (LowestLoss(2).query_capacity(9), LowestLoss(2).capacity(9), LowestLoss(2).capacity(1)) == (9, 2, 1)


def test_it_leaves_out_clients_whose_data_contradict_the_others():
    """Three of ten clients have their optimum elsewhere; FedAvg ends between, the selection with the majority."""
    centres = np.random.default_rng(0).normal(1, 0.1, (10, 2))
    others = np.isin(np.arange(10), (2, 5, 6))
    centres[others] = -4
    method = methods.lowest_loss(clients=4, candidates=10, work=Steps(2, 1))
    problem = quadratic(np.ones(10), centres)
    found = fedtide.simulate(problem, Bernoulli([0.9] * 10), method, rounds=40, seeds=2, evaluate_every=40)
    assert not found.clients.filter(found.clients["client"].is_in((2, 5, 6)))["invited"].any()
    np.testing.assert_allclose(found.models["Lowest loss"], 1, atol=0.2)
    assert found.rounds.filter(found.rounds["round"] == 40)["skew"].max() < 0.1
    assert np.abs(problem.optimum() - 1).min() > 1


@pytest.mark.parametrize(
    ("bad", "field"), [({"clients": 0}, "clients"), ({"pool": 0}, "pool"), ({"clients": 5, "pool": 4}, "pool")]
)
def test_errors_name_the_bad_field(bad, field):
    with pytest.raises(InvalidInput, match=rf"^participation\.{field} = "):
        LowestLoss(**bad)
    assert replace(LowestLoss(), clients=3).clients == 3
