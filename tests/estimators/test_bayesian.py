import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.availability import Markov
from fedtide.errors import InvalidInput
from fedtide.estimators import Bayesian
from fedtide.types import Estimate, Population

ROUNDS = 20_000


def after(estimator, trace) -> Estimate:
    """What it believes after the trace [T, N]."""
    trace = jnp.asarray(trace, bool)
    clients = trace.shape[1]
    state = estimator.init(Population(jnp.full(clients, 1 / clients), jnp.ones(clients)))
    estimates = jax.lax.scan(lambda s, a: estimator.update(s, a)[::-1], state, trace)[1]
    return jax.tree.map(lambda v: np.asarray(v[-1]), estimates)


def test_hand_worked_posterior():
    # On, on, off, on: three of four rounds; from on twice, of which once to on; from off once, never to off.
    believed = after(Bayesian(), [[1], [1], [0], [1]])
    np.testing.assert_allclose(believed.availability, [(3 + 1) / (4 + 2)], rtol=1e-6)
    np.testing.assert_allclose(believed.correlation, [(1 + 1) / (2 + 2) + (0 + 1) / (1 + 2) - 1], rtol=1e-6)


def test_hand_worked_posterior_with_priors():
    believed = after(
        Bayesian(on=2.0, off=6.0, on_stay=5.0, on_leave=3.0, off_stay=5.0, off_leave=3.0), [[0], [0], [0], [1], [1]]
    )
    np.testing.assert_allclose(believed.availability, [(2 + 2) / (5 + 8)], rtol=1e-6)
    np.testing.assert_allclose(believed.correlation, [(1 + 5) / (1 + 8) + (2 + 5) / (3 + 8) - 1], rtol=1e-6)


def test_one_round_is_no_transition():
    believed = after(Bayesian(), [[1, 0]])
    np.testing.assert_allclose(believed.availability, [2 / 3, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(believed.correlation, [0, 0], atol=1e-7)


@pytest.fixture(scope="module")
def believed() -> Estimate:
    """After 20,000 rounds of 50 chains with π = 0.1, λ = 0.9 and 50 with π = 0.9, λ = 0."""
    chains = Markov(np.repeat([0.1, 0.9], 50), np.repeat([0.9, 0.0], 50))
    return after(Bayesian(), chains.sample(0, ROUNDS))


def test_availability_is_consistent(believed: Estimate):
    # Standard error √(π(1−π)(1+λ)/((1−λ)T)); 6 of them: 2e-9 for each of 100 clients.
    for clients, pi, lam in ((slice(50), 0.1, 0.9), (slice(50, None), 0.9, 0.0)):
        error = np.sqrt(pi * (1 - pi) * (1 + lam) / (1 - lam) / ROUNDS)
        assert np.abs(believed.availability[clients] - pi).max() < 6 * error


def test_correlation_is_consistent(believed: Estimate):
    # Each row is a share of its visits πT or (1−π)T; 6 standard errors, as above, and 2/visits for the prior.
    for clients, pi, lam in ((slice(50), 0.1, 0.9), (slice(50, None), 0.9, 0.0)):
        on_on, off_off = lam + (1 - lam) * pi, 1 - (1 - lam) * pi
        visits = np.array([pi, 1 - pi]) * ROUNDS
        error = np.sqrt((np.array([on_on, off_off]) * (1 - np.array([on_on, off_off])) / visits).sum())
        assert np.abs(believed.correlation[clients] - lam).max() < 6 * error + (2 / visits).sum()


def test_rows_are_divided_by_visits_not_by_time(believed: Estimate):
    # Counts divided by time tend to π P(on|on) + (1−π) P(off|off) − 1: −0.018 and −0.18 for these two chains.
    assert believed.correlation[:50].min() > 0.8
    assert believed.correlation[50:].min() > -0.1


def test_more_rounds_bring_it_nearer():
    chains = Markov(np.full(100, 0.5), np.full(100, 0.5))
    trace = chains.sample(3, 3200)
    spread = [np.abs(after(Bayesian(), trace[:t]).correlation - 0.5).mean() for t in (200, 3200)]
    # The error falls like 1/√T: four times. Half of that is far from chance with 100 chains.
    assert spread[1] < spread[0] / 2


@pytest.mark.parametrize("name", ["on", "off", "on_stay", "on_leave", "off_stay", "off_leave"])
def test_priors_are_positive(name: str):
    with pytest.raises(InvalidInput, match=rf"estimator.{name} = 0.0: must be a positive pseudo-count"):
        Bayesian(**{name: 0.0})


def test_priors_may_differ_by_client_and_by_row():
    """Before any transition π̂ and λ̂ are the priors' means, plus one observation of presence for π̂."""
    prior = Bayesian(on=np.array([1.0, 3.0]), off=1.0, on_stay=3.0, on_leave=1.0, off_stay=1.0, off_leave=3.0)
    believed = after(prior, [[1, 1]])
    np.testing.assert_allclose(believed.availability, [2 / 3, 4 / 5], rtol=1e-6)
    np.testing.assert_allclose(believed.correlation, [0.75 + 0.25 - 1] * 2, atol=1e-6)
