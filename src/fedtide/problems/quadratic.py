"""Quadratics, with all optima in closed form."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import floats, require, whole
from fedtide.kinds import kinds_checked
from fedtide.problems.importance import Importance, target_importance
from fedtide.problems.limits import MOST_CLIENTS, refuse_large
from fedtide.types import Evaluation, part


@part
class Quadratic:
    """F_k(w) = ½ (w − c_k)ᵀ H_k (w − c_k), so F*_k = 0; a sample's loss is F_k(w) + zᵀ w.

    The z of a client sum to exactly 0 and have mean square norm σ_k²: a minibatch of b samples drawn with replacement
    has a gradient without bias and with E‖g − ∇F_k‖² = σ_k² / b. Build it with `quadratic(...)` or
    `random_quadratic(...)`.
    """

    hessians: Array  # [N, d, d]
    centres: Array  # [N, d]
    noise: Array  # [N, m, d] z of each sample
    importance: Array  # [N]
    start: Array  # [d] initial model

    @property
    def sizes(self) -> Any:
        return np.full(self.noise.shape[0], self.noise.shape[1], np.int32)

    def init(self, key: Array) -> Array:
        return jnp.asarray(self.start, float)

    def losses(self, params: Array, samples: Array) -> Array:
        client, sample = jnp.divmod(samples, self.noise.shape[1])
        return self._values(params, client) + jnp.asarray(self.noise)[client, sample] @ params

    def penalty(self, params: Array) -> Array:
        return jnp.zeros((), params.dtype)

    def evaluate(self, params: Array) -> Evaluation:
        values = self._values(params, jnp.arange(len(self.centres)))
        none = jnp.full_like(values, jnp.nan)
        return Evaluation(values, jnp.zeros(len(values), bool), none, none)

    def client_optima(self) -> np.ndarray:
        return np.zeros(len(self.centres))

    def optimum(self, weights: Importance | None = None) -> np.ndarray:
        """argmin Σ p_k F_k = (Σ p_k H_k)⁻¹ Σ p_k H_k c_k; p is the importance, or any `weights` (normalised).

        With p ∝ π q this is the biased optimum w_B* of fixed weights q.
        """
        p, hessians, centres = self._weights(weights), _double(self.hessians), _double(self.centres)
        curvature = np.einsum("k,kij->ij", p, hessians)
        return np.linalg.solve(curvature, np.einsum("k,kij,kj->i", p, hessians, centres))

    def value(self, w: Any, weights: Importance | None = None) -> float:
        """Σ p_k F_k(w) in float64; p is the importance, or any `weights` (normalised)."""
        offset = _double(w) - _double(self.centres)
        return float(0.5 * np.einsum("k,ki,kij,kj->", self._weights(weights), offset, _double(self.hessians), offset))

    def _weights(self, weights: Importance | None) -> np.ndarray:
        return target_importance(_double(self.importance) if weights is None else weights, self.sizes, "weights")

    def _values(self, w: Array, client: Array) -> Array:
        offset = w - jnp.asarray(self.centres)[client]
        return 0.5 * jnp.einsum("ki,kij,kj->k", offset, jnp.asarray(self.hessians)[client], offset)


@kinds_checked
def quadratic(
    hessians: Any,
    centres: Any,
    *,
    noise: float | np.ndarray = 0.0,
    noise_samples: int = 64,
    importance: Importance = "uniform",
    start: Any = None,
    seed: int = 0,
) -> Quadratic:
    """A quadratic problem from H_k [N, d, d], or h_k [N] for H_k = h_k I, and c_k [N, d].

    `noise` is σ, the standard deviation of one sample's gradient, for all clients or for each; clients have
    `noise_samples` samples (one where there is no noise). `start` is the initial model, 0 unless given.
    """
    c, h, sigma = _numbers("centres", centres), _numbers("hessians", hessians), _numbers("noise", noise)
    require(c.ndim == 2 and c.size > 0, "shape of centres", c.shape, "(clients, dimension)")
    clients, d = c.shape
    h = h[:, None, None] * np.eye(d) if h.ndim == 1 else h
    require(h.shape == (clients, d, d), "shape of hessians", h.shape, f"({clients},) or {(clients, d, d)}")
    require(np.allclose(h, h.swapaxes(1, 2)), "hessians", h, "symmetric")
    smallest = np.linalg.eigvalsh(h)[:, 0]
    require(bool((smallest > 0).all()), f"hessians[{smallest.argmin()}]", smallest.min(), "positive definite")
    require(sigma.shape in ((), (clients,)), "shape of noise", sigma.shape, f"() or ({clients},)")
    require(bool((sigma >= 0).all()), "noise", sigma, "0 or more")
    require(noise_samples >= 2 and noise_samples % 2 == 0, "noise_samples", noise_samples, "even, 2 or more")
    require(seed >= 0, "seed", seed, "0 or more")
    w = _numbers("start", np.zeros(d) if start is None else start)
    require(w.shape == (d,), "shape of start", w.shape, f"({d},)")
    z: Any = (
        _noise(np.broadcast_to(sigma, clients), noise_samples, d, seed) if sigma.any() else np.zeros((clients, 1, d))
    )
    return Quadratic(h, c, z, target_importance(importance, np.full(clients, z.shape[1])), w)


@kinds_checked
def random_quadratic(
    clients: int = 20,
    dimension: int = 10,
    *,
    condition: float = 10.0,
    spread: float = 1.0,
    noise: float = 0.0,
    noise_samples: int = 64,
    importance: Importance = "uniform",
    seed: int = 0,
) -> Quadratic:
    """Quadratics with random curvature and optima: w*, F* and every biased optimum are known exactly.

    H_k has random axes and eigenvalues from 1/`condition` to 1 (both attained where dimension ≥ 2), log-uniform in
    between; c_k ~ N(0, `spread`² I). A client's quadratic depends on the seed and its number only.
    """
    clients = whole("clients", clients, 1, MOST_CLIENTS)
    require(dimension >= 1, "dimension", dimension, "1 or more")
    refuse_large(clients=clients, dimension=dimension, rows=dimension)
    require(1 <= condition < np.inf, "condition", condition, "1 or more")
    require(0 <= spread < np.inf, "spread", spread, "0 or more")
    require(seed >= 0, "seed", seed, "0 or more")
    hessians, centres = [], []
    for k in range(clients):
        rng = np.random.default_rng([seed, k])
        centres.append(rng.normal(0, spread, dimension))
        axes, _ = np.linalg.qr(rng.normal(size=(dimension, dimension)))
        decay = rng.uniform(size=dimension)
        decay[:2] = (0.0, 1.0) if dimension > 1 else decay
        hessian = (axes * condition**-decay) @ axes.T
        hessians.append((hessian + hessian.T) / 2)
    return quadratic(hessians, centres, noise=noise, noise_samples=noise_samples, importance=importance, seed=seed)


def _noise(sigma: np.ndarray, samples: int, dimension: int, seed: int) -> np.ndarray:
    """z [N, samples, d]: pairs z, −z, so that they cancel exactly in any precision, scaled to mean square norm σ²."""
    half = np.stack(
        [np.random.default_rng([seed, k, 1]).normal(size=(samples // 2, dimension)) for k in range(len(sigma))]
    )
    half *= (sigma / np.sqrt((half**2).sum(axis=2).mean(axis=1)))[:, None, None]
    return np.stack([half, -half], axis=2).reshape(len(sigma), samples, dimension)


def _numbers(field: str, value: Any) -> Any:
    array = floats(field, value, "numbers, equally many per client")
    require(bool(np.isfinite(array).all()), field, array, "finite")
    return array


def _double(value: Any) -> np.ndarray:
    return np.asarray(value, np.float64)
