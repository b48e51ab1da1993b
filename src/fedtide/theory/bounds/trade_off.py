"""Theorems 1 and 3 of the CA-Fed paper: the true error is at most convergence plus bias.

Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
IEEE/ACM ToN 2024, Theorems 1 and 3.
"""

from typing import Any, Literal

from fedtide.theory.bias import chi_square, total_variation
from fedtide.theory.bounds.base import Bound, check_version
from fedtide.theory.checks import at_least

Version = Literal["printed", "proved", "tight"]


def theorem1(
    optimisation: float, alpha: Any, p: Any, condition: float, gap: float, version: Version = "tight"
) -> Bound:
    """F(w) − F* in terms of ε_opt = F_B(w) − F_B*, χ²(α‖p) and Γ = max_k F_k(w*) − F*_k.

    * `printed`: 2κ² ε_opt + κ² χ² Γ. False in general: the factor belongs to both terms.
    * `proved`: 2κ² (ε_opt + κ² χ² Γ), which is what the paper's proof gives.
    * `tight`: 2κ (ε_opt + κ χ² Γ), from F − F* ≤ (L/2)‖w − w*‖² and ‖∇F_k‖² ≤ 2L (F_k − F*_k): every κ² becomes κ.
    """
    return _bound(optimisation, chi_square(alpha, p) * at_least("gap", gap, 0), condition, version)


def theorem3(
    optimisation: float, alpha: Any, p: Any, condition: float, biased_gap: float, version: Version = "tight"
) -> Bound:
    """The same with 4 TV²(α, p) and Γ' = max_k F_k(w_B*) − F*_k, which stays finite when clients are dropped.

    `printed` 2κ² ε_opt + 4κ² TV² Γ', `proved` 2κ² (ε_opt + 4κ² TV² Γ'), `tight` 2κ (ε_opt + 4κ TV² Γ').
    """
    mismatch = 4 * total_variation(alpha, p) ** 2 * at_least("biased_gap", biased_gap, 0)
    return _bound(optimisation, mismatch, condition, version)


def _bound(optimisation: float, mismatch: float, condition: float, version: Version) -> Bound:
    check_version(version, ("printed", "proved", "tight"))
    kappa = at_least("condition", condition, 1) ** (1 if version == "tight" else 2)
    outer = 1.0 if version == "printed" else 2 * kappa
    at_least("optimisation", optimisation, 0)
    return Bound({"optimisation": 2 * kappa * optimisation, "bias": outer * kappa * mismatch})
