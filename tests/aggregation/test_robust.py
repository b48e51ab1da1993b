"""Robust rules against plain NumPy with absent clients, and the number of attackers that each survives."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import trim_mean

from fedtide.aggregation import (
    Accumulated,
    Colluding,
    CoordinateMedian,
    GeometricMedian,
    Krum,
    LatestUpdates,
    Normalised,
    NormClipped,
    TrimmedMean,
    WeightedSum,
)
from fedtide.errors import FedtideError, InvalidInput
from fedtide.types import Cohort, Population, Updates


@jax.jit
def traced(rule, client, present, weight, delta):
    rate = jnp.where(present, 0.1, 0)
    clients, ones = len(present), present.astype(jnp.int32)
    alpha = jnp.full(clients, 1 / clients)
    state = rule.init(Population(alpha, jnp.ones(clients)), delta.shape[1])
    updates = Updates(delta, rate, ones, rate, rate, round_rate=jnp.asarray(0.1))
    return rule.combine(state, Cohort(client, present, weight, alpha), updates)[0]


def combine(rule, delta, here=None, weight=None, client=None):
    """The direction of the rows, of which those not `here` are absent; weights are 1/|S| unless given."""
    delta = np.asarray(delta, float)
    here = np.ones(len(delta), bool) if here is None else here
    weight = here / max(here.sum(), 1) if weight is None else np.where(here, weight, 0)
    client = np.arange(len(delta)) if client is None else client
    rows = np.where(here[:, None], delta, 0)
    kind = jnp.result_type(float)
    return np.asarray(traced(rule, client, here, jnp.asarray(weight, kind), jnp.asarray(rows, kind)))


def weiszfeld(delta, weight, iterations, smoothing):
    v = np.zeros(delta.shape[1])
    for _ in range(iterations):
        beta = weight / np.maximum(smoothing, np.linalg.norm(delta - v, axis=1))
        v = beta @ delta / beta.sum()
    return v


def krum(delta, attackers, keep):
    scores = []
    for k, own in enumerate(delta):
        others = np.sort([((own - other) ** 2).sum() for j, other in enumerate(delta) if j != k])
        scores.append(others[: max(len(delta) - attackers - 2, 1)].sum())
    return delta[np.argsort(scores, kind="stable")[:keep]].mean(axis=0)


def clipped(delta, weight, norm):
    return weight @ (delta * np.minimum(1, norm / np.linalg.norm(delta, axis=1))[:, None])


REFERENCES = {
    "median": (CoordinateMedian(), lambda x, q: np.median(x, axis=0)),
    "trimmed, 0": (TrimmedMean(0.0), lambda x, q: x.mean(axis=0)),
    "trimmed, 0.2": (TrimmedMean(0.2), lambda x, q: trim_mean(x, 0.2)),
    "trimmed, 0.49": (TrimmedMean(0.49), lambda x, q: np.median(x, axis=0)),
    "geometric": (GeometricMedian(5), lambda x, q: weiszfeld(x, q, 5, 1e-6)),
    "geometric, smoothed": (GeometricMedian(3, 0.5), lambda x, q: weiszfeld(x, q, 3, 0.5)),
    "krum": (Krum(2), lambda x, q: krum(x, 2, 1)),
    "multi-krum": (Krum(1, keep=3), lambda x, q: krum(x, 1, 3)),
    "clipped": (NormClipped(norm=1.5), lambda x, q: clipped(x, q, 1.5)),
    "clipped median": (
        NormClipped(CoordinateMedian(), 1.5),
        lambda x, q: np.median(x * np.minimum(1, 1.5 / np.linalg.norm(x, axis=1))[:, None], axis=0),
    ),
}
RULES = {name: rule for name, (rule, _) in REFERENCES.items()}
CAPACITY, DIMENSION = 12, 5


def worlds():
    """Random updates with unequal weights, and 1 to 12 present clients."""
    for here in (1, 2, 3, 6, 7, 11, 12):
        rng = np.random.default_rng(here)
        mask = np.zeros(CAPACITY, bool)
        mask[rng.permutation(CAPACITY)[:here]] = True
        yield rng.normal(size=(CAPACITY, DIMENSION)), mask, rng.uniform(0.5, 2, CAPACITY)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", REFERENCES)
def test_they_are_their_definitions(name, precision):
    rule, reference = REFERENCES[name]
    with jax.enable_x64(precision == "float64"):
        for delta, here, weight in worlds():
            found = combine(rule, delta, here, weight)
            expected = reference(delta[here], weight[here])
            assert found.dtype == precision
            exact = precision == "float64"
            np.testing.assert_allclose(found, expected, rtol=1e-12 if exact else 1e-5, atol=1e-14 if exact else 1e-6)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_neither_order_nor_capacity_nor_late_rows_matter(rule):
    for delta, here, weight in worlds():
        found = combine(rule, delta, here, weight)
        order = np.random.default_rng(0).permutation(CAPACITY)
        shuffled = combine(rule, delta[order], here[order], weight[order])
        # With one neighbour the two closest updates have the same score, and the first is taken.
        if not isinstance(rule, Krum) or here.sum() >= rule.attackers + 4:
            np.testing.assert_allclose(shuffled, found, rtol=1e-5, atol=1e-6)
        # Rows in front, as the engine has them; more capacity changes no bit.
        front = np.argsort(~here, kind="stable")
        tight = combine(rule, delta[front], here[front], weight[front])
        more = [np.concatenate([a[front], np.zeros_like(a[:4])]) for a in (delta, here, weight)]
        np.testing.assert_array_equal(combine(rule, *more), tight)
        # Late updates are present with weight 0.
        late = [np.concatenate([delta, 9 + delta[:2]]), np.append(here, [True, True]), np.append(weight, [0, 0])]
        np.testing.assert_allclose(combine(rule, *late), found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_equal_updates_are_fedavg_and_nobody_is_no_direction(rule, precision):
    equal = np.tile(np.random.default_rng(1).normal(size=DIMENSION) / DIMENSION, (CAPACITY, 1))
    here = np.arange(CAPACITY) % 3 > 0
    weight = here / here.sum()
    with jax.enable_x64(precision == "float64"):
        found, plain = combine(rule, equal, here, weight), combine(WeightedSum(), equal, here)
        np.testing.assert_allclose(found, plain, rtol=1e-6 if precision == "float32" else 1e-14)
        if isinstance(rule, CoordinateMedian | TrimmedMean | Krum):  # exactly the common update
            np.testing.assert_array_equal(found, equal[0].astype(precision))
        np.testing.assert_array_equal(combine(rule, equal, np.zeros(CAPACITY, bool)), np.zeros(DIMENSION))


def attacked(clients, attackers, size):
    """Honest updates within 0.1 of (1, …, 1), and one common update of the attackers in the opposite direction."""
    delta = 1 + np.random.default_rng(2).uniform(-0.1, 0.1, (clients, DIMENSION))
    delta[np.random.default_rng(3).permutation(clients)[:attackers]] = -size
    return delta


# Each with clients, the attackers that it survives, and the smallest number that it does not.
BREAKDOWN = {
    "sum": (WeightedSum(), 9, 0, 1),
    "median, odd": (CoordinateMedian(), 9, 4, 5),
    "median, even": (CoordinateMedian(), 10, 4, 5),
    "trimmed": (TrimmedMean(0.2), 10, 2, 3),
    "trimmed, almost a median": (TrimmedMean(0.49), 9, 4, 5),
    "geometric": (GeometricMedian(200), 9, 4, 5),
    # Proven for f; attackers that send one and the same far update win once n − f − 2 of them are near each.
    "krum": (Krum(3), 9, 3, 5),
    "multi-krum": (Krum(3, keep=4), 9, 3, 5),
}


@pytest.mark.parametrize("size", [1e3, 1e6, 1e30])
@pytest.mark.parametrize("name", BREAKDOWN)
def test_breakdown_points(name, size):
    rule, clients, most, beyond = BREAKDOWN[name]
    if isinstance(rule, CoordinateMedian | TrimmedMean | Krum | WeightedSum):  # between honest values, exactly
        found = combine(rule, attacked(clients, most, size))
        assert (np.abs(found - 1) <= 0.1).all()
    else:  # Lopuhaä and Rousseeuw: within 2 (1 − ρ)/(1 − 2ρ) of the largest honest distance from any point
        share = most / clients
        honest = np.sqrt(DIMENSION) * 0.1
        found = combine(rule, attacked(clients, most, size))
        assert np.linalg.norm(found - 1) <= 2 * (1 - share) / (1 - 2 * share) * honest
    if size < 1e30:  # whose squares are not finite in single precision
        assert (combine(rule, attacked(clients, beyond, size)) < -1e-3 * size).all()


def test_the_start_at_zero_resists_few_iterations():
    """A start at the mean would need more iterations the farther the attackers are."""
    few = GeometricMedian(3)
    np.testing.assert_allclose(combine(few, attacked(9, 4, 1e9)), combine(few, attacked(9, 4, 1e6)), rtol=1e-3)
    assert np.abs(combine(few, attacked(9, 4, 1e9)) - 1).max() < 1


@pytest.mark.parametrize("clients", [7, 9])
def test_krum_survives_f_attackers_wherever_they_are(clients):
    """Exhaustively: all places of f attackers, near and far; the chosen update is an honest one or as near as one."""
    attackers = (clients - 3) // 2
    rng = np.random.default_rng(4)
    for size, who in itertools.product((0.5, 2.0, 50.0), itertools.combinations(range(clients), attackers)):
        delta = 1 + rng.uniform(-0.1, 0.1, (clients, 2))
        delta[list(who)] -= size
        assert np.abs(combine(Krum(attackers), delta) - 1).max() <= 0.1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_updates_that_are_not_finite_are_absent(rule, bad):
    for delta, here, weight in worlds():
        broken = delta.copy()
        broken[[0, 5]] = bad
        without = here & ~np.isin(np.arange(CAPACITY), [0, 5])
        q = np.where(here, weight, 0)
        expected = combine(rule, delta, without, q)
        found = combine(rule, broken, here, q)
        assert np.isfinite(found).all()
        if not isinstance(rule, NormClipped) or rule.aggregation.__class__ is WeightedSum:
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_clipping_bounds_attackers_by_their_weight():
    delta, weight = attacked(9, 8, 1e6), np.full(9, 1 / 9)
    honest = np.isclose(delta[:, 0], 1, atol=0.2)
    rest = combine(NormClipped(norm=0.5), np.where(honest[:, None], delta, 0), weight=weight)
    moved = combine(NormClipped(norm=0.5), delta, weight=weight) - rest
    assert np.linalg.norm(moved) == pytest.approx(0.5 * 8 / 9, rel=1e-5)
    # The mass stays, so that division by it does not undo the clipping.
    bounded = combine(NormClipped(Normalised(), 0.5), delta, weight=weight)
    assert np.linalg.norm(bounded) <= 0.5 * (1 + 1e-6)


def test_the_geometric_median_counts_weights():
    delta = np.array([[0.0], [0.0], [1.0]])
    assert combine(GeometricMedian(200), delta, weight=np.array([1.0, 1.0, 3.0])) == pytest.approx(1, abs=1e-4)
    assert combine(GeometricMedian(200), delta, weight=np.array([1.0, 1.0, 1.0])) == pytest.approx(0, abs=1e-4)
    # As `scaled` or unbiased weights: only their ratios count.
    twice = combine(GeometricMedian(), delta, weight=np.array([2.0, 2.0, 2.0]))
    np.testing.assert_allclose(twice, combine(GeometricMedian(), delta), rtol=1e-6)


def test_colluders_send_the_mean_minus_deviations():
    for delta, here, weight in worlds():
        attackers = (0, 4, 7)
        rule = Colluding(WeightedSum(), attackers, 1.2)
        attacks = here & np.isin(np.arange(CAPACITY), attackers)
        honest, sent = delta[here & ~attacks], delta.copy()
        if len(honest):
            sent[attacks] = honest.mean(axis=0) - 1.2 * honest.std(axis=0)
        else:
            sent[attacks] = 0
        expected = np.where(here, weight, 0) @ sent
        np.testing.assert_allclose(combine(rule, delta, here, weight), expected, rtol=1e-5, atol=1e-6)
        none = Colluding(CoordinateMedian(), ())
        np.testing.assert_array_equal(combine(none, delta, here), combine(CoordinateMedian(), delta, here))


def test_colluders_hide_from_rules_that_remove_outliers():
    """With the paper's z, multi-Krum keeps the attackers and leaves honest clients out; unhidden they are removed."""
    rng = np.random.default_rng(6)
    delta = rng.normal(size=(20, 50))
    hidden = combine(Colluding(Krum(4, keep=4), (0, 1, 2, 3), 0.3), delta)
    honest = delta[4:]
    expected = honest.mean(axis=0) - 0.3 * honest.std(axis=0)
    np.testing.assert_allclose(hidden, expected, rtol=1e-4, atol=1e-5)  # only attackers are kept
    far = combine(Colluding(Krum(4, keep=4), (0, 1, 2, 3), 30.0), delta)
    assert np.linalg.norm(far - honest.mean(axis=0)) < np.linalg.norm(honest - honest.mean(axis=0), axis=1).max()


