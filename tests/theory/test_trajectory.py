import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide.errors import InvalidInput
from fedtide.participation import correlation_aware_weights
from fedtide.theory import (
    QuadraticFamily,
    bias,
    exclusions,
    expected_weights,
    overtaking,
    predicted_path,
    presence,
    settled_exclusions,
    stationary_variance,
)

CLIENTS, D = 10, 3
PI = np.where(np.arange(CLIENTS) < 5, 0.9, 0.2)
LAM = np.where(np.arange(CLIENTS) % 2, 0.8, 0.0)
ALPHA = np.full(CLIENTS, 0.1)


@pytest.fixture(scope="module")
def family(quadratics):
    return quadratics(CLIENTS, D, seed=7)


def test_presence():
    seen = presence([0.1, 0.5], [0.9, 0.0])
    np.testing.assert_allclose(seen.absent_run, [100, 2])
    np.testing.assert_allclose(seen.present_run, [1 / 0.09, 2])
    np.testing.assert_allclose(seen.inflation, [19, 1])


def test_expected_weights():
    fixed = expected_weights(ALPHA, PI, normalised=False)
    np.testing.assert_allclose(fixed.importance, PI / PI.sum())
    adafed = expected_weights(ALPHA / PI, PI, normalised=True)
    assert adafed.importance[0] > 0.1 > adafed.importance[-1]


