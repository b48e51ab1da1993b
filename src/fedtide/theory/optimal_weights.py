"""Weights that minimise the bounds: for the fastest convergence, and for the best trade-off with bias.

Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
IEEE/ACM ToN 2024, Sec. III-C to III-E and Appendices D and E.
"""

from typing import Any, NamedTuple

import numpy as np

from fedtide.errors import FedtideError, number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.checks import rates, shares, vector

_ITERATIONS = 200


class FastestWeights(NamedTuple):
    """The minimiser of (½ qᵀAq + B)/(πᵀq) and its multipliers."""

    q: np.ndarray
    value: float  # ι = (½ qᵀAq + B)/(πᵀq)
    theta: float  # θ = (B − ½ qᵀAq)/Q, which the paper omits
    residual: float  # how far the KKT conditions are from holding

    @property
    def favours_available(self) -> bool:
        """Guideline A, "give more weight to more available clients", holds (at equal σ_k) only if θ > 0."""
        return self.theta > 0


@kinds_checked
def fastest_weights(curvature: Any, offset: float, availability: Any, total: float = 1.0) -> FastestWeights:
    """min (½ Σ A_k q_k² + B)/(πᵀq) over q ≥ 0, Σ q = Q (Appendix E).

    KKT: q_k = max(0, (ι π_k − θ)/A_k) with ι = (½ qᵀAq + B)/(πᵀq) and θ = (B − ½ qᵀAq)/Q. The paper's conditions leave
    θ free; it follows from stationarity in s = 1/(πᵀq). Solved by Dinkelbach's method: given ι, minimise
    ½ qᵀAq − ι πᵀq on the simplex (a sort), then update ι, which decreases to the minimum.

    In Theorem 2, A_k ∝ π_k σ_k², so q_k ∝ (ι − θ/π_k)/σ_k²: larger for the more available if θ > 0, smaller if θ < 0.
    """
    A = vector("curvature", curvature)
    require(bool((A > 0).all()), "curvature", curvature, "positive")
    pi = rates("availability", availability, len(A))
    B, Q = number("offset", offset, above=0), number("total", total, above=0)
    q = np.full(len(A), Q / len(A))
    value = _ratio(A, B, pi, q)
    theta = 0.0
    for _ in range(_ITERATIONS):
        theta = _water_level(A, value * pi, Q)
        q = np.maximum(value * pi - theta, 0) / A
        new = _ratio(A, B, pi, q)
        if new >= value * (1 - 1e-15):
            break
        value = new
    theta = (B - 0.5 * A @ q**2) / Q
    slope = A * q - value * pi + theta  # ≥ 0, and 0 where q > 0
    residual = max(np.abs(np.where(q > 0, slope, np.minimum(slope, 0))).max(), abs(q.sum() - Q))
    return FastestWeights(q, float(value), float(theta), float(residual))


def _ratio(A: np.ndarray, B: float, pi: np.ndarray, q: np.ndarray) -> float:
    return float((0.5 * A @ q**2 + B) / (pi @ q))


def _water_level(A: np.ndarray, gain: np.ndarray, total: float) -> float:
    """θ with Σ max(0, gain_k − θ)/A_k = total: the first m of the clients by gain are kept."""
    order = np.argsort(-gain, kind="stable")
    inverse, gained = np.cumsum(1 / A[order]), np.cumsum((gain / A)[order])
    levels = (gained - total) / inverse
    kept = gain[order] > levels
    return float(levels[np.flatnonzero(kept)[-1]])


class TradeOffWeights(NamedTuple):
    """The minimiser of ε_opt + ε_bias and its two terms."""

    q: np.ndarray
    optimisation: float  # (½ qᵀAq + B)/(πᵀq)
    bias: float  # c χ²(α‖p)
    residual: float  # how far the KKT conditions are from holding

    @property
    def value(self) -> float:
        return self.optimisation + self.bias


