"""Families of client objectives with computable optima: quadratics and ridge softmax regression.

The rest of this package uses only `clients`, `dimension`, `values`, `gradients`, `hessian`, `products`,
`sample_covariance`, `minimise` and `client_minima` of a family.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import softmax

from fedtide.errors import FedtideError, number, require
from fedtide.kinds import kinds_checked_class
from fedtide.minimise import minimise
from fedtide.theory.checks import numbers, weights


class Family(Protocol):
    """Client objectives F_1 … F_N over R^d."""

    @property
    def clients(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    def values(self, w: np.ndarray) -> np.ndarray:
        """F_k(w) [N]."""
        ...

    def gradients(self, w: np.ndarray) -> np.ndarray:
        """∇F_k(w) [N, d]."""
        ...

    def gradient(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Σ p_k ∇F_k(w) [d]."""
        ...

    def hessian(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Σ p_k ∇²F_k(w) [d, d]."""
        ...

    def products(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """∇²F_k(w) v_k for one vector v_k per client [N, d]."""
        ...

    def sample_covariance(self, w: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Σ weight_k Cov(∇ℓ_k) [d, d], ∇ℓ_k the gradient of one random sample of client k at w."""
        ...

    def minimise(self, p: np.ndarray) -> np.ndarray:
        """argmin Σ p_k F_k [d]."""
        ...

    @property
    def client_minima(self) -> np.ndarray:
        """F*_k = min F_k [N]."""
        ...


@dataclass(frozen=True, eq=False)
class QuadraticFamily:
    """F_k(w) = ½ (w − c_k)ᵀ H_k (w − c_k), so F*_k = 0. `hessians` is [N, d, d], or [N] for H_k = h_k I.

    `covariances` [N, d, d] are those of the gradient of one sample; by default there is no noise.
    """

    hessians: np.ndarray
    centres: np.ndarray
    covariances: Any = None

    def __post_init__(self):
        c, h = numbers("centres", self.centres), numbers("hessians", self.hessians)
        require(c.ndim == 2 and c.size > 0, "shape of centres", c.shape, "(clients, dimension)")
        h = h[:, None, None] * np.eye(c.shape[1]) if h.ndim == 1 else h
        shape = (len(c), c.shape[1], c.shape[1])
        require(h.shape == shape, "shape of hessians", h.shape, f"({len(c)},) or {shape}")
        require(bool((np.linalg.eigvalsh(h)[:, 0] > 0).all()), "hessians", self.hessians, "positive definite")
        noise = np.zeros(shape) if self.covariances is None else numbers("covariances", self.covariances)
        require(noise.shape == shape, "shape of covariances", noise.shape, f"{shape}")
        object.__setattr__(self, "hessians", h)
        object.__setattr__(self, "centres", c)
        object.__setattr__(self, "covariances", noise)

    @property
    def clients(self) -> int:
        return len(self.centres)

    @property
    def dimension(self) -> int:
        return self.centres.shape[1]

    def values(self, w: np.ndarray) -> np.ndarray:
        offset = w - self.centres
        return 0.5 * np.einsum("ki,kij,kj->k", offset, self.hessians, offset)

    def gradients(self, w: np.ndarray) -> np.ndarray:
        return np.einsum("kij,kj->ki", self.hessians, w - self.centres)

    def gradient(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        return p @ self.gradients(w)

    def hessian(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        return np.einsum("k,kij->ij", p, self.hessians)

    def products(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.einsum("kij,kj->ki", self.hessians, v)

    def sample_covariance(self, w: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.einsum("k,kij->ij", weight, self.covariances)

    def after_local_steps(self, rate: float, steps: int) -> "QuadraticFamily":
        """The family whose gradients are Δ_k/(ηE) after E local gradient steps: H̃_k = (I − (I − ηH_k)^E)/(ηE).

        Its minimisers are the limits of training with fixed weights, client drift included.
        """
        values, axes = np.linalg.eigh(self.hessians)
        require(bool((rate * values < 2).all()), "rate", rate, f"below 2/L = {2 / values.max():.4g}")
        turned = (1 - (1 - rate * values) ** steps) / (rate * steps)
        hessians = np.einsum("kij,kj,klj->kil", axes, turned, axes)
        return QuadraticFamily(hessians, self.centres, self.covariances)

    def minimise(self, p: np.ndarray) -> np.ndarray:
        """(Σ p_k H_k)⁻¹ Σ p_k H_k c_k."""
        p = weights("p", p, self.clients)
        right = np.einsum("k,kij,kj->i", p, self.hessians, self.centres)
        return np.linalg.solve(np.einsum("k,kij->ij", p, self.hessians), right)

    @property
    def client_minima(self) -> np.ndarray:
        return np.zeros(self.clients)


@kinds_checked_class
@dataclass(frozen=True, eq=False)
class SoftmaxFamily:
    """F_k(W) = mean cross-entropy of softmax(W x̃) over client k's samples + (r/2) ‖W‖², x̃ = (x, 1).

    The ridge includes the bias: softmax is constant along one direction, so that μ = r exactly. `x` is [S, p] and `y`
    [S], ordered by client; `sizes` are the numbers of samples of the clients. Models are [classes · (p + 1)], ordered
    by class, with the bias last.
    """

    x: np.ndarray
    y: np.ndarray
    sizes: np.ndarray
    ridge: float
    classes: int
    _inputs: np.ndarray = field(init=False, repr=False)  # [S, p + 1] x̃
    _owner: np.ndarray = field(init=False, repr=False)  # [S] client of each sample

    def __post_init__(self):
        x, y, sizes = numbers("x", self.x), np.asarray(self.y), np.asarray(self.sizes)
        x = x.reshape(len(x), -1)
        require(bool((sizes > 0).all()), "sizes", self.sizes, "1 or more samples for each client")
        require(y.ndim == 1 and sizes.ndim == 1, "y", self.y, "the class of each sample")
        equal = len(x) == len(y) == sizes.sum()
        require(equal, "x", f"{len(x)} samples", f"{sizes.sum()}, as many as y and sizes have")
        require(bool(((y >= 0) & (y < self.classes)).all()), "y", self.y, f"classes 0 … {self.classes - 1}")
        number("ridge", self.ridge, above=0)
        object.__setattr__(self, "y", y.astype(int))
        object.__setattr__(self, "sizes", sizes.astype(int))
        object.__setattr__(self, "_inputs", np.hstack([x, np.ones((len(x), 1))]))
        object.__setattr__(self, "_owner", np.repeat(np.arange(len(sizes)), sizes))

    @property
    def clients(self) -> int:
        return len(self.sizes)

    @property
    def dimension(self) -> int:
        return self.classes * self._inputs.shape[1]

    def values(self, w: np.ndarray) -> np.ndarray:
        loss, _ = _cross_entropy(self._logits(w), self.y)
        return np.bincount(self._owner, loss, self.clients) / self.sizes + 0.5 * self.ridge * w @ w

    def gradients(self, w: np.ndarray) -> np.ndarray:
        _, residual = _cross_entropy(self._logits(w), self.y)
        return self._backwards(residual) + self.ridge * w

    def gradient(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        return self._objective(p)[0](w)[1]

    def hessian(self, w: np.ndarray, p: np.ndarray) -> np.ndarray:
        share = softmax(self._logits(w), 1)
        sample = (p / self.sizes)[self._owner][:, None]
        width, inputs = self._inputs.shape[1], self._inputs
        blocks = np.zeros((self.classes, width, self.classes, width))
        for a in range(self.classes):
            for b in range(a + 1):
                curve = sample * share[:, a : a + 1] * ((a == b) - share[:, b : b + 1])
                blocks[a, :, b] = inputs.T @ (curve * inputs)
                blocks[b, :, a] = blocks[a, :, b]
        flat = blocks.reshape(self.dimension, self.dimension)
        return flat + self.ridge * p.sum() * np.eye(self.dimension)

    def products(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        share = softmax(self._logits(w), 1)
        wide = v.reshape(self.clients, self.classes, -1)
        moved = np.concatenate([self._inputs[mine] @ row.T for mine, row in zip(self._slices, wide, strict=True)])
        moved = share * (moved - (share * moved).sum(1, keepdims=True))
        return self._backwards(moved) + self.ridge * v

    def sample_covariance(self, w: np.ndarray, weight: np.ndarray) -> np.ndarray:
        _, residual = _cross_entropy(self._logits(w), self.y)
        means = self.gradients(w) - self.ridge * w
        total = -(means.T * weight) @ means
        scale = np.sqrt((weight / self.sizes)[self._owner])[:, None]
        for rows in np.array_split(np.arange(len(self.y)), max(1, len(self.y) * self.dimension // 2**23)):
            each = (residual[rows, :, None] * (scale[rows] * self._inputs[rows])[:, None]).reshape(len(rows), -1)
            total += each.T @ each
        return total

    def minimise(self, p: np.ndarray) -> np.ndarray:
        """argmin Σ p_k F_k, to a gradient of about 1e-10 or less: ‖w − w*‖ ≤ ‖∇‖/ridge."""
        p = weights("p", p, self.clients)
        evaluate, product = self._objective(p / p.sum())

        def newton(w: np.ndarray) -> np.ndarray:
            hessian = LinearOperator((len(w), len(w)), partial(product, w))
            return w - cg(hessian, evaluate(w)[1], rtol=1e-4, maxiter=500)[0]

        w, _, slope = minimise(evaluate, np.zeros(self.dimension), 1e-6, newton, product)
        if slope > 1e-8 * max(1.0, self.ridge):
            text = "minimise: the norm of the gradient is {:.2g} at the end, not below 1e-8; a larger ridge may help"
            raise FedtideError(text.format(slope))
        return w

    @property
    def client_minima(self) -> np.ndarray:
        return self._client_minima

    @cached_property
    def _client_minima(self) -> np.ndarray:
        parts = [(self._inputs[m, :-1], self.y[m], np.array([m.stop - m.start])) for m in self._slices]
        families = [SoftmaxFamily(*part, self.ridge, self.classes) for part in parts]
        return np.array([family.values(family.minimise(np.ones(1)))[0] for family in families])

    @cached_property
    def _slices(self) -> list[slice]:
        """Each client's samples."""
        ends = np.cumsum(self.sizes)
        return [slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]

    def _backwards(self, residual: np.ndarray) -> np.ndarray:
        """[N, d]: each client's mean of residual ⊗ x̃ over its samples."""
        return np.stack([(residual[m].T @ self._inputs[m]).ravel() / (m.stop - m.start) for m in self._slices])

    def _logits(self, w: np.ndarray) -> np.ndarray:
        return self._inputs @ w.reshape(self.classes, -1).T

    def _objective(self, p: np.ndarray) -> tuple[Callable[..., tuple[float, np.ndarray]], Callable[..., Any]]:
        """Functions of w: (value, gradient), and of w and v: the Hessian at w times v."""
        used = p[self._owner] > 0
        inputs, y, sample = self._inputs[used], self.y[used], (p / self.sizes)[self._owner][used]
        ridge, total = self.ridge, p.sum()

        def evaluate(w: np.ndarray) -> tuple[float, np.ndarray]:
            loss, residual = _cross_entropy(inputs @ w.reshape(self.classes, -1).T, y)
            slope = (residual * sample[:, None]).T @ inputs
            return float(sample @ loss + 0.5 * ridge * total * w @ w), slope.ravel() + ridge * total * w

        def product(w: np.ndarray, v: np.ndarray) -> np.ndarray:
            share = softmax(inputs @ w.reshape(self.classes, -1).T, 1)
            moved = share * (inputs @ v.reshape(self.classes, -1).T)
            moved -= share * moved.sum(1, keepdims=True)
            return ((moved * sample[:, None]).T @ inputs).ravel() + ridge * total * v

        return evaluate, product


def _cross_entropy(logits: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(loss, softmax − one-hot) of each sample."""
    shifted = logits - logits.max(1, keepdims=True)
    share = np.exp(shifted)
    total = share.sum(1)
    rows = np.arange(len(y))
    loss = np.log(total) - shifted[rows, y]
    residual = share / total[:, None]
    residual[rows, y] -= 1
    return loss, residual
