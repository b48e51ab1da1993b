"""The policies that fit in a line, with numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.participation import (
    CorrelationAware,
    Everyone,
    LeastAvailable,
    MostAvailable,
    NormalisedInverse,
    RateTracking,
    SampleFirst,
    SampleWithReplacement,
    Subsample,
    Unbiased,
    UniformSample,
)
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population

ALPHA = np.array([0.5, 0.25, 0.125, 0.125], np.float32)
PI = np.array([0.5, 0.25, 0.5, 1.0], np.float32)


@jax.jit
def decide(policy, available, t=0):
    none, population = jnp.zeros(4), Population(jnp.asarray(ALPHA), jnp.ones(4))
    stream = Stream(3, Purpose.PARTICIPATION, t)
    estimate, nobody = Estimate(jnp.asarray(PI), none), jnp.zeros(4, bool)
    seen = Observation(jnp.asarray(available, bool), estimate, none, nobody, 0, stream, population)
    return policy.decide(policy.init(population), seen)[0]


@pytest.mark.parametrize(
    ("policy", "available", "invited", "weight"),
    [
        (Everyone(), [1, 0, 1, 1], [1, 0, 1, 1], [2 / 3, 0, 1 / 6, 1 / 6]),
        (Everyone(weights="fixed"), [1, 0, 1, 1], [1, 0, 1, 1], [0.5, 0, 0.125, 0.125]),
        (Unbiased(), [1, 1, 0, 1], [1, 1, 0, 1], [1, 1, 0, 0.125]),
        (MostAvailable(0.5), [1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 0.125]),  # 0 and 2 tie: the lower index
        (MostAvailable(0.6), [1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 0.25, 0.125]),  # 2.4 clients are three
        (MostAvailable(0.5), [0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0.125]),
        (MostAvailable(1.0), [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0.25, 0.125]),
        (UniformSample(4), [1, 0, 1, 0], [1, 0, 1, 0], [0.5, 0, 0.5, 0]),
        (UniformSample(4, "scaled"), [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0.25, 0]),
        (UniformSample(4, "ratio"), [1, 0, 1, 0], [1, 0, 1, 0], [0.8, 0, 0.2, 0]),
        (Everyone("equal"), [1, 0, 1, 0], [1, 0, 1, 0], [0.5, 0, 0.5, 0]),
        (Everyone("scaled"), [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0.25, 0]),
        (UniformSample(4, "fixed"), [1, 0, 1, 0], [1, 0, 1, 0], [0.5, 0, 0.125, 0]),
        (SampleWithReplacement(5), [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]),
        (SampleWithReplacement(5), [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]),
        (UniformSample(9), [1, 1, 1, 1], [1, 1, 1, 1], [0.25] * 4),  # more than there are
        (Subsample(Unbiased(), 4), [1, 1, 0, 1], [1, 1, 0, 1], [1, 1, 0, 0.125]),
        (Subsample(MostAvailable(0.5), 9), [1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 0.125]),
        (SampleFirst(Unbiased(), 4), [1, 1, 0, 1], [1, 1, 0, 1], [1, 1, 0, 0.125]),
        (SampleFirst(MostAvailable(0.5), 9), [1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 0.125]),
        # α/π = (1, 1, .25, .125): the first of a tie, in any order of the squares
        (LeastAvailable(1), [1, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0]),
        (LeastAvailable(2), [0, 1, 1, 1], [0, 1, 1, 0], [0, 1, 0.25, 0]),
        # r = (1 + π)/2 = (.75, .625, .75, 1)
        (LeastAvailable(9, smoothing=0.5), [1, 1, 0, 1], [1, 1, 0, 1], [2 / 3, 0.4, 0, 0.125]),
    ],
)
def test_by_hand(policy, available, invited, weight):
    decision = decide(policy, np.array(available))
    np.testing.assert_array_equal(decision.invited, np.array(invited, bool))
    np.testing.assert_allclose(decision.weight, weight, rtol=1e-6)


@pytest.mark.parametrize("policy", [UniformSample(2), Subsample(Everyone(weights="fixed"), 2)])
def test_a_sample_has_the_right_size_and_every_client_the_same_chance(policy):
    decisions = jax.jit(jax.vmap(lambda t: decide(policy, np.array([1, 1, 0, 1]), t)))(np.arange(3000))
    invited = np.asarray(decisions.invited)
    assert (invited.sum(axis=1) == 2).all()
    # A share of 2/3 in 3,000 draws has a standard error of .0086; the band is 5 of them (error rate below 1e-5).
    np.testing.assert_allclose(invited.mean(axis=0), [2 / 3, 2 / 3, 0, 2 / 3], atol=0.043)


def test_a_subsamples_weights_grow_by_what_was_left_out():
    weight = np.asarray(decide(Subsample(Everyone(weights="fixed"), 2), np.array([1, 1, 1, 1])).weight)
    np.testing.assert_allclose(weight[weight > 0], (ALPHA * 2)[weight > 0])


def test_a_subsample_draws_other_numbers_than_the_policy_it_wraps():
    # If both ranked clients by the same numbers, one of one would always be the first of the inner sample of two.
    def both(t):
        alone = decide(UniformSample(1), np.ones(4), t).invited
        nested = decide(Subsample(UniformSample(2), 1), np.ones(4), t).invited
        return (alone & nested).any()

    # They agree half of the time; 400 draws have a standard error of .025, the band is 5 of them.
    assert abs(np.mean(jax.jit(jax.vmap(both))(np.arange(400))) - 0.5) < 0.125


def test_sampling_first_asks_and_invites_only_the_sampled():
    policy, available = SampleFirst(Unbiased(), 2), np.array([True, True, True, False])
    for t in range(20):
        none, nobody = jnp.zeros(4), jnp.zeros(4, bool)
        population = Population(ALPHA, np.ones(4))
        stream = Stream(3, Purpose.PARTICIPATION, t)
        seen = Observation(jnp.asarray(available), Estimate(PI, none), none, nobody, t, stream, population)
        asked = np.asarray(policy.candidates(policy.init(population), seen))
        decision = decide(policy, available, t)
        assert asked.sum() == 2
        assert (asked <= available).all()
        np.testing.assert_array_equal(decision.invited, asked)
        np.testing.assert_allclose(decision.weight, np.where(asked, ALPHA / PI * 3 / 2, 0))


def test_normalised_weights_stay_normalised_when_sampled_first():
    weight = np.asarray(decide(SampleFirst(NormalisedInverse(), 2), np.array([1, 1, 1, 1])).weight)
    assert (weight > 0).sum() == 2
    np.testing.assert_allclose(weight.sum(), 1, rtol=1e-6)


def test_both_samples_draw_different_numbers():
    def both(t):
        first = decide(SampleFirst(Everyone("equal"), 2), np.ones(4), t).invited
        last = decide(Subsample(Everyone("equal"), 2), np.ones(4), t).invited
        return (first == last).all()

    # Two samples of 2 of 4 agree in 1 of 6 cases; 600 draws have a standard error of .015, the band is 5 of them.
    assert abs(np.mean(jax.jit(jax.vmap(both))(np.arange(600))) - 1 / 6) < 0.076


def test_a_policy_that_counts_invitations_may_be_sampled_first_only():
    assert SampleFirst(RateTracking(2), 3).counts_invitations
    with pytest.raises(InvalidInput, match=r"participation\.policy = 'RateTracking'"):
        Subsample(RateTracking(2), 3)


def test_a_subsample_asks_for_losses_when_its_policy_does():
    assert Subsample(CorrelationAware(), 2).needs_losses
    assert not Subsample(Unbiased(), 2).needs_losses


@pytest.mark.parametrize(
    ("build", "line"),
    [
        (lambda: UniformSample(0), "participation.clients = 0: must be a whole number, 1 or more"),
        (
            lambda: UniformSample(1, "even"),
            "participation.weights = 'even': must be one of equal, fixed, ratio, scaled",
        ),
        (lambda: MostAvailable(0.0), "participation.fraction = 0.0: must be in (0, 1]"),
        (lambda: Subsample(Unbiased(), 0), "participation.clients = 0: must be a whole number, 1 or more"),
    ],
)
def test_errors_name_field_value_and_what_is_allowed(build, line):
    with pytest.raises(InvalidInput) as caught:
        build()
    assert str(caught.value) == line
