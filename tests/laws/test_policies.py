"""Laws that every participation policy keeps. A new policy is one line in `parts`; its claim, if any, one in CLAIMS."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.parts import POLICIES

from fedtide import participation as p
from fedtide.streams import Purpose, Stream
from fedtide.types import Cohort, Estimate, Observation, Population, Updates

ROUNDS, CLIENTS = 16, 8


class Renamed(NamedTuple):
    """The random numbers of a round under other client names."""

    stream: Stream
    names: jax.Array

    def uniform(self, client, count=None, start=0):
        return self.stream.uniform(self.names[client], count, start)


class World(NamedTuple):
    """A population and what is seen of it, round after round."""

    population: Population
    available: np.ndarray  # [T, N]
    estimate: Estimate  # [T, N]
    loss: np.ndarray  # [T, N]
    names: np.ndarray  # [N] whose random numbers a client has

    def permuted(self, order):
        labels = self.population.labels[order]
        others = jax.tree.map(lambda a: a[..., order], self._replace(population=self.population._replace(labels=None)))
        return others._replace(population=others.population._replace(labels=labels))


def make_world():
    rng = np.random.default_rng(0)
    alpha = np.arange(1.0, CLIENTS + 1)
    pi, lam = rng.uniform(0.1, 0.9, CLIENTS), rng.uniform(-0.1, 0.9, CLIENTS)
    truth = Population(
        alpha / alpha.sum(), np.full(CLIENTS, 10), pi, lam, rng.uniform(0, 0.1, CLIENTS), rng.random((CLIENTS, 3))
    )
    available = rng.random((ROUNDS, CLIENTS)) < pi
    available[0] = [1, 1, 0, 1, 1, 1, 0, 1]
    available[5] = available[9] = False  # nobody
    available[6] = True
    drift = rng.uniform(0.9, 1.0, (ROUNDS, CLIENTS))
    loss = rng.uniform(0.2, 2.0, (ROUNDS, CLIENTS))
    return World(truth, available, Estimate(pi * drift, lam * drift), loss, np.arange(CLIENTS))


WORLD = make_world()


def ask(policy, state, seen, loss):
    """What the policy sees, with the losses of its candidates where it wants them."""
    if not policy.needs_losses:
        return seen
    asked = policy.candidates(state, seen)
    return seen._replace(asked=asked, loss=jnp.where(asked, loss, 0))


def decide_all(policy, world):
    """The decisions of all rounds."""
    state = policy.init(world.population)
    if isinstance(policy, p.RateTracking):  # its start is full of ties, which go by index
        state = world.population.availability

    def one(state, inputs):
        t, available, estimate, loss = inputs
        stream = Renamed(Stream(7, Purpose.PARTICIPATION, t), world.names)
        nobody = available & False
        unasked = Observation(available, estimate, 0 * loss, nobody, t, stream, world.population)
        decision, state = policy.decide(state, ask(policy, state, unasked, loss))
        cohort = Cohort(jnp.arange(len(loss)), decision.invited, decision.weight, world.population.importance)
        sent = jnp.where(decision.invited, loss, 0)
        return policy.learn(state, cohort, Updates(sent[:, None], sent, sent, sent, sent)), decision

    inputs = (jnp.arange(len(world.available)), world.available, world.estimate, world.loss)
    return jax.lax.scan(one, state, inputs)[1]


@pytest.fixture(scope="module", params=POLICIES)
def policy(request):
    return POLICIES[request.param]


@pytest.fixture(scope="module")
def decisions(policy, haste):
    return jax.tree.map(np.asarray, jax.jit(decide_all, compiler_options=haste)(policy, WORLD))


def test_invites_only_the_available_and_gives_the_others_no_weight(decisions):
    assert not (decisions.invited & ~WORLD.available).any()
    assert (decisions.weight[~decisions.invited] == 0).all()
    assert (decisions.weight >= 0).all()
    assert decisions.weight.any(axis=1)[WORLD.available.any(axis=1)].any()


def test_an_empty_round_is_harmless(decisions):
    assert np.isfinite(decisions.weight).all()
    assert not WORLD.available[[5, 9]].any()
    assert not decisions.invited[[5, 9]].any()


def test_invites_no_more_than_it_says(policy, decisions):
    for invited, available in zip(decisions.invited, WORLD.available, strict=True):
        assert invited.sum() <= policy.capacity(int(available.sum()))
    assert policy.capacity(0) == 0


def test_names_do_not_matter_and_vmap_changes_nothing(policy, decisions, haste):
    order = np.array([3, 1, 7, 0, 5, 2, 6, 4])
    if isinstance(policy, p.CyclicGroups):  # groups are of consecutive clients: they change places within theirs
        order = np.array([3, 1, 0, 2, 7, 5, 6, 4])
    worlds = jax.tree.map(lambda a, b: np.stack([a, b]), WORLD, WORLD.permuted(order))
    both = jax.jit(jax.vmap(decide_all, in_axes=(None, 0)), compiler_options=haste)
    invited, weight = both(policy, worlds)
    np.testing.assert_array_equal(invited[0], decisions.invited)
    np.testing.assert_allclose(weight[0], decisions.weight, rtol=1e-6)
    np.testing.assert_array_equal(invited[1], decisions.invited[:, order])
    np.testing.assert_allclose(weight[1], decisions.weight[:, order], rtol=1e-5)


ALPHA = np.array([0.1, 0.2, 0.3, 0.4])
EVEN = np.full(4, 0.25)
UNEQUAL = np.array([0.9, 0.1, 0.5, 0.3])
EQUAL = np.full(4, 0.4)
ALWAYS = np.ones(4)

CLAIMS = {
    "unbiased": (p.Unbiased(), ALPHA, UNEQUAL),
    "correlation-aware, κ̄² = ∞": (p.CorrelationAware(np.inf), ALPHA, UNEQUAL),
    "most available, all of them": (p.MostAvailable(1.0), ALPHA, UNEQUAL),
    "subsample of unbiased": (p.Subsample(p.Unbiased(), 2), ALPHA, UNEQUAL),
    "sample, then unbiased": (p.SampleFirst(p.Unbiased(), 2), ALPHA, UNEQUAL),
    "everyone, fixed weights": (p.Everyone(weights="fixed"), ALPHA, EQUAL),
    "everyone, always there": (p.Everyone(), ALPHA, ALWAYS),
    "uniform sample, scaled": (p.UniformSample(2, "scaled"), ALPHA, EQUAL),
    "uniform sample, equal": (p.UniformSample(2), EVEN, EQUAL),
    "sample with replacement": (p.SampleWithReplacement(3), ALPHA, ALWAYS),
    "separated, nobody waits": (p.Separated(), EVEN, ALWAYS),
    "highest loss of equal ones": (p.HighestLoss(2, pool=2), EVEN, ALWAYS),
    "lowest loss of equal ones": (p.LowestLoss(2, pool=2), EVEN, ALWAYS),
    "least recent, from the start": (p.LeastRecent(2), EVEN, ALWAYS),
    "normalised inverse": (p.NormalisedInverse(), EVEN, EQUAL),
    "rate tracking, all invited": (p.RateTracking(4), EVEN, ALWAYS),
}
"""When a policy says that E[q_k 1{k invited}] ∝ α_k: the policy, α, and the clients' independent availability π."""


