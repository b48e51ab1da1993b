"""The bounds of CA-Fed: the error is at most convergence plus bias, and convergence slows down with correlation.

Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
IEEE/ACM ToN 2024, Theorems 1 to 3.
"""

from typing import Any, Literal

import numpy as np

from fedtide.errors import check_one_of, number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.bias import chi_square, total_variation
from fedtide.theory.bounds.base import Bound
from fedtide.theory.chains import TwoState, product_constants
from fedtide.theory.checks import rates, vector, weights
from fedtide.theory.constants import Constants

TradeOffVersion = Literal["printed", "proved", "tight"]
ConvergenceVersion = Literal["printed", "with_divisor", "repaired"]


@kinds_checked
def theorem1(
    optimisation: float, alpha: Any, p: Any, condition: float, gap: float, version: TradeOffVersion = "tight"
) -> Bound:
    """F(w) − F* in terms of ε_opt = F_B(w) − F_B*, χ²(α‖p) and Γ = max_k F_k(w*) − F*_k.

    * `printed`: 2κ² ε_opt + κ² χ² Γ. False in general: the factor belongs to both terms.
    * `proved`: 2κ² (ε_opt + κ² χ² Γ), which is what the paper's proof gives.
    * `tight`: 2κ (ε_opt + κ χ² Γ), from F − F* ≤ (L/2)‖w − w*‖² and ‖∇F_k‖² ≤ 2L (F_k − F*_k): every κ² becomes κ.
    """
    return _trade_off(optimisation, chi_square(alpha, p) * number("gap", gap, low=0), condition, version)


@kinds_checked
def theorem3(
    optimisation: float, alpha: Any, p: Any, condition: float, biased_gap: float, version: TradeOffVersion = "tight"
) -> Bound:
    """The same with 4 TV²(α, p) and Γ' = max_k F_k(w_B*) − F*_k, which stays finite when clients are dropped.

    `printed` 2κ² ε_opt + 4κ² TV² Γ', `proved` 2κ² (ε_opt + 4κ² TV² Γ'), `tight` 2κ (ε_opt + 4κ TV² Γ').
    """
    mismatch = 4 * total_variation(alpha, p) ** 2 * number("biased_gap", biased_gap, low=0)
    return _trade_off(optimisation, mismatch, condition, version)


def _trade_off(optimisation: float, mismatch: float, condition: float, version: TradeOffVersion) -> Bound:
    check_one_of("version", version, TradeOffVersion)
    kappa = number("condition", condition, low=1) ** (1 if version == "tight" else 2)
    outer = 1.0 if version == "printed" else 2 * kappa
    number("optimisation", optimisation, low=0)
    return Bound({"optimisation": 2 * kappa * optimisation, "bias": outer * kappa * mismatch})


@kinds_checked
def theorem2(
    q: Any,
    availability: Any,
    correlation: Any,
    constants: Constants,
    steps: Any,
    local_steps: int,
    biased_gap: float,
    version: ConvergenceVersion = "repaired",
) -> Bound:
    """E[F_B(w̄_T) − F_B*] for w̄_T, the average of w_1 … w_T weighted by the step sizes η_1 ≥ η_2 ≥ … (`steps`).

    Clients are independent two-state chains started in their stationary law; the server projects to W and has rate 1
    (for another rate η_s, pass η_s q). `biased_gap` is Γ' = max_k F_k(w_B*) − F*_k. With Q = Σ q and E local steps the
    terms are `start`, `noise` (of gradients), `heterogeneity`, `local_steps`, `correlation`, and as printed also
    `states` (with M = 2^N sets of clients) and `burn_in`. Infinite sums are cut at T.

    * `printed`: the right-hand side of eq. (13), which lacks the division by Σ η_t and is therefore not a bound.
    * `with_divisor`: divided by Σ η_t, as in the proof.
    * `repaired`: Lemma 8 multiplies a sum that may be negative by a lower bound of its coefficient; correcting for
      that turns Γ' into Γ' + H, at a quarter of the other constants. Only marginals of single clients matter, for which
      |P(k ∈ A_t | A_{t−J−1}) − π_k| = |λ_k|^{J+1} |1_k − π_k|, so that neither M = 2^N nor C_P appears; the window J
      of each round is the best of a grid.
    """
    check_one_of("version", version, ConvergenceVersion)
    q = weights("q", q)
    pi = rates("availability", availability, len(q))
    lam = TwoState(pi, vector("correlation", correlation, len(q))).correlation
    eta = vector("steps", steps)
    require(bool((eta > 0).all() and (np.diff(eta) <= 0).all()), "steps", steps, "positive and not increasing")
    E = local_steps
    require(E >= 1, "local_steps", E, "1 or more")
    limit = 1 / (2 * constants.smoothness * (1 + 2 * E * q.sum()))
    require(eta[0] <= limit * (1 + 1e-9), "steps[0]", eta[0], f"at most 1/(2L(1 + 2EQ)) = {limit:.4g}")
    number("biased_gap", biased_gap, low=0)
    if version == "repaired":
        return _repaired(q, pi, lam, constants, eta, E, biased_gap)
    bound = _printed(q, pi, lam, constants, eta, E, biased_gap, ceiling=version == "with_divisor")
    return bound if version == "printed" else bound / eta.sum()


