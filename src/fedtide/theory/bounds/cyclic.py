"""Groups of clients that take turns: the costs of cycling, sampling within a group and local steps.

Reference: Cho, Sharma, Joshi, Xu, Kale and Zhang, "On the convergence of federated averaging with cyclic client
participation", ICML 2023.
"""

import numpy as np

from fedtide.errors import number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.bounds.base import Bound


@kinds_checked
def cyclic_order(
    smoothness: float,
    convexity: float,
    start: float,
    rounds: int,
    groups: int,
    clients: int,
    fraction: float,
    between: float,
    within: float,
) -> Bound:
    """The slides' bound for local gradient descent, with constants and logarithms 1: an order, not a bound.

    K̄²(F_0 − F*)/(mT²) + κ²(K̄−1)²α²/(μT²) + K̄κγ²/(μCT) · (1/K̄ − C)/(m/K̄ − 1). The slide's text shows the last
    numerator as "1 − λ − C"; it must be 1/K̄ − C, which vanishes when the whole group takes part (C = 1/K̄).
    `between` is α, `within` γ, `fraction` C of all m clients. Terms: `start`, `cycling`, `sampling`.
    """
    missing = _missing(groups, clients, fraction)
    mu = number("convexity", convexity, above=0)
    kappa, T = number("smoothness", smoothness, above=0) / mu, rounds
    return Bound(
        {
            "start": groups**2 * start / (clients * T**2),
            "cycling": kappa**2 * (groups - 1) ** 2 * between**2 / (mu * T**2),
            "sampling": groups * kappa * within**2 / (mu * T) * missing,
        }
    )


@kinds_checked
def cyclic_error(
    smoothness: float,
    convexity: float,
    start: float,
    cycles: int,
    groups: int,
    clients: int,
    fraction: float,
    between: float,
    within: float,
    rate: float,
    local_steps: int = 1,
) -> Bound:
    """E[F(w)] − F* after `cycles` cycles of K̄ rounds, with explicit constants.

    In each round a uniform sample of C·m clients of one group (of m/K̄) takes E local gradient steps with rate η, and
    the models are averaged. With h = ηE, b = hL(K̄−1), ε = ηL(E−1), u = 2b(1+ε)² + ε, v = ε + 2bε(1+ε) and
    s² = γ²(1/K̄ − C)/(C(m/K̄ − 1)), the variance of a sample, if hK̄L ≤ ½, b(1+ε) ≤ ½ and u ≤ 1/√8:

    (1 − hK̄μ/2)^cycles (F_0 − F*) + 4u²α²/μ + (2hL + 64(1+ε)²h²L²(K̄−1)) s²/μ + 4v²γ²/μ.

    `between` is α = sup ‖∇f_i − ∇F‖ for group means f_i, `within` γ = sup ‖∇F_k − ∇f_i‖; h ∝ ln T/(μT) gives the orders
    of `cyclic_order`. Terms: `start`, `cycling`, `sampling`, `drift`.
    """
    missing = _missing(groups, clients, fraction)
    L, mu = number("smoothness", smoothness, above=0), number("convexity", convexity, above=0)
    require(local_steps >= 1, "local_steps", local_steps, "1 or more")
    h, eps = number("rate", rate, above=0) * local_steps, rate * L * (local_steps - 1)
    b = h * L * (groups - 1)
    u, v = 2 * b * (1 + eps) ** 2 + eps, eps + 2 * b * eps * (1 + eps)
    fine = h * groups * L <= 0.5 + 1e-9 and b * (1 + eps) <= 0.5 and u <= 1 / np.sqrt(8)
    require(fine, "rate", rate, "small enough that hK̄L ≤ ½, b(1+ε) ≤ ½ and u ≤ 1/√8 (see `cyclic_error`)")
    variance = within**2 * missing
    return Bound(
        {
            "start": (1 - h * groups * mu / 2) ** cycles * number("start", start, low=0),
            "cycling": 4 * u**2 * between**2 / mu,
            "sampling": (2 * h * L + 64 * ((1 + eps) * h * L) ** 2 * (groups - 1)) * variance / mu,
            "drift": 4 * v**2 * within**2 / mu,
        }
    )


def _missing(groups: int, clients: int, fraction: float) -> float:
    """(1/K̄ − C)/(C(m/K̄ − 1)): the variance of a sample mean over that of a single client."""
    require(1 <= groups <= clients, "groups", groups, f"from 1 to {clients}, the clients")
    require(0 < fraction <= 1 / groups + 1e-12, "fraction", fraction, f"in (0, 1/{groups}]: at most one whole group")
    if groups == clients:
        return 0.0
    return max(1 / groups - fraction, 0.0) / (fraction * (clients / groups - 1))
