"""The clients that CA-Fed excludes, and why."""

from typing import Any, Literal, NamedTuple

import numpy as np

from fedtide.errors import number
from fedtide.kinds import kinds_checked
from fedtide.theory.checks import rates, shares, vector
from fedtide.theory.families import Family


class ExclusionTest(NamedTuple):
    """CA-Fed's test of excluding one client."""

    client: int
    sweep: Literal["correlation", "availability"]  # the order in which clients were tested
    faster: float  # by how much the remaining clients' mean gap falls
    biased: float  # by how much 4κ̄² TV² Γ rises
    excluded: bool

    @property
    def fall(self) -> float:
        return self.faster - self.biased


class Exclusions(NamedTuple):
    """The clients that CA-Fed keeps, and why."""

    kept: np.ndarray  # [N] bool
    trials: list[ExclusionTest]  # the last trial of each client decides


@kinds_checked
def exclusions(
    alpha: Any,
    availability: Any,
    correlation: Any,
    gap: Any,
    kappa_squared: float,
    threshold: float = 0.0,
    strict: bool = False,
) -> Exclusions:
    """CA-Fed's decision for loss gaps g = F̂ − F̂*, with both sides of each comparison.

    Clients are tested by descending |λ|, then by ascending π. Excluding k from the kept mass S = 1 − R lowers
    Σ p_k g_k by α_k (g_k − ḡ)/(S − α_k) and raises 4κ̄² TV² Γ by 4κ̄² Γ α_k (2R + α_k).

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, Algorithm 2.
    """
    alpha = shares("alpha", alpha)
    pi = rates("availability", availability, len(alpha))
    lam = number("correlation", vector("correlation", correlation, len(alpha)), low=-1, below=1)
    g = vector("gap", gap, len(alpha))
    price = 4 * number("kappa_squared", kappa_squared, low=0) * g.max()
    tolerance = 16 * np.finfo(float).eps * np.abs(g).max()
    kept, removed, mean = alpha > 0, 0.0, float(alpha @ g)
    trials: list[ExclusionTest] = []
    sweeps: tuple[tuple[Literal["correlation", "availability"], np.ndarray], ...]
    sweeps = (("correlation", -np.abs(lam)), ("availability", pi))
    for sweep, order in sweeps:
        for k in np.argsort(order, kind="stable"):
            rest = 1 - removed - alpha[k]
            if not kept[k] or kept.sum() == 1 or rest <= 0:
                continue
            faster, biased = alpha[k] * (g[k] - mean) / rest, alpha[k] * price * (2 * removed + alpha[k])
            slack = tolerance * alpha[k] / rest
            out = faster - biased > threshold + slack if strict else faster - biased >= threshold - slack
            trials.append(ExclusionTest(int(k), sweep, float(faster), float(biased), bool(out)))
            if out:
                kept[k] = False
                removed += alpha[k]
                mean -= faster
    return Exclusions(kept, trials)


class SettledExclusions(NamedTuple):
    """The clients that CA-Fed keeps once the model has reached the optimum of the kept clients."""

    kept: np.ndarray  # [N] bool
    trials: list[ExclusionTest]
    gap: np.ndarray  # [N] F_k − F̂*_k at that optimum
    settled: bool  # whether CA-Fed keeps the same set at its optimum; otherwise it alternates between sets

    @property
    def decisive(self) -> list[ExclusionTest]:
        """The last trial of each client that was tested."""
        return list({trial.client: trial for trial in self.trials}.values())


@kinds_checked
def settled_exclusions(
    family: Family,
    alpha: Any,
    availability: Any,
    correlation: Any,
    kappa_squared: float,
    threshold: float = 0.0,
    strict: bool = False,
    minima: Any = 0.0,
    most: int = 8,
) -> SettledExclusions:
    """A fixed point: the clients that CA-Fed keeps for the loss gaps at the optimum of the kept clients.

    The iteration starts with all clients. `minima` are the values that CA-Fed assumes for F*_k, 0 by default.
    """
    alpha = shares("alpha", alpha, family.clients)
    floor = vector("minima", minima, family.clients)
    tested: list[bytes] = []
    kept = alpha > 0
    result, gap = Exclusions(kept, []), np.zeros(len(alpha))
    for _ in range(most):
        tested.append(kept.tobytes())
        gap = family.values(family.minimise(np.where(kept, alpha, 0))) - floor
        result = exclusions(alpha, availability, correlation, gap, kappa_squared, threshold, strict)
        if result.kept.tobytes() in tested:
            break
        kept = result.kept
    return SettledExclusions(result.kept, result.trials, gap, bool((result.kept == kept).all()))