def _printed(
    q: np.ndarray, pi: np.ndarray, lam: np.ndarray, c: Constants, eta: np.ndarray, E: int, gap: float, *, ceiling: bool
) -> Bound:
    """Before the division; `ceiling` takes φ/ln(1/λ(P)) as 2EDGQ Σ J_t η²_{t−J_t} (eq. 211); (142) rounds J_t down."""
    chain = product_constants(pi, lam)
    t, Q, mass, square = np.arange(1, len(eta) + 1), q.sum(), pi @ q, (eta**2).sum()
    log_term = np.maximum(np.log(2 * c.height * t) + chain.log_coefficient, 0)
    J = np.minimum(np.maximum(np.ceil(log_term / -np.log(chain.rate)), chain.threshold), t).astype(int)
    earlier = np.append(eta[0], eta)[t - J] ** 2  # η_0 := η_1
    window = J if ceiling else log_term / -np.log(chain.rate)
    with np.errstate(over="ignore"):  # 2^N sets of clients
        states = 0.25 * np.exp(chain.log_states) * Q * (eta**2 + 1.0 / t**2).sum() / mass
    return Bound(
        {
            "start": 2 * c.diameter**2 / E / mass,
            "noise": (E + 1) * (pi * q**2 @ c.noise) * square / mass,
            "states": states,
            "heterogeneity": 4 * c.smoothness * (1 + E * Q) * gap * square,
            "local_steps": 2 * E**2 * c.gradient**2 * square,
            "burn_in": c.height * eta[: max(chain.threshold - 1, 0)].sum(),
            "correlation": 2 * E * c.slope * c.gradient * Q * (window @ earlier),
        }
    )


def _repaired(
    q: np.ndarray, pi: np.ndarray, lam: np.ndarray, c: Constants, eta: np.ndarray, E: int, gap: float
) -> Bound:
    Q, mass, square = q.sum(), pi @ q, (eta**2).sum()
    bound = Bound(
        {
            "start": c.diameter**2 / (2 * E) / mass,
            "noise": 0.25 * (E + 1) * (pi * q**2 @ c.noise) * square / mass,
            "heterogeneity": 2 * c.smoothness * (1 + E * Q) * (gap + c.height) * square,
            "local_steps": 0.5 * E**2 * c.gradient**2 * square,
            "correlation": _mixing(q * pi * (1 - pi) / mass, lam, c, eta, E * Q),
        }
    )
    return bound / eta.sum()


def _mixing(share: np.ndarray, lam: np.ndarray, c: Constants, eta: np.ndarray, EQ: float) -> float:
    """Σ_t η_t min_J { 2H Σ_k share_k |λ_k|^{J+1} + 2 D G E Q Σ_{s=t−J}^{t−1} η_s }.

    The model of J rounds ago depends on availability up to round t−J−1 only. With J = t−1 that is the first model,
    which depends on none, so the first part is 0.
    """
    T = len(eta)
    upto = np.append(0.0, np.cumsum(eta))  # η_1 + … + η_t
    t = np.arange(T)  # rounds so far, J ≤ t
    best = 2 * c.slope * c.gradient * EQ * upto[t]
    J = 0  # then 1, 2, 3, 4, 5, 6, 7, 8, 10, …: each about a quarter longer
    while T > J:
        forgotten = 2 * c.height * float(share @ np.abs(lam) ** (J + 1))
        moved = 2 * c.slope * c.gradient * EQ * (upto[t[J:]] - upto[t[J:] - J])
        best[J:] = np.minimum(best[J:], forgotten + moved)
        if forgotten == 0:
            break
        J = max(J + 1, J * 5 // 4)
    return float(eta @ best)