POLICIES = {
    "fixed": (ALPHA, False),
    "unbiased": (ALPHA / PI, False),
    "adafed": (ALPHA / PI, True),
    "ratio": (ALPHA, True),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_runs_end_at_the_predicted_optimum_within_the_predicted_spread(family, simulate, policy):
    """The mean of 400 independent runs lies within four standard errors (of the predicted spread) of the prediction,
    plus what is of second order in the step; a correct program fails for fewer than 1 in 10³ seeds each."""
    score, normalised = POLICIES[policy]
    rate, steps, runs = 0.02, 2, 400
    weight = expected_weights(score, PI, normalised).weight
    moves = family.after_local_steps(rate, steps)
    around = stationary_variance(family, ALPHA, weight / PI, PI, LAM, rate * steps, dynamics=moves)
    ends = moves.minimise(weight)
    done = simulate(
        family, score, PI, LAM, np.full(400, rate), local_steps=steps, start=ends, runs=runs, normalised=normalised
    ).models[-1]  # fmt: skip
    away = done.mean(0) - ends
    second_order = 0.05 * around.distance
    assert np.linalg.norm(away - around.shift) <= 4 * around.distance / np.sqrt(runs) + second_order
    spread = np.sqrt(((done - done.mean(0)) ** 2).sum(1).mean())
    assert spread == pytest.approx(around.distance, rel=0.25)
    # The spread is small against the bias, so that the limit is this one and not the true optimum.
    if policy in ("fixed", "ratio"):
        assert np.linalg.norm(ends - family.minimise(ALPHA)) > 5 * around.distance / np.sqrt(runs)


def test_the_limit_is_the_biased_optimum_up_to_client_drift(family):
    weight = expected_weights(ALPHA, PI, normalised=False)
    found = bias(family, ALPHA, weight.importance)
    for rate in (1e-2, 1e-3):
        drifted = family.after_local_steps(rate, 5).minimise(weight.weight)
        assert np.linalg.norm(drifted - found.optimum) < 5 * rate


def test_the_path_is_that_of_the_mean_run(family, simulate):
    """Means of 1,500 runs at several rounds, within 10 % (Monte Carlo error about 2 %; second order in the step)."""
    rate, rounds = 0.03, 200
    path = predicted_path(family, ALPHA, ALPHA / PI, PI, LAM, np.full(D, 1.5), rate, rounds)
    models = simulate(
        family, ALPHA / PI, PI, LAM, np.full(rounds, rate), start=np.full(D, 1.5), runs=1500
    ).models  # fmt: skip
    lowest = ALPHA @ family.values(family.minimise(ALPHA))
    for t in (0, 5, 20, 60, 200):
        error = np.mean([ALPHA @ family.values(w) for w in models[t]]) - lowest
        assert path.error[t] == pytest.approx(error, rel=0.1)
    assert path.bias == pytest.approx(0, abs=1e-12)


def test_the_path_of_weights_that_are_shared(family, simulate):
    """Far from the limit all gradients are similar, so shared weights remove most of the noise (as above, 10 %)."""
    rate, rounds, start = 0.03, 60, np.full(D, 6.0)
    weight = expected_weights(ALPHA, PI, normalised=True).weight
    numbers = (family, ALPHA, weight / PI, PI, LAM, start, rate, rounds)
    path = predicted_path(*numbers, shared=weight / PI)
    models = simulate(family, ALPHA, PI, LAM, np.full(rounds, rate), start=start, runs=1500, normalised=True).models
    spread = np.sqrt(((models[-1] - models[-1].mean(0)) ** 2).sum(1).mean())
    assert path.spread == pytest.approx(spread, rel=0.1)
    assert predicted_path(*numbers).spread > 1.5 * spread  # as if they were not shared


def test_gradient_noise_is_in_the_stationary_variance(quadratics, simulate):
    plain = quadratics(CLIENTS, D, seed=7)
    sigma, rate, steps = 1.5, 0.02, 2
    noisy = QuadraticFamily(plain.hessians, plain.centres, np.tile(sigma**2 / D * np.eye(D), (CLIENTS, 1, 1)))
    around = stationary_variance(noisy, ALPHA, ALPHA, np.ones(CLIENTS), np.zeros(CLIENTS), rate * steps, samples=steps)
    done = simulate(plain, ALPHA, 1.0, 0.0, np.full(400, rate), local_steps=steps, sigma=sigma, runs=400).models[-1]
    # 400 runs of 3 numbers: the spread's relative error is about 3 %, and the first-order error as much.
    assert np.sqrt(((done - done.mean(0)) ** 2).sum(1).mean()) == pytest.approx(around.distance, rel=0.12)
    assert stationary_variance(plain, ALPHA, ALPHA, np.ones(CLIENTS), np.zeros(CLIENTS), 0.04).distance == 0


def test_the_path_settles_in_the_stationary_variance(family):
    q, step = ALPHA / PI, 0.05
    around = stationary_variance(family, ALPHA, q, PI, LAM, step)
    path = predicted_path(family, ALPHA, q, PI, LAM, np.ones(D), step, 1500)
    assert path.variance[-1] == pytest.approx(around.excess, rel=1e-6)
    assert path.spread == pytest.approx(around.distance, rel=1e-6)
    assert np.trace(around.covariance) == pytest.approx(around.distance**2)


def test_clients_that_come_together(family):
    """Five pairs that share a chain: the spread of runs is that of five clients with the sum of both updates."""
    pairs, rate = np.arange(CLIENTS) // 2, 0.03
    pi, lam = np.full(CLIENTS, 0.4), np.full(CLIENTS, 0.5)
    numbers = (family, ALPHA, ALPHA / pi, pi, lam, family.minimise(ALPHA), rate, 300)
    path = predicted_path(*numbers, together=pairs, record=[0, 100])
    assert path.rounds.tolist() == [0, 100, 300]
    random, runs = np.random.default_rng(0), 600
    w, here = np.tile(family.minimise(ALPHA), (runs, 1)), random.random((runs, 5)) < 0.4
    for _ in range(300):
        gradients = np.einsum("kij,rkj->rki", family.hessians, w[:, None] - family.centres)
        w = w - rate * np.einsum("rk,rki->ri", here[:, pairs] * ALPHA / pi, gradients)
        here = random.random((runs, 5)) < 0.2 + 0.5 * here
    # 600 runs of 3 numbers: relative Monte Carlo error about 3 %, and first-order error about as much.
    spread = np.sqrt(((w - w.mean(0)) ** 2).sum(1).mean())
    assert path.spread == pytest.approx(spread, rel=0.12)
    assert abs(predicted_path(*numbers, record=[0]).spread / spread - 1) > 0.2  # as if they were independent


def test_what_correlation_costs(family):
    """As steps shrink, the stationary variance grows by (1+λ)/(1−λ), and is proportional to the step."""
    q = ALPHA / PI
    for step in (1e-3, 5e-4):
        without, with_it = (
            stationary_variance(family, ALPHA, q, PI, np.full(CLIENTS, lam), step).excess for lam in (0.0, 0.8)
        )
        assert with_it / without == pytest.approx(1.8 / 0.2, rel=0.02)
    small, large = (stationary_variance(family, ALPHA, q, PI, LAM, step).excess for step in (1e-4, 2e-4))
    assert large / small == pytest.approx(2, rel=0.01)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 0.3, 1.0, 10.0]), st.booleans())
