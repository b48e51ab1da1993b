"""Availability of two clients that follows two correlated normals."""

import numpy as np

from fedtide.fleet.process.run_lengths import bisection

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def both_here(p: np.ndarray, q: np.ndarray, r: np.ndarray | float) -> np.ndarray:
    """P(Φ(X) < p and Φ(Y) < q) for standard normals of correlation r in [0, 1]; exact at 0 and 1.

    pq + ∫₀^{asin r} exp(−(h² + k² − 2hk sin θ) / (2 cos² θ)) dθ / 2π with h = Φ⁻¹(p), k = Φ⁻¹(q) (Plackett 1954).
    """
    from scipy.special import ndtri  # only needed with clusters: simulations without them work without SciPy

    p, q, r = np.broadcast_arrays(*(np.asarray(v, float) for v in (p, q, r)))
    inner = (p > 0) & (p < 1) & (q > 0) & (q < 1)
    h, k = (ndtri(np.where(inner, v, 0.5)) for v in (p, q))
    end = np.arcsin(np.minimum(r, 1))
    total = np.zeros(p.shape)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        # θ = end · (1 − y²), y in [0, 1]: more nodes where the integrand changes fast for r near 1.
        y = (node + 1) / 2
        theta = end * (1 - y**2)
        cosine = np.maximum(np.cos(theta) ** 2, 1e-300)
        exponent = (h**2 + k**2 - 2 * h * k * np.sin(theta)) / (2 * cosine)
        total += weight * y * np.exp(-np.minimum(exponent, 700))
    return np.where(inner, p * q + end * total / (2 * np.pi), np.where((p > 0) & (q > 0), np.minimum(p, q), 0.0))


def coupling(correlation: float, p: np.ndarray, q: np.ndarray) -> float:
    """The r in [0, 0.99] at which pairs of clients with availabilities p and q have this mean correlation."""
    spread = np.sqrt(p * (1 - p) * q * (1 - q))
    fine = spread > 1e-6
    p, q, spread = p[fine], q[fine], spread[fine]
    if correlation <= 0 or not len(p):
        return 0.0
    return bisection(0.0, 0.99, lambda r: float(((both_here(p, q, r) - p * q) / spread).mean()) < correlation)
