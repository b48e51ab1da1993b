import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.theory import Skew, quadratic_constants, selection_error, skew


def train(family, importance, iterations, local_steps, cohort, L, mu, sigma, runs=32, seed=0):
    """Final models of FedAvg that draws a cohort with replacement ∝ importance; η_t = 1/(μ(t + 4L/μ))."""
    random = np.random.default_rng(seed)
    d = family.dimension
    w = np.zeros((runs, d))
    for first in range(0, iterations, local_steps):
        chosen = random.choice(family.clients, (runs, cohort), p=importance)
        local = np.repeat(w[:, None], cohort, axis=1)
        for t in range(first, first + local_steps):
            noise = sigma / np.sqrt(d) * random.standard_normal(local.shape)
            slope = np.einsum("rkij,rkj->rki", family.hessians[chosen], local - family.centres[chosen])
            local = local - (slope + noise) / (mu * (t + 4 * L / mu))
        w = local.mean(1)
    return w


@pytest.mark.parametrize("importance", [[0.25, 0.25, 0.25, 0.25], [0.4, 0.3, 0.2, 0.1]])
@pytest.mark.parametrize(("iterations", "local_steps"), [(40, 1), (40, 4), (400, 4)])
def test_it_is_above_simulation(quadratics, importance, iterations, local_steps):
    """Mean plus four standard errors of 32 runs: a correct program fails for fewer than 1 in 10⁴ seeds each."""
    family, alpha, r = quadratics(4, 3, seed=3), np.full(4, 0.25), np.array(importance)
    sigma, cohort = 0.3, 2
    best = family.minimise(alpha)
    c = quadratic_constants(family, 5.0, best, sigma**2, rate=0.25, local_steps=local_steps)
    at_best = family.values(best)
    # Selection that ignores losses: min r/α is a lower bound of ρ̄, and ρ̃ is exact.
    rho = Skew(float((r / alpha).min()), float(r @ at_best / (alpha @ at_best)))
    ends = train(family, r, iterations, local_steps, cohort, c.smoothness, c.convexity, sigma)
    errors = np.array([alpha @ (family.values(w) - at_best) for w in ends])
    bound = selection_error(
        c.smoothness, c.convexity, iterations, local_steps, cohort, sigma**2, c.gradient, float(alpha @ at_best),
        float(np.linalg.norm(best)), rho,
    )  # fmt: skip
    assert errors.mean() + 4 * errors.std(ddof=1) / np.sqrt(32) <= bound.total
    assert (bound["bias"] == 0) == (rho.smallest == rho.at_optimum == 1)


def test_unbiased_selection_has_no_skew(quadratics):
    family, alpha = quadratics(4, 3, seed=3), np.array([0.4, 0.3, 0.2, 0.1])
    models = np.random.default_rng(0).normal(size=(20, 3))
    assert skew(family, alpha, lambda losses: alpha, models) == pytest.approx((1.0, 1.0))


def test_choosing_high_losses_speeds_up_and_biases(quadratics):
    family, alpha = quadratics(4, 3, seed=3), np.full(4, 0.25)
    models = np.random.default_rng(0).normal(size=(20, 3))

    def highest(losses):
        return np.eye(4)[losses.argmax()]

    found = skew(family, alpha, highest, models)
    assert found.at_optimum > 1
    # At the model where clients are selected they have the highest loss; elsewhere they may not.
    own = [family.values(w).max() / family.values(w).mean() for w in models]
    assert found.smallest <= min(own)
    assert min(own) > 1


def test_bad_input():
    with pytest.raises(InvalidInput, match=r"skew\.smallest"):
        selection_error(1.0, 0.1, 10, 1, 2, 0.1, 1.0, 0.5, 1.0, Skew(0.0, 1.0))
