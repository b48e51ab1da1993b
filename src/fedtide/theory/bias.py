"""The effective importance p of clients: the objective that weights and availability really minimise.

Fixed weights q under availability π minimise F_B = Σ p_k F_k with p_k = π_k q_k / Σ π_j q_j, whatever the target α.

Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
IEEE/ACM ToN 2024, Sec. III–IV.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import binom, t

from fedtide.errors import number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.checks import rates, shares, vector, weights
from fedtide.theory.families import Family

_MOST_SETS = 2**20


@kinds_checked
def biased_importance(q: Any, availability: Any) -> np.ndarray:
    """p_k = π_k q_k / Σ_j π_j q_j: the effective importance of clients under fixed weights q."""
    q = weights("q", q)
    mass = q * rates("availability", availability, len(q))
    return mass / mass.sum()


@kinds_checked
def total_variation(a: Any, b: Any) -> float:
    """TV(a, b) = ½ Σ |a_k − b_k|."""
    a = shares("a", a)
    return float(np.abs(a - shares("b", b, len(a))).sum() / 2)


@kinds_checked
def chi_square(alpha: Any, p: Any) -> float:
    """χ²(α‖p) = Σ α_k²/p_k − 1 = Σ (α_k − p_k)²/p_k; infinite where p_k = 0 < α_k."""
    alpha = shares("alpha", alpha)
    p = shares("p", p, len(alpha))
    if ((p == 0) & (alpha > 0)).any():
        return np.inf
    kept = p > 0
    return float(((alpha - p)[kept] ** 2 / p[kept]).sum())


class Bias(NamedTuple):
    """The limit of a method that minimises Σ p_k F_k instead of Σ α_k F_k."""

    importance: np.ndarray  # p [N]
    optimum: np.ndarray  # w_B* [d]
    error: float  # F(w_B*) − F*, the cost of the bias
    distance: float  # ‖w_B* − w*‖
    total_variation: float  # TV(α, p)
    chi_square: float  # χ²(α‖p)
    gap: float  # Γ = max_k F_k(w*) − F*_k
    biased_gap: float  # Γ' = max_k F_k(w_B*) − F*_k


@kinds_checked
def bias(family: Family, alpha: Any, p: Any, optimum: np.ndarray | None = None) -> Bias:
    """The biased optimum and its distances from the true one; pass `optimum` w* if it is already known."""
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
    """Mean weights of a policy and the importance that they imply."""

    weight: np.ndarray  # E[a_k] [N]; all weights are 0 in a round without available clients
    importance: np.ndarray  # p_k = E[a_k] / Σ_j E[a_j] [N]


@kinds_checked
def normalised_importance(score: Any, availability: Any) -> Importance:
    """E[s_k 1_k / Σ_{j∈A} s_j] for independent clients, exactly, for any number of clients.

    1/x = ∫ e^{−ux} du turns the expectation of the ratio into one integral of a product:
    E[a_k] = s_k π_k ∫ e^{−u s_k} Π_{j≠k} (1 − π_j + π_j e^{−u s_j}) du, by the trapezoidal rule in ln u.

    s = α is FedAvg with ratio weights, s = α/π is AdaFed.
    """
    s, pi = _scored(score, availability)
    spacing = 1 / 32
    # The lower end is where the integrand is still 0, the upper end where the smallest score has decayed.
    log_u = np.arange(-36.0 - float(np.log(pi @ s)), float(np.log(40 / s[s > 0].min())), spacing)
    total = np.zeros(len(s))
    for u in np.array_split(np.exp(log_u)[:, None], max(1, len(log_u) * len(s) // 2**22)):
        decay = np.exp(-u * s)
        with np.errstate(divide="ignore"):
            log_factor = np.where(pi == 1, -u * s, np.log(1 - pi + pi * decay))
        total += (u * decay * np.exp(log_factor.sum(1, keepdims=True) - log_factor)).sum(0)
    weight = s * pi * total * spacing
    return Importance(weight, weight / weight.sum())


@kinds_checked
def expected_weights(score: Any, availability: Any, normalised: bool) -> Importance:
    """E[a_k] and p of a policy that gives available clients the score s_k, normalised over them or not."""
    if normalised:
        return normalised_importance(score, availability)
    s = weights("score", score)
    return Importance(s * rates("availability", availability, len(s)), biased_importance(s, availability))


@kinds_checked
def enumerated_importance(score: Any, availability: Any) -> Importance:
    """The same by enumerating all sets; clients of equal score and availability are counted together.

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


class WeightIntervals(NamedTuple):
    """Mean weights estimated from rounds, and a confidence interval for each."""

    weight: np.ndarray  # [N]
    low: np.ndarray
    high: np.ndarray
    importance: np.ndarray  # weight / Σ weight


@kinds_checked
def sampled_importance(
    score: npt.ArrayLike, available: npt.ArrayLike, confidence: float = 0.95, batches: int = 20
) -> WeightIntervals:
    """E[s_k 1_k / Σ_A s] from observed rounds bool[T, N] of any process.

    Rounds may be correlated: the interval is Student's t over the means of `batches` batches of consecutive rounds,
    each of which should be much longer than the correlation time.
    """
    rounds = np.asarray(available)
    enough = rounds.ndim == 2 and len(rounds) >= 2 * batches
    require(enough, "available", rounds.shape, f"[{2 * batches} rounds or more, N]")
    number("confidence", confidence, above=0, below=1)
    s = weights("score", score, rounds.shape[1])
    present = rounds * s
    sums = present.sum(1, keepdims=True)
    a = np.divide(present, sums, out=np.zeros(rounds.shape), where=sums > 0)
    means = np.stack([batch.mean(0) for batch in np.array_split(a, batches)])
    weight = a.mean(0)
    half = t.ppf(0.5 + confidence / 2, batches - 1) * means.std(0, ddof=1) / np.sqrt(batches)
    return WeightIntervals(weight, weight - half, weight + half, weight / weight.sum())


def _scored(score: Any, availability: Any) -> tuple[np.ndarray, np.ndarray]:
    s = weights("score", score)
    pi = vector("availability", availability, len(s))
    require(bool(((pi >= 0) & (pi <= 1)).all() and (pi @ s) > 0), "availability", availability, "in [0, 1], not all 0")
    return s, pi
