"""Biased client selection: faster by a factor, its skew, but not to the optimum.

Reference: Cho, Wang and Joshi, "Towards understanding biased client selection in federated learning", AISTATS 2022,
Theorem 3.1.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fedtide.errors import number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.bounds.base import Bound
from fedtide.theory.checks import shares
from fedtide.theory.families import Family


class Skew(NamedTuple):
    """ρ(S, w) = Σ_k r_k (F_k(w) − F*_k) / Σ_k α_k (F_k(w) − F*_k), r the selection's mean importance."""

    smallest: float  # ρ̄, over the given models
    at_optimum: float  # ρ̃, the largest at w* over the selections at the given models


@kinds_checked
def skew(
    family: Family, alpha: Any, selection: Callable[[np.ndarray], np.ndarray], models: Iterable[np.ndarray]
) -> Skew:
    """ρ̄ and ρ̃ over `models`, where `selection(F_k(w) [N])` is the importance r with which clients are selected.

    The ρ̄ of the theorem is the minimum over all models, so finitely many of them give an upper estimate of it. If the
    selection does not depend on losses, r is fixed and min_k r_k/α_k ≤ ρ̄.
    """
    alpha = shares("alpha", alpha, family.clients)
    models = [family.minimise(alpha), *models]
    gaps = [family.values(w) - family.client_minima for w in models]
    chosen = [shares("selection", selection(family.values(w)), family.clients) for w in models]
    smallest = min(float(r @ gap / (alpha @ gap)) for r in chosen for gap in gaps)
    return Skew(smallest, max(float(r @ gaps[0] / (alpha @ gaps[0])) for r in chosen))


@kinds_checked
def selection_error(
    smoothness: float,
    convexity: float,
    iterations: int,
    local_steps: int,
    cohort: int,
    noise: float,
    gradient: float,
    heterogeneity: float,
    distance: float,
    skew: Skew,
) -> Bound:
    """E[F(w_T)] − F* after T SGD iterations, τ between averages of m clients, with η_t = 1/(μ(t + γ)), γ = 4L/μ.

    1/(T+γ) [4L(32τ²G² + σ²/m)/(3μ²ρ̄) + 8L²Γ/μ² + Lγ‖w_0 − w*‖²/2] + (8LΓ/(3μ)) (ρ̃/ρ̄ − 1).

    `gradient` is G with E‖g‖² ≤ G², `heterogeneity` Γ = F* − Σ α_k F*_k, `distance` ‖w_0 − w*‖. Unbiased selection has
    ρ̄ = ρ̃ = 1 and no `bias` term. Terms: `gradients`, `heterogeneity`, `start`, `bias`.
    """
    L, mu = number("smoothness", smoothness, above=0), number("convexity", convexity, above=0)
    least = min(iterations, local_steps, cohort)
    require(least >= 1, "iterations", iterations, "1 or more, like local_steps and cohort")
    low, high = number("skew.smallest", skew.smallest, above=0), number("skew.at_optimum", skew.at_optimum, above=0)
    gap, gamma = number("heterogeneity", heterogeneity, low=0), 4 * L / mu
    spread = 32 * local_steps**2 * gradient**2 + noise / cohort
    ahead = iterations + gamma
    return Bound(
        {
            "gradients": 4 * L * spread / (3 * mu**2 * low) / ahead,
            "heterogeneity": 8 * L**2 * gap / mu**2 / ahead,
            "start": L * gamma * distance**2 / 2 / ahead,
            "bias": 8 * L * gap / (3 * mu) * max(high / low - 1, 0.0),
        }
    )