@kinds_checked
def trade_off_weights(
    alpha: Any, availability: Any, curvature: Any, offset: float, penalty: float, total: float = 1.0
) -> TradeOffWeights:
    """min (½ qᵀAq + B)/(πᵀq) + c χ²(α‖p(q)) over q > 0, Σ q = Q (eq. 14), c = κ²Γ as printed, κΓ tightened.

    In q it is not convex on Σ q = Q, contrary to Proposition 2 (which keeps πᵀq constant). With s = 1/(πᵀq) and
    y = s q it is: ½ yᵀAy/s + B s + c (Σ α_k²/(π_k y_k) − 1) under πᵀy = 1, Σ y = Q s, since p = π ⊙ y is linear in y.
    Newton's method with equality constraints; the second term keeps y positive.
    """
    A = vector("curvature", curvature)
    require(bool((A > 0).all()), "curvature", curvature, "positive")
    alpha = shares("alpha", alpha, len(A))
    require(bool((alpha > 0).all()), "alpha", alpha, "positive; leave out clients whose importance is 0")
    pi = rates("availability", availability, len(A))
    B, c, Q = number("offset", offset, above=0), number("penalty", penalty, above=0), number("total", total, above=0)
    barrier = c * alpha**2 / pi
    q = alpha / pi * (Q / (alpha / pi).sum())
    y, s = q / (pi @ q), 1 / (pi @ q)

    def objective(y: np.ndarray, s: float) -> float:
        return 0.5 * A @ y**2 / s + B * s + (barrier / y).sum() - c

    # Why not SciPy: its trust-region methods compare values, which leaves KKT residuals of up to 1e-7, and they need a
    # dense Hessian; this one is diagonal except for one row, so that 1,000 clients take milliseconds.
    smallest = np.inf
    for _ in range(_ITERATIONS):
        dy, ds, fall = _newton_step(A, B, pi, barrier, Q, y, s)
        value, length = objective(y, s), 1.0
        while not ((y + length * dy > 0).all() and s + length * ds > 0):
            length /= 2
        if fall < 1e-9 * abs(value):  # values are equal up to rounding: take full steps until they stop shrinking
            if fall >= smallest:
                break
            smallest = fall
        else:
            while length > 1e-12 and objective(y + length * dy, s + length * ds) > value - 0.25 * length * fall:
                length /= 2
        y, s = y + length * dy, s + length * ds
    y = y / (pi @ y)
    s = float(y.sum() / Q)
    residual = _residual(A, B, pi, barrier, Q, y, s)
    if residual > 1e-6:
        raise FedtideError(f"trade_off_weights: no minimum found (KKT residual {residual:.2g})")
    return TradeOffWeights(y / s, 0.5 * float(A @ y**2) / s + B * s, float((barrier / y).sum() - c), residual)


def _newton_step(
    A: np.ndarray, B: float, pi: np.ndarray, barrier: np.ndarray, Q: float, y: np.ndarray, s: float
) -> tuple[np.ndarray, float, float]:
    """(dy, ds, expected fall of the objective): the Hessian in y is diagonal, so three equations are left."""
    slope_y, slope_s = A * y / s - barrier / y**2, B - 0.5 * A @ y**2 / s**2
    diagonal, cross, corner = A / s + 2 * barrier / y**3, -A * y / s**2, A @ y**2 / s**3
    ones = np.ones_like(y)
    columns = np.stack([cross, pi, ones])  # of ds, ν, ω
    solved = columns / diagonal
    matrix = -columns @ solved.T
    matrix[0, 0] += corner
    matrix[0, 2] -= Q
    matrix[2, 0] -= Q
    right = np.array([-slope_s, 1 - pi @ y, Q * s - y.sum()]) + solved @ slope_y
    ds, nu, omega = np.linalg.solve(matrix, right)
    dy = -(slope_y + cross * ds + pi * nu + omega) / diagonal
    return dy, float(ds), float(-(slope_y @ dy + slope_s * ds))


def _residual(A: np.ndarray, B: float, pi: np.ndarray, barrier: np.ndarray, Q: float, y: np.ndarray, s: float) -> float:
    """Stationarity in y and s with the best multipliers ν, ω, and the constraints; in units of the largest slope."""
    slope = np.append(A * y / s - barrier / y**2, B - 0.5 * A @ y**2 / s**2)
    normals = np.stack([np.append(pi, 0), np.append(np.ones_like(y), -Q)], 1)
    scale = np.maximum(1.0, np.append(A * y / s + barrier / y**2, B))
    left = slope - normals @ np.linalg.lstsq(normals / scale[:, None], slope / scale, rcond=None)[0]
    return float(max(np.abs(left / scale).max(), abs(pi @ y - 1), abs(y.sum() - Q * s)))
