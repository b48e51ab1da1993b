"""CA-Fed's exclusion against a plain transcription of its algorithm, and its memory of losses by hand."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedtide.errors import InvalidInput
from fedtide.participation import CorrelationAware, Everyone, Unbiased, correlation_aware_weights
from fedtide.streams import Purpose, Stream
from fedtide.types import Estimate, Observation, Population


def algorithm_1(alpha, pi, lam, gap, kappa_squared, threshold=0, strict=False):
    """The published algorithm in O(N²), with all sums made anew for each candidate. Any kind of number will do."""

    def error(q):
        total = sum(a * b for a, b in zip(pi, q, strict=True))
        p = [a * b / total for a, b in zip(pi, q, strict=True)]
        distance = sum(abs(a - b) for a, b in zip(alpha, p, strict=True)) / 2
        return sum(a * b for a, b in zip(p, gap, strict=True)) + 4 * kappa_squared * distance**2 * max(gap)

    clients = range(len(alpha))
    q = [a / b for a, b in zip(alpha, pi, strict=True)]
    now = error(q)
    for order in (sorted(clients, key=lambda k: -abs(lam[k])), sorted(clients, key=lambda k: pi[k])):
        for k in order:
            if sum(weight > 0 for weight in q) <= 1:
                break
            without = [0 if j == k else q[j] for j in clients]
            fall = now - error(without)
            if fall > threshold or (fall == threshold and not strict):
                q, now = without, error(without)
    return q


FEW = st.sampled_from([Fraction(n, 10) for n in (1, 2, 5, 9, 10)])
SIGNED = st.sampled_from([Fraction(n, 10) for n in (-9, -5, 0, 5, 9)])
GAPS = st.integers(-4, 8).map(lambda n: Fraction(n, 4))
THRESHOLDS = st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 64), Fraction(1, 8)])
KAPPAS = st.sampled_from([Fraction(*v) for v in ((0, 1), (1, 100), (1, 16), (1, 8), (1, 4), (1, 1), (10**12, 1))])
SETTINGS = st.tuples(KAPPAS, THRESHOLDS, st.booleans())  # κ̄², threshold, strict


@st.composite
def cases(draw):
    """Small fractions, so that ties in λ, in π, in gaps and in ε̂ abound."""
    size = draw(st.sampled_from([1, 3, 6]))  # with clients of importance 0: every size up to 6

    def vector(values):
        return draw(st.lists(values, min_size=size, max_size=size))

    parts = vector(st.integers(0, 5))
    parts[draw(st.integers(0, size - 1))] += 1
    alpha = [Fraction(part, sum(parts)) for part in parts]
    pi, lam, gap = vector(FEW), vector(SIGNED), vector(GAPS)
    return alpha, pi, lam, gap, draw(st.lists(SETTINGS, min_size=3, max_size=3))


THIRD, HALF = Fraction(1, 3), Fraction(1, 2)


ZERO, ONE = Fraction(0), Fraction(1)
SAME = ([THIRD] * 3, [HALF] * 3, [HALF] * 3)


@settings(max_examples=800, deadline=None, derandomize=True, database=None)
@given(cases())
@example((*SAME, [HALF] * 3, [(ZERO, ZERO, False), (ZERO, ZERO, True), (ONE, ZERO, False)]))  # all equal
@example((*SAME, [ZERO] * 3, [(ONE, ZERO, False), (ONE, ZERO, True)]))  # Γ̂ = 0
@example((*SAME, [-ONE, -2 * ONE, -3 * ONE], [(ONE, ZERO, False), (ONE, ZERO, True)]))  # losses below the optimum
def test_agrees_with_the_published_algorithm_in_exact_arithmetic(case):
    *vectors, settings = case
    floats = [np.array([float(v) for v in vector]) for vector in vectors]
    for kappa_squared, threshold, strict in settings:
        exact = algorithm_1(*vectors, kappa_squared, threshold, strict)
        q = correlation_aware_weights(*floats, float(kappa_squared), float(threshold), strict=strict)
        np.testing.assert_allclose(q, [float(v) for v in exact], rtol=1e-14, atol=0)


@pytest.mark.parametrize(("clients", "count"), [(3, 100), (12, 100), (50, 60), (200, 12)])
def test_agrees_with_the_published_algorithm_on_random_numbers(clients, count):
    rng = np.random.default_rng([0, clients])
    kept = []
    for _ in range(count):
        alpha = rng.dirichlet(np.ones(clients))
        pi, lam = rng.uniform(0.05, 1, clients), rng.uniform(-0.3, 1, clients)
        gap = rng.normal(1, 1, clients)
        kappa_squared = 10 ** rng.uniform(-3, 1)
        expected = vectorised_algorithm_1(alpha, pi, lam, gap, kappa_squared)
        np.testing.assert_allclose(correlation_aware_weights(alpha, pi, lam, gap, kappa_squared), expected, rtol=1e-14)
        kept.append((expected > 0).mean())
    assert 0 < np.min(kept) < 1
    assert len(np.unique(kept)) > 2


def vectorised_algorithm_1(alpha, pi, lam, gap, kappa_squared):
    """`algorithm_1` for many clients, in float64."""

    def error(q):
        p = pi * q / (pi @ q)
        return p @ gap + 4 * kappa_squared * (np.abs(alpha - p).sum() / 2) ** 2 * gap.max()

    q = alpha / pi
    for order in (np.argsort(-np.abs(lam), kind="stable"), np.argsort(pi, kind="stable")):
        for k in order:
            if (q > 0).sum() <= 1:
                break
            without = q.copy()
            without[k] = 0
            if error(q) - error(without) >= 0:
                q = without
    return q


def random_case(clients=20, seed=0):
    rng = np.random.default_rng([1, seed])
    return (
        rng.dirichlet(np.ones(clients)),
        rng.uniform(0.05, 1, clients),
        rng.uniform(-0.3, 1, clients),
        rng.random(clients),
    )


@pytest.mark.parametrize("kappa_squared", [np.inf, 1e12])
def test_a_large_price_of_bias_excludes_nobody_and_is_exactly_unbiased(kappa_squared):
    for seed in range(5):
        alpha, pi, lam, gap = random_case(seed=seed)
        np.testing.assert_array_equal(correlation_aware_weights(alpha, pi, lam, gap, kappa_squared), alpha / pi)


def test_no_price_of_bias_keeps_the_one_of_smallest_gap():
    for seed in range(5):
        alpha, pi, lam, gap = random_case(seed=seed)
        lam[:] = 0
        pi = np.sort(pi)
        gap = np.sort(gap)[::-1].copy()  # the sweep by π meets the largest gap first
        assert np.flatnonzero(correlation_aware_weights(alpha, pi, lam, gap, 0.0)).tolist() == [19]


def test_clients_without_importance_have_no_weight_and_change_nothing():
    alpha, pi, lam, gap = random_case()
    with_none = correlation_aware_weights(
        np.append(alpha, 0.0), np.append(pi, 0.01), np.append(lam, 1.0), np.append(gap, 0.5), 0.1
    )
    assert with_none[-1] == 0
    np.testing.assert_array_equal(with_none[:-1], correlation_aware_weights(alpha, pi, lam, gap, 0.1))


def test_importance_that_sums_to_one_up_to_rounding_is_taken_as_it_is():
    alpha, pi, lam, gap = random_case()
    single = alpha.astype(np.float32).astype(np.float64)
    q = correlation_aware_weights(single, pi, lam, gap, 0.1)
    kept = q > 0
    np.testing.assert_array_equal(kept, correlation_aware_weights(alpha, pi, lam, gap, 0.1) > 0)
    np.testing.assert_array_equal(q[kept], (single / pi)[kept])


def test_a_higher_threshold_keeps_whoever_a_lower_one_keeps_first_of_all():
    assert correlation_aware_weights([0.5, 0.5], [0.9, 0.1], [0.0, 0.9], [0.0, 1.0], 0.0).tolist() == [0.5 / 0.9, 0.0]
    # ε̂ falls from ½ to 0, by exactly ½.
    for threshold, strict, out in ((0.5, False, True), (0.5, True, False), (0.51, False, False), (0.49, True, True)):
        q = correlation_aware_weights([0.5, 0.5], [0.9, 0.1], [0.0, 0.9], [0.0, 1.0], 0.0, threshold, strict=strict)
        assert (q[1] == 0) == out


GOOD = {
    "importance": [0.5, 0.5],
    "availability": [0.5, 0.5],
    "correlation": [0.0, 0.0],
    "loss_gap": [1.0, 1.0],
    "kappa_squared": 1.0,
}


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ({"importance": [0.5, 0.6]}, "importance = array([0.5, 0.6]): must be ≥ 0 with sum 1"),
        ({"importance": [1.5, -0.5]}, "importance = array([ 1.5, -0.5]): must be ≥ 0 with sum 1"),
        ({"importance": [np.nan, 1.0]}, "importance = array([nan, 1.]): must be ≥ 0 with sum 1"),
        ({"importance": 1.0}, "importance = (): must be a vector, one entry per client"),
        ({"availability": [0.5, 0.0]}, "availability = array([0.5, 0. ]): must be in (0, 1]"),
        ({"availability": [0.5]}, "shape of availability = (1,): must be (2,), as importance"),
        ({"correlation": [0.0, 1.1]}, "correlation = array([0. , 1.1]): must be in [−1, 1]"),
        ({"loss_gap": [0.0, np.inf]}, "loss_gap = array([ 0., inf]): must be finite"),
        ({"kappa_squared": -1.0}, "kappa_squared = -1.0: must be 0 or more"),
        ({"kappa_squared": np.nan}, "kappa_squared = nan: must be a number, 0 or more"),
        ({"threshold": -1.0}, "threshold = -1.0: must be 0 or more"),
        ({"threshold": np.nan}, "threshold = nan: must be a finite number, 0 or more"),
    ],
)
def test_errors_name_field_value_and_what_is_allowed(bad, line):
    with pytest.raises(InvalidInput) as caught:
        correlation_aware_weights(**{**GOOD, **bad})
    assert str(caught.value) == line


@pytest.mark.parametrize(
    "bad",
    [{"kappa_squared": -1.0}, {"smoothing": 0.0}, {"smoothing": 1.1}, {"threshold": -1.0}, {"optimum": "running-min"}],
)
def test_the_part_names_the_bad_field(bad):
    (name,) = bad
    with pytest.raises(InvalidInput, match=rf"^participation\.{name} = "):
        CorrelationAware(**bad)


# The part: memory of losses.

ALPHA = np.array([0.5, 0.25, 0.25], np.float32)
PI = np.array([0.8, 0.5, 0.2], np.float32)
LAM = np.array([0.0, 0.5, 0.9], np.float32)
POPULATION = Population(jnp.asarray(ALPHA), jnp.ones(3))


@jax.jit
def decide(policy, state, available, loss, pi=PI, lam=LAM, population=POPULATION):
    available = jnp.asarray(available, bool)
    stream = Stream(0, Purpose.PARTICIPATION, 0)
    seen = Observation(available, Estimate(pi, lam), jnp.where(available, loss, 0), available, 0, stream, population)
    return policy.decide(state, seen)


def play(policy, rounds, optimum=None):
    """The states after each round of (available, losses), and the last decision."""
    population = POPULATION._replace(optimum=optimum)
    state, states, decision = policy.init(population), [], None
    for available, loss in rounds:
        decision, state = decide(
            policy, state, np.array(available, bool), np.array(loss, np.float32), population=population
        )
        states.append(state)
    return states, decision


NOBODY = ([0, 0, 0], [0, 0, 0])


@pytest.mark.parametrize("smoothing", [0.25, 1.0])
def test_smoothing_gives_beta_to_the_new_loss(smoothing):
    states, _ = play(CorrelationAware(1.0, smoothing), [([1, 1, 1], [4, 2, 1]), ([1, 0, 1], [8, 9, 3])])
    assert states[0].loss.tolist() == [4, 2, 1]
    assert states[1].loss.tolist() == [4 + smoothing * 4, 2, 1 + smoothing * 2]


def test_a_first_loss_replaces_the_placeholder_which_is_the_mean_of_the_first_non_empty_round():
    rounds = [NOBODY, ([1, 1, 0], [3, 1, 9]), NOBODY, ([1, 0, 0], [5, 0, 0]), ([0, 0, 1], [0, 0, 8])]
    states, _ = play(CorrelationAware(1.0, 0.5), rounds)
    assert not states[0].reported.any()
    assert states[1].loss.tolist() == [3, 1, 2]
    assert states[2].loss.tolist() == [3, 1, 2]
    assert states[3].loss.tolist() == [4, 1, 2]
    assert states[4].loss.tolist() == [4, 1, 8]
    assert states[4].reported.all()


def test_the_smallest_loss_so_far_is_that_of_the_smoothed_losses():
    rounds = [([1, 1, 0], [4, 2, 0]), ([1, 1, 0], [2, 8, 0]), ([0, 1, 1], [0, 1, 6])]
    states, _ = play(CorrelationAware(1.0, 0.5, optimum="running_min"), rounds)
    assert states[0].optimum.tolist() == [4, 2, np.inf]
    assert states[1].optimum.tolist() == [3, 2, np.inf]
    assert states[2].optimum.tolist() == [3, 2, 6]


@pytest.mark.parametrize("rounds", [1, 2])
def test_all_losses_at_their_smallest_exclude_nobody(rounds):
    falling = [([1, 1, 1], [4, 3, 2]), ([1, 1, 1], [2, 1, 1])][:rounds]
    _, decision = play(CorrelationAware(0.0, optimum="running_min"), falling)
    assert decision.invited.all()
    np.testing.assert_array_equal(decision.weight, ALPHA / PI)


def test_a_loss_above_its_smallest_excludes_again():
    rounds = [([1, 1, 1], [4, 3, 2]), ([1, 1, 1], [4, 3, 3])]
    _, decision = play(CorrelationAware(0.0, optimum="running_min", strict=True), rounds)
    assert decision.invited.tolist() == [True, True, False]


def test_the_true_optimum_is_used_where_asked_for_and_required():
    losses = ([1, 1, 1], [4, 3, 2])
    # Gaps (0, 0, 2) under the oracle, (4, 3, 2) without: only the former singles out the last client.
    _, decision = play(CorrelationAware(0.0, optimum="oracle", strict=True), [losses], np.array([4.0, 3.0, 0.0]))
    assert decision.invited.tolist() == [True, True, False]
    with pytest.raises(InvalidInput, match="this run has no F"):
        CorrelationAware(optimum="oracle").init(POPULATION)


@pytest.mark.parametrize("optimum", ["zero", "oracle", "running_min"])
def test_the_part_decides_as_the_function_does(optimum):
    rng = np.random.default_rng(5)
    policy = CorrelationAware(0.02, optimum=optimum)
    best = np.array([0.1, 0.2, 0.3])
    rounds = [([1, 1, 1], rng.uniform(0.5, 2, 3)) for _ in range(6)]
    outcomes = set()
    for count in range(1, 7):
        states, decision = play(policy, rounds[:count], best)
        smallest = {"zero": 0, "oracle": best.astype(np.float32), "running_min": states[-1].optimum}[optimum]
        gap = np.asarray(states[-1].loss, np.float64) - np.asarray(smallest, np.float64)
        q = correlation_aware_weights(ALPHA, PI, LAM, gap, 0.02) if gap.max() > 0 else ALPHA / PI
        np.testing.assert_allclose(decision.weight, q, rtol=1e-6)
        outcomes.add(tuple(decision.invited.tolist()))
    assert len(outcomes) > 1


def test_exclusion_looks_at_everyone_and_invites_only_the_available():
    losses = [1.0, 1.0, 5.0]
    _, everyone = play(CorrelationAware(0.0, strict=True), [([1, 1, 1], losses)])
    assert everyone.invited.tolist() == [True, True, False]
    _, some = play(CorrelationAware(0.0, strict=True), [([1, 1, 1], losses), ([1, 0, 1], losses)])
    assert some.invited.tolist() == [True, False, False]
    np.testing.assert_array_equal(some.weight, [ALPHA[0] / PI[0], 0, 0])


def test_infinite_price_is_exactly_unbiased_and_full_availability_exactly_fixed_weights():
    losses = np.array([4, 3, 2], np.float32)
    seen = {"available": np.array([1, 0, 1], bool), "loss": losses}
    unbiased, _ = decide(Unbiased(), (), **seen)
    policy = CorrelationAware(np.inf)
    decision, _ = decide(policy, policy.init(POPULATION), **seen)
    np.testing.assert_array_equal(decision.weight, unbiased.weight)
    np.testing.assert_array_equal(decision.invited, unbiased.invited)
    everyone = {"available": np.ones(3, bool), "loss": losses, "pi": np.ones(3, np.float32)}
    fixed, _ = decide(Everyone(weights="fixed"), (), **everyone)
    decision, _ = decide(policy, policy.init(POPULATION), **everyone)
    np.testing.assert_array_equal(decision.weight, fixed.weight)


def test_estimates_that_differ_by_rounding_are_considered_by_client():
    # 1/2 twice, the second a unit in the last place larger: the first client is still considered, and excluded, first.
    half = np.float64(0.5)
    alpha, pi, gap = [0.5, 0.5], [0.9, 0.9], [1.0, 1.0]
    for other in (half, np.nextafter(half, 1), np.nextafter(half, 0)):
        weights = correlation_aware_weights(alpha, pi, [half, other], gap, kappa_squared=0.0)
        np.testing.assert_array_equal(weights > 0, [False, True])
    # One that really is less correlated comes later.
    weights = correlation_aware_weights(alpha, pi, [half, 0.51], gap, kappa_squared=0.0)
    np.testing.assert_array_equal(weights > 0, [True, False])