@jax.jit
def weights_by_pattern(policy, alpha, pi, patterns, streams):
    """q [patterns, streams, N] of a fresh policy with the true π."""
    population = Population(alpha, jnp.full(4, 10), pi, jnp.zeros(4))

    def one(available, t):
        stream, state = Stream(11, Purpose.PARTICIPATION, t), policy.init(population)
        nothing, nobody = jnp.zeros(4), available & False
        seen = Observation(available, Estimate(pi, nothing), nothing, nobody, t, stream, population)
        return policy.decide(state, ask(policy, state, seen, jnp.ones(4)))[0].weight

    return jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None))(patterns, streams)


PATTERNS = np.array(list(itertools.product([False, True], repeat=4)))


def expected_weights(policy, alpha, pi):
    """q [draws, N], averaged over who is there (exactly), for 2,000 draws of the policy's own random numbers."""
    q = np.asarray(weights_by_pattern(policy, alpha, pi, PATTERNS, np.arange(2000)), np.float64)
    return np.einsum("a,ark->rk", np.where(PATTERNS, pi, 1 - pi).prod(axis=1), q)


def bias(policy, alpha, pi):
    """E[q_k − α_k Σ q], which is 0 for all k if and only if E[q] ∝ α; and the standard error of its measurement."""
    q = expected_weights(policy, alpha, pi)
    excess = q - alpha * q.sum(axis=1, keepdims=True)
    return np.abs(excess.mean(axis=0)), excess.std(axis=0) / np.sqrt(len(q))


@pytest.mark.parametrize("claim", CLAIMS)
def test_who_claims_to_be_unbiased_is(claim):
    measured, error = bias(*CLAIMS[claim])
    # Deterministic policies are checked exactly (error 0); the others within 5 standard errors: one that is unbiased
    # fails with probability below 1e-5.
    np.testing.assert_array_less(measured, 5 * error + 1e-7)
    assert expected_weights(*CLAIMS[claim]).mean(axis=0).min() > 0.03


@pytest.mark.parametrize(
    ("policy", "alpha", "pi"),
    [
        (p.Everyone(weights="fixed"), ALPHA, UNEQUAL),
        (p.Everyone(), ALPHA, EQUAL),
        (p.NormalisedInverse(), EVEN, UNEQUAL),
        (p.NormalisedInverse(), ALPHA, EQUAL),
        (p.UniformSample(2, "ratio"), ALPHA, ALWAYS),
        (p.MostAvailable(0.5), EVEN, UNEQUAL),
    ],
)
def test_the_measurement_finds_bias(policy, alpha, pi):
    measured, error = bias(policy, alpha, pi)
    assert (measured > 5 * error + 0.01).any()


def test_fixed_weights_weigh_clients_by_their_availability():
    mean = expected_weights(p.Everyone(weights="fixed"), ALPHA, UNEQUAL).mean(axis=0)
    np.testing.assert_allclose(mean, ALPHA * UNEQUAL, rtol=1e-6)
