"""What weights and availability make of the objective: the importance p that clients really have.

Fixed weights q under availability π minimise F_B = Σ p_k F_k with p_k = π_k q_k / Σ π_j q_j, whatever the target α.

Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
IEEE/ACM ToN 2024, Sec. III–IV.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom, t

from fedtide.errors import require
from fedtide.theory.checks import rates, shares, vector, weights
from fedtide.theory.families import Family

_MOST_SETS = 2**20


def biased_importance(q: Any, availability: Any) -> np.ndarray:
    """p_k = π_k q_k / Σ_j π_j q_j: the importance of clients whose weights q are fixed."""
    q = weights("q", q)
    mass = q * rates("availability", availability, len(q))
    return mass / mass.sum()


def total_variation(a: Any, b: Any) -> float:
    """TV(a, b) = ½ Σ |a_k − b_k|."""
    a = shares("a", a)
    return float(np.abs(a - shares("b", b, len(a))).sum() / 2)


def chi_square(alpha: Any, p: Any) -> float:
    """χ²(α‖p) = Σ α_k²/p_k − 1 = Σ (α_k − p_k)²/p_k; infinite where p_k = 0 < α_k."""
    alpha = shares("alpha", alpha)
    p = shares("p", p, len(alpha))
    if ((p == 0) & (alpha > 0)).any():
        return np.inf
    kept = p > 0
    return float(((alpha - p)[kept] ** 2 / p[kept]).sum())


class Bias(NamedTuple):
    """Where a method ends if it minimises Σ p_k F_k instead of Σ α_k F_k."""

    importance: np.ndarray  # p [N]
    optimum: np.ndarray  # w_B* [d]
    error: float  # F(w_B*) − F*, what the bias costs
    distance: float  # ‖w_B* − w*‖
    total_variation: float  # TV(α, p)
    chi_square: float  # χ²(α‖p)
    gap: float  # Γ = max_k F_k(w*) − F*_k
    biased_gap: float  # Γ' = max_k F_k(w_B*) − F*_k


def bias(family: Family, alpha: Any, p: Any, optimum: np.ndarray | None = None) -> Bias:
    """The biased optimum and all distances from the true one; `optimum` w* where it is known already."""
    alpha = shares("alpha", alpha, family.clients)
    p = shares("p", p, family.clients)
    true = family.minimise(alpha) if optimum is None else optimum
    biased = true if np.allclose(p, alpha, rtol=0, atol=1e-15) else family.minimise(p)
    minima = family.client_minima
    at_true, at_biased = family.values(true), family.values(biased)
    return Bias(
        p,
        biased,
        max(float(alpha @ (at_biased - at_true)), 0.0),
        float(np.linalg.norm(biased - true)),
        total_variation(alpha, p),
        chi_square(alpha, p),
        float((at_true - minima).max()),
        float((at_biased - minima).max()),
    )


class Importance(NamedTuple):
    """Mean weights of a policy that normalises over whoever is there, and what they mean."""

    weight: np.ndarray  # E[a_k] [N]; an empty round gives nobody weight
    importance: np.ndarray  # p_k = E[a_k] / Σ_j E[a_j] [N]


def normalised_importance(score: Any, availability: Any) -> Importance:
    """E[s_k 1_k / Σ_{j∈A} s_j] for independent clients, exactly and for any number of them.

    1/x = ∫ e^{−ux} du turns the expectation of the ratio into one integral of a product:
    E[a_k] = s_k π_k ∫ e^{−u s_k} Π_{j≠k} (1 − π_j + π_j e^{−u s_j}) du, by the trapezoidal rule in ln u.

    s = α is FedAvg with ratio weights, s = α/π is AdaFed.
    """
    s, pi = _scored(score, availability)
    spacing = 1 / 32
    # From where the integrand is still 0 to where the smallest score has decayed.
    log_u = np.arange(-36.0 - float(np.log(pi @ s)), float(np.log(40 / s[s > 0].min())), spacing)
    total = np.zeros(len(s))
    for u in np.array_split(np.exp(log_u)[:, None], max(1, len(log_u) * len(s) // 2**22)):
        decay = np.exp(-u * s)
        with np.errstate(divide="ignore"):
            log_factor = np.where(pi == 1, -u * s, np.log(1 - pi + pi * decay))
        total += (u * decay * np.exp(log_factor.sum(1, keepdims=True) - log_factor)).sum(0)
    weight = s * pi * total * spacing
    return Importance(weight, weight / weight.sum())


def enumerated_importance(score: Any, availability: Any) -> Importance:
    """The same by enumeration of all sets; clients alike in score and availability are counted together.

    With g kinds of n_g clients there are Π (n_g + 1) cases instead of 2^N.
    """
    s, pi = _scored(score, availability)
    kinds, kind = np.unique(np.stack([s, pi], 1), axis=0, return_inverse=True)
    counts = np.bincount(kind.ravel())
    cases = float(np.prod(counts.astype(float) + 1))
    require(cases <= _MOST_SETS, "clients", len(s), f"of few kinds: {cases:.2g} cases, at most {_MOST_SETS:,}")
    present = np.array(list(product(*(range(n + 1) for n in counts))))
    chance = np.prod([binom.pmf(present[:, g], n, kinds[g, 1]) for g, n in enumerate(counts)], axis=0)
    sums = present @ kinds[:, 0]
    share = np.divide(chance, sums, out=np.zeros_like(chance), where=sums > 0)
    weight = (share @ present / counts * kinds[:, 0])[kind.ravel()]
    return Importance(weight, weight / weight.sum())


class Interval(NamedTuple):
    """Mean weights estimated from rounds, and a confidence interval for each."""

    weight: np.ndarray  # [N]
    low: np.ndarray
    high: np.ndarray
    importance: np.ndarray  # weight / Σ weight


def sampled_importance(score: Any, available: Any, confidence: float = 0.95, batches: int = 20) -> Interval:
    """E[s_k 1_k / Σ_A s] from observed rounds bool[T, N], whatever the process.

    Rounds may be correlated: the interval is Student's over the means of `batches` stretches, each much longer than
    the correlation lasts.
    """
    here = np.asarray(available)
    require(here.ndim == 2 and len(here) >= 2 * batches, "available", here.shape, f"[{2 * batches} rounds or more, N]")
    require(0 < confidence < 1, "confidence", confidence, "in (0, 1)")
    s = weights("score", score, here.shape[1])
    present = here * s
    sums = present.sum(1, keepdims=True)
    a = np.divide(present, sums, out=np.zeros(here.shape), where=sums > 0)
    means = np.stack([stretch.mean(0) for stretch in np.array_split(a, batches)])
    weight = a.mean(0)
    half = t.ppf(0.5 + confidence / 2, batches - 1) * means.std(0, ddof=1) / np.sqrt(batches)
    return Interval(weight, weight - half, weight + half, weight / weight.sum())


def _scored(score: Any, availability: Any) -> tuple[np.ndarray, np.ndarray]:
    s = weights("score", score)
    pi = vector("availability", availability, len(s))
    require(bool(((pi >= 0) & (pi <= 1)).all() and (pi @ s) > 0), "availability", availability, "in [0, 1], not all 0")
    return s, pi