def test_colluders_by_number_are_clients_not_rows():
    delta = np.arange(8.0).reshape(4, 2)
    rows = combine(Colluding(WeightedSum(), (3,), 1.0), delta, client=np.array([0, 3, 1, 2]))
    others = delta[[0, 2, 3]]
    expected = (others.sum(axis=0) + others.mean(axis=0) - others.std(axis=0)) / 4
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TrimmedMean(0.5), r"^aggregation\.trim = 0\.5: must be in \[0, 0\.5\)"),
        (lambda: GeometricMedian(0), r"^aggregation\.iterations = 0"),
        (lambda: GeometricMedian(smoothing=0.0), r"^aggregation\.smoothing = 0\.0: must be positive"),
        (lambda: Krum(-1), r"^aggregation\.attackers = -1"),
        (lambda: Krum(keep=0), r"^aggregation\.keep = 0"),
        (lambda: NormClipped(norm=0.0), r"^aggregation\.norm = 0\.0: must be positive"),
        (lambda: NormClipped(Accumulated()), r"^aggregation\.aggregation = 'Accumulated'"),
        (lambda: Colluding(attackers=-1), r"^aggregation\.attackers = -1"),
        (lambda: Colluding(attackers=(1, 1)), r"^aggregation\.attackers = \(1, 1\): must be different client numbers"),
        (lambda: Colluding(deviations=np.nan), r"^aggregation\.deviations = nan"),
        (lambda: Colluding(seed=-1), r"^aggregation\.seed = -1"),
    ],
)
def test_errors_name_the_bad_field(build, message):
    with pytest.raises(InvalidInput, match=message):
        build()


def test_attackers_that_do_not_exist_are_refused():
    population = Population(jnp.full(3, 1 / 3), jnp.ones(3))
    with pytest.raises(FedtideError, match=r"^aggregation\.attackers = 4: must be 3 or less, the number of clients"):
        Colluding(attackers=4).init(population, 2)
    with pytest.raises(FedtideError, match=r"^aggregation\.attackers = 3: must be a client number, in 0 … 2"):
        Colluding(attackers=(0, 3)).init(population, 2)


def test_wrappers_pass_on_what_is_inside():
    assert NormClipped(LatestUpdates()).moves_when_empty
    assert Colluding(Normalised()).divides_by_mass
    assert not Colluding().moves_when_empty