@settings(deadline=None, max_examples=60)
def test_exclusions_are_those_of_the_library(seed, kappa_squared, strict):
    random = np.random.default_rng(seed)
    clients = 12
    alpha, gap = random.dirichlet(np.ones(clients)), random.exponential(size=clients)
    pi, lam = random.choice([0.1, 0.5, 0.9], clients), random.choice([0.0, 0.5, 0.9], clients)
    threshold = random.choice([0.0, 0.01])
    found = exclusions(alpha, pi, lam, gap, kappa_squared, threshold, strict)
    theirs = correlation_aware_weights(alpha, pi, lam, gap, kappa_squared, threshold, strict=strict)
    np.testing.assert_array_equal(found.kept, theirs > 0)
    last = {trial.client: trial.excluded for trial in found.trials}
    assert all(found.kept[client] != excluded for client, excluded in last.items())


def test_the_two_sides_of_a_trial():
    """By hand: α = (½, ½), gaps (0.1, 0.4), κ̄² = ¼: dropping client 1 gains 0.15 and costs 0.4 · ¼ = 0.1."""
    found = exclusions([0.5, 0.5], [0.9, 0.1], [0.0, 0.9], [0.1, 0.4], 0.25)
    trial = found.trials[0]
    assert (trial.client, trial.sweep, trial.excluded) == (1, "correlation", True)
    assert trial.faster == pytest.approx(0.15)
    assert trial.biased == pytest.approx(0.1)
    assert found.kept.tolist() == [True, False]
    assert exclusions([0.5, 0.5], [0.9, 0.1], [0.0, 0.9], [0.1, 0.4], 1.0).kept.all()


def test_settled_exclusions(family):
    everyone = settled_exclusions(family, ALPHA, PI, LAM, kappa_squared=1e6)
    assert everyone.kept.all()
    assert everyone.settled
    few = settled_exclusions(family, ALPHA, PI, LAM, kappa_squared=0.0)
    assert few.settled
    assert 1 <= few.kept.sum() < CLIENTS
    np.testing.assert_allclose(few.gap, family.values(family.minimise(np.where(few.kept, ALPHA, 0))))


def test_overtaking():
    slow, fast = np.array([3.0, 2.0, 1.0, 0.5, 0.1]), np.array([3.0, 1.0, 0.9, 0.8, 0.8])
    found = overtaking(("slow", slow), ("fast", fast))
    assert found == ("slow", "fast", 3)
    assert overtaking(("a", fast - 0.1), ("b", fast)) == ("a", "b", None)


def test_bad_input(family):
    with pytest.raises(InvalidInput, match="or training diverges"):
        stationary_variance(family, ALPHA, ALPHA / PI, PI, LAM, 10.0)
    with pytest.raises(InvalidInput, match="rounds"):
        predicted_path(family, ALPHA, ALPHA, PI, LAM, np.zeros(D), 0.1, 0)


def test_a_path_that_diverges_says_so(family):
    path = predicted_path(family, ALPHA, ALPHA / PI, PI, LAM, np.ones(D), 5.0, 200, variance=False)
    assert not path.error[-1] < 1e6
