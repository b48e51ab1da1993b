from math import comb
from typing import NamedTuple

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


def power_of_choice(losses, candidates, cohort):
    """r [..., N]: chances, divided by m, of being among the m highest losses of d uniform candidates.

    The client with j higher losses is chosen if it is a candidate and i < m of those j are.
    """
    N, d, m = losses.shape[-1], candidates, cohort
    table = [sum(comb(j, i) * comb(N - 1 - j, d - 1 - i) for i in range(m)) / comb(N, d) / m for j in range(N)]
    return np.array(table)[(-losses).argsort(-1).argsort(-1)]


class Path(NamedTuple):
    ends: np.ndarray  # [runs, d]
    skew: Skew  # over the pairs (model at which clients are selected, averaged model that they go on from)
    gradient: float  # largest ‖∇F_k‖ of a chosen client at its own local models
    models: np.ndarray  # [looked at, d]


def train_on_high_losses(family, candidates, cohort, iterations, local_steps, L, mu, sigma, runs=32, seed=0):
    """FedAvg with power-of-choice selection, η_t = 1/(μ(t + 4L/μ)); α is uniform."""
    random = np.random.default_rng(seed)
    N, d = family.centres.shape
    at_best = family.values(family.minimise(np.full(N, 1 / N)))
    w, smallest, at_optimum, gradient, models = np.zeros((runs, d)), np.inf, 0.0, 0.0, []

    def slopes(w):  # [runs, N, d] of all clients at [runs, d]
        return np.einsum("kij,rkj->rki", family.hessians, w[:, None] - family.centres)

    def losses(w):
        return 0.5 * (slopes(w) * (w[:, None] - family.centres)).sum(-1)

    rows = np.arange(runs)[:, None]
    for first in range(0, iterations, local_steps):
        now = losses(w)
        r = power_of_choice(now, candidates, cohort)
        at_optimum = max(at_optimum, float((r @ at_best).max() / at_best.mean()))
        drawn = random.random((runs, N)).argsort(1)[:, :candidates]
        chosen = np.take_along_axis(drawn, (-now[rows, drawn]).argsort(1)[:, :cohort], 1)
        if first % (iterations // 20) == 0:
            models.append(w[0])
        local = np.repeat(w[:, None], cohort, axis=1)
        for t in range(first, first + local_steps):
            gap = now if t == first else losses(local.mean(1))
            smallest = min(smallest, float(((r * gap).sum(1) / gap.mean(1)).min()))
            noise = sigma / np.sqrt(d) * random.standard_normal(local.shape)
            slope = np.einsum("rkij,rkj->rki", family.hessians[chosen], local - family.centres[chosen])
            gradient = max(gradient, float((slope**2).sum(-1).max()))
            local = local - (slope + noise) / (mu * (t + 4 * L / mu))
        w = local.mean(1)
    return Path(w, Skew(smallest, at_optimum), gradient**0.5, np.array(models))


@pytest.mark.parametrize("local_steps", [1, 2])
@pytest.mark.parametrize("candidates", [2, 4, 6])
def test_it_is_above_simulation_where_high_losses_are_chosen(quadratics, candidates, local_steps):
    """Mean plus four standard errors of 32 runs: a correct program fails for fewer than 1 in 10⁴ seeds each."""
    clients, cohort, sigma, iterations = 6, 2, 0.1, 2000
    # The seed is chosen for a strong bias and the condition is near 1, where the bound is nearest to the error.
    family, alpha = quadratics(clients, 2, seed=12, condition=1.2), np.full(clients, 1 / clients)
    spectrum = np.linalg.eigvalsh(family.hessians)
    L, mu = spectrum.max(), spectrum.min()
    best = family.minimise(alpha)
    at_best = family.values(best)
    path = train_on_high_losses(family, candidates, cohort, iterations, local_steps, L, mu, sigma)
    errors = np.array([alpha @ (family.values(w) - at_best) for w in path.ends])
    mean, margin = errors.mean(), 4 * errors.std(ddof=1) / np.sqrt(len(errors))
    grid = np.random.default_rng(1).normal(size=(20, 2))
    wide = skew(family, alpha, lambda losses: power_of_choice(losses, candidates, cohort), [*path.models, *grid])
    # Fewer models give a larger ρ̄ and a smaller ρ̃, so that the path's own pairs ask more than the theorem says.
    ours, widest = (
        selection_error(
            L, mu, iterations, local_steps, cohort, sigma**2, (path.gradient**2 + sigma**2) ** 0.5,
            float(alpha @ at_best), float(np.linalg.norm(best)), rho,
        )
        for rho in (path.skew, wide)
    )  # fmt: skip
    assert mean + margin <= ours.total
    assert ours.total <= widest.total * (1 + 1e-9)
    if candidates == cohort:
        assert path.skew == pytest.approx((1.0, 1.0))
    else:
        assert path.skew.at_optimum > path.skew.smallest > 1
    if candidates == clients and local_steps == 1:  # where the other terms are small, the bias is needed
        assert mean - margin > ours.total - ours["bias"]


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
