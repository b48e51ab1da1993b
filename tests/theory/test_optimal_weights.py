import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide.errors import InvalidInput
from fedtide.theory import biased_importance, chi_square, fastest_weights, trade_off_weights

PI = np.array([0.9, 0.7, 0.5, 0.3, 0.1])


@st.composite
def federations(draw):
    clients = draw(st.integers(2, 12))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pi = random.uniform(0.05, 1, clients)
    curvature = pi * random.uniform(0.2, 5, clients)
    alpha = 0.9 * random.dirichlet(np.ones(clients)) + 0.1 / clients
    return alpha, pi, curvature, 10 ** draw(st.floats(-2, 2)), 10 ** draw(st.floats(-2, 2)), draw(st.floats(0.5, 5))


def feasible(total, clients):
    """Weights all over the simplex: its middle, points inside and points near its faces."""
    random = np.random.default_rng(clients)
    spread = [random.dirichlet(np.full(clients, evenness), 50) for evenness in (0.2, 1.0, 10.0)]
    return total * np.vstack([np.full(clients, 1 / clients), *spread])


@given(federations())
@settings(deadline=None, max_examples=40)
def test_fastest_weights_are_optimal(drawn):
    _, pi, curvature, offset, _, total = drawn
    found = fastest_weights(curvature, offset, pi, total)
    assert found.residual < 1e-8

    def objective(q):
        return (0.5 * curvature @ q**2 + offset) / (pi @ q)

    assert found.value == pytest.approx(objective(found.q))
    # The multipliers that the paper leaves open are these.
    rebuilt = np.maximum(0, (found.value * pi - found.theta) / curvature)
    np.testing.assert_allclose(rebuilt, found.q, atol=1e-8)
    # Weak duality: for any θ, the smallest ½qᵀAq − ιπᵀq + B on the simplex is at least this, so that none is below ι
    # if this is 0. (General solvers such as SLSQP stall on some of these problems, so they are no reference.)
    dual = offset - found.theta * total - (np.maximum(0, found.value * pi - found.theta) ** 2 / (2 * curvature)).sum()
    assert dual >= -1e-9 * (offset + abs(found.theta) * total)
    assert all(found.value <= objective(q) * (1 + 1e-12) for q in feasible(total, len(pi)))


def test_guideline_a_needs_its_condition():
    """A_k = 2(E+1)σ²π_k with E = 2, σ = 1: equal noise, so that only availability differs."""
    wanted = {
        0.05: ([0.136, 0.144, 0.159, 0.194, 0.367], False),
        1.0: ([0.314, 0.290, 0.248, 0.149, 0.0], True),
        50.0: ([1.0, 0.0, 0.0, 0.0, 0.0], True),
    }
    for offset, (q, favours_available) in wanted.items():
        found = fastest_weights(6 * PI, offset, PI)
        np.testing.assert_allclose(found.q, q, atol=6e-4)
        assert found.favours_available == favours_available
        assert (np.diff(found.q) <= 0).all() == favours_available


@given(federations())
@settings(deadline=None, max_examples=60)
def test_guideline_a_both_ways(drawn):
    _, pi, _, offset, _, total = drawn
    found = fastest_weights(3 * pi, offset, pi, total)
    order = np.argsort(pi)
    inside = found.q[order] > 1e-9
    slope = np.diff(found.q[order][inside])
    assert (slope >= -1e-9).all() if found.theta > 0 else (slope <= 1e-9).all()


def test_chi_square_is_not_convex_on_the_simplex():
    """The counter-example to the reading that eq. (14) is convex where Σ q = Q."""
    alpha, pi = np.array([0.1, 0.85, 0.05]), np.array([0.9, 0.5, 0.1])
    a, b = np.array([0.01, 0.04, 0.95]), np.array([0.8, 0.1, 0.1])

    def mismatch(q):
        return chi_square(alpha, biased_importance(q, pi))

    assert (mismatch(a), mismatch(b)) == (pytest.approx(3.62, abs=5e-3), pytest.approx(10.48, abs=5e-3))
    assert mismatch((a + b) / 2) == pytest.approx(8.36, abs=5e-3)
    assert mismatch((a + b) / 2) > (mismatch(a) + mismatch(b)) / 2
    # Where πᵀq is constant it is: in y = q/(πᵀq).
    y, z = a / (pi @ a), b / (pi @ b)
    assert mismatch((y + z) / 2) < (mismatch(a) + mismatch(b)) / 2


@given(federations(), st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
@settings(deadline=None, max_examples=200)
def test_in_y_and_s_it_is_convex(drawn, seed, share):
    alpha, pi, curvature, offset, penalty, _ = drawn
    random = np.random.default_rng(seed)

    def objective(y, s):
        return 0.5 * curvature @ y**2 / s + offset * s + penalty * (alpha**2 / (pi * y)).sum()

    (y, z), (s, r) = random.uniform(0.01, 3, (2, len(pi))), random.uniform(0.01, 3, 2)
    middle = objective(share * y + (1 - share) * z, share * s + (1 - share) * r)
    assert middle <= (share * objective(y, s) + (1 - share) * objective(z, r)) * (1 + 1e-12)


@given(federations())
@settings(deadline=None, max_examples=40)
def test_trade_off_weights_are_optimal(drawn):
    alpha, pi, curvature, offset, penalty, total = drawn
    found = trade_off_weights(alpha, pi, curvature, offset, penalty, total)
    assert found.residual < 1e-8
    assert found.q.sum() == pytest.approx(total)

    def objective(q):
        bias = chi_square(alpha, biased_importance(q, pi))
        return (0.5 * curvature @ q**2 + offset) / (pi @ q) + penalty * bias

    assert found.value == pytest.approx(objective(found.q), rel=1e-9)
    # All q are positive and the problem is convex in (y, s), so a point is its minimum if no direction within Σ q = Q
    # has a slope: the gradient in q is the same for all clients.
    q, mass = found.q, pi @ found.q
    plus = [curvature * q / mass, pi * penalty * (alpha**2 / (pi * q)).sum()]
    minus = [found.optimisation * pi / mass, penalty * mass * alpha**2 / (pi * q**2)]
    assert np.ptp(sum(plus) - sum(minus)) <= 1e-6 * np.max([*plus, *minus])
    assert all(found.value <= objective(q) * (1 + 1e-12) for q in feasible(total, len(pi)) if (q > 0).all())


def test_trade_off_between_its_extremes():
    alpha = np.full(5, 0.2)
    unbiased = alpha / PI / (alpha / PI).sum()
    np.testing.assert_allclose(trade_off_weights(alpha, PI, 6 * PI, 1.0, 1e6).q, unbiased, atol=1e-5)
    fastest = fastest_weights(6 * PI, 1.0, PI)
    found = trade_off_weights(alpha, PI, 6 * PI, 1.0, 1e-7)
    assert found.optimisation == pytest.approx(fastest.value, rel=1e-3)
    bias = [trade_off_weights(alpha, PI, 6 * PI, 1.0, c).bias / c for c in (1e-3, 1e-1, 10.0)]
    assert bias[0] > bias[1] > bias[2] > 0


def test_bad_input():
    with pytest.raises(InvalidInput, match="curvature"):
        fastest_weights([0.0, 1.0], 1.0, [0.5, 0.5])
    with pytest.raises(InvalidInput, match="alpha"):
        trade_off_weights([0.0, 1.0], [0.5, 0.5], [1.0, 1.0], 1.0, 1.0)
