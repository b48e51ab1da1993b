"""CA-Fed: exclude persistently absent clients while the gain in convergence outweighs the bias."""

from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.declared import CaFed, Weighting
from fedtide.errors import check_one_of, flag, number, require
from fedtide.kinds import kinds_checked
from fedtide.participation.base import Policy
from fedtide.types import Decision, Observation, Population, QueriedLosses, derived, part

Optimum = Literal["zero", "oracle", "running_min"]
"""The estimate of the smallest losses F*: see `CorrelationAware`."""


class Losses(NamedTuple):
    optimum: Any  # [N] smallest F̂ so far; () unless it stands for F*
    loss: Array  # [N] F̂
    reported: Array  # [N] bool: has reported a loss at least once


@part
class CorrelationAware(Policy):
    """q_k = α_k / π̂_k on the kept clients, 0 on the excluded; available clients with q_k > 0 are invited.

    A client is excluded when that reduces the surrogate ε̂(q) = Σ p_k (F̂_k − F̂*_k) + 4κ̄² TV²(α, p) Γ̂ by at least
    `threshold`. Clients are tried in the order of descending |λ̂|, then of ascending π̂, in every round anew and over
    all clients. p_k = π̂_k q_k / Σ π̂_j q_j and Γ̂ = max_k (F̂_k − F̂*_k). Biased by design, by TV(α, p); unbiased with
    κ̄² → ∞ and π̂ = π. Kept clients have weight α_k / π̂_k: the step shrinks with the kept importance.

    * `smoothing` is β of eq. (17), the weight of the new loss: F̂ ← (1−β) F̂ + β F. (The authors' code gives β to the
      old loss; its "β = 0" is 1 here.) A client's first loss replaces its placeholder.
    * Losses are those of a training minibatch at the current model. A client that has not reported one has the mean
      loss of the first non-empty round.
    * `optimum`: F̂* is 0 (`zero`), the true F*_k (`oracle`), or the smallest F̂_k so far (`running_min`). The last is
      degenerate when all losses are at their minimum (Γ̂ = 0): no exclusion would then increase ε̂, so no client is
      excluded in such a round.
    * `strict`: exclude only if ε̂ falls by more than `threshold`; otherwise equality excludes too.
    * An empty round changes no loss and invites no client. Sampling among the invited (the paper's H2) is `Subsample`;
      α by data size (H3) is the problem's importance.

    Reference: Rodio, Faticanti, Marfoq, Neglia and Leonardi, "Federated learning under heterogeneous and correlated
    client availability", IEEE/ACM ToN 2024.
    """

    kappa_squared: float = 1.0
    smoothing: float = 1.0
    threshold: float = 0.0
    optimum: Optimum = "zero"
    strict: bool = False

    def __post_init__(self):
        number("participation.kappa_squared", self.kappa_squared, low=0, infinite=True)  # ∞ excludes no client
        number("participation.smoothing", self.smoothing, above=0, high=1)
        number("participation.threshold", self.threshold, low=0)
        check_one_of("participation.optimum", self.optimum, Optimum)
        flag("participation.strict", self.strict)

    needs_estimates: ClassVar[bool] = True
    needs_correlation: ClassVar[bool] = True
    needs_losses: ClassVar[QueriedLosses] = "minibatch"
    needs_optimum: ClassVar[bool] = derived(lambda self: self.optimum == "oracle")

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        if self.optimum == "running_min":
            note = "With F* as the running minimum, CA-Fed's exclusions depend on the run and are not predicted."
            return Weighting(note=note)
        oracle = self.optimum == "oracle"
        return Weighting(inverse, ca_fed=CaFed(float(self.kappa_squared), float(self.threshold), self.strict, oracle))

    def init(self, population: Population) -> Losses:
        known = self.optimum != "oracle" or population.optimum is not None
        require(known, "participation.optimum", "oracle", "zero or running_min: this run has no F*")
        zero = jnp.zeros_like(population.importance)
        smallest = zero + jnp.inf if self.optimum == "running_min" else ()
        return Losses(smallest, zero, jnp.zeros(len(zero), bool))

    def decide(self, state: Losses, observation: Observation) -> tuple[Decision, Losses]:
        state = self._remember(state, observation)
        importance = observation.population.importance
        smallest = {"zero": 0, "oracle": observation.population.optimum, "running_min": state.optimum}
        gap = state.loss - smallest[self.optimum]
        if self.optimum == "running_min":
            gap = jnp.where(state.reported, gap, 0)
        settings = self.kappa_squared, self.threshold
        kept = exclude(importance, *observation.estimate, gap, *settings, strict=self.strict)
        if self.optimum == "running_min":
            kept = kept | ((gap.max() <= 0) & (importance > 0))
        invited = observation.available & kept
        return Decision(invited, jnp.where(invited, importance / observation.estimate.availability, 0)), state

    def _remember(self, state: Losses, observation: Observation) -> Losses:
        new = observation.asked & ~state.reported
        smooth = (1 - self.smoothing) * state.loss + self.smoothing * observation.loss
        loss = jnp.where(new, observation.loss, jnp.where(observation.asked, smooth, state.loss))
        mean = jnp.where(observation.asked, observation.loss, 0).sum() / jnp.maximum(observation.asked.sum(), 1)
        first = ~state.reported.any() & observation.asked.any()
        known = state.reported | observation.asked
        loss = jnp.where(first & ~known, mean, loss)
        optimum = state.optimum
        if self.optimum == "running_min":
            optimum = jnp.where(observation.asked, jnp.minimum(optimum, loss), optimum)
        return Losses(optimum, loss, known)


@kinds_checked
def correlation_aware_weights(
    importance: np.ndarray,
    availability: np.ndarray,
    correlation: np.ndarray,
    loss_gap: np.ndarray,
    kappa_squared: float,
    threshold: float = 0.0,
    *,
    strict: bool = False,
) -> np.ndarray:
    """CA-Fed's weights: q_k = α_k / π_k for the kept clients, 0 for the excluded; float64, O(N log N).

    `importance` α sums to 1, `availability` π is in (0, 1], `correlation` λ in [−1, 1], `loss_gap` is F̂ − F̂*.

    >>> correlation_aware_weights([.5, .5], [.9, .1], [0., .9], [.1, .4], kappa_squared=0.0).round(2).tolist()
    [0.56, 0.0]
    """
    alpha, pi, lam, gap = (np.asarray(v, np.float64) for v in (importance, availability, correlation, loss_gap))
    require(alpha.ndim == 1 and len(alpha) > 0, "importance", alpha.shape, "a vector, one entry per client")
    for name, value in (("availability", pi), ("correlation", lam), ("loss_gap", gap)):
        require(value.shape == alpha.shape, f"shape of {name}", value.shape, f"{alpha.shape}, as importance")
        require(bool(np.isfinite(value).all()), name, value, "finite")
    require(bool((alpha >= 0).all()) and abs(alpha.sum() - 1) < 1e-6, "importance", alpha, "≥ 0 with sum 1")
    require(bool(((pi > 0) & (pi <= 1)).all()), "availability", pi, "in (0, 1]")
    require(bool((np.abs(lam) <= 1).all()), "correlation", lam, "in [−1, 1]")
    number("kappa_squared", kappa_squared, low=0, infinite=True)
    number("threshold", threshold, low=0)
    with jax.enable_x64(True):
        kept = np.asarray(_exclude(alpha, pi, lam, gap, float(kappa_squared), float(threshold), strict=strict))
    return np.where(kept, alpha / pi, 0.0)


def exclude(
    importance: Array,
    availability: Array,
    correlation: Array,
    gap: Array,
    kappa_squared: Array | float,
    threshold: Array | float,
    *,
    strict: bool = False,
) -> Array:
    """Mask of the clients that CA-Fed keeps.

    With q = α/π on the kept set K, p = α/S on K where S = Σ_K α, so TV(α, p) = 1 − S =: R and
    ε̂(K) = ḡ + 4κ̄² Γ̂ R² with ḡ the α-mean gap over K. Excluding k lowers it by
    α_k [(g_k − ḡ)/(S − α_k) − 4κ̄² Γ̂ (2R + α_k)]: constant time, and no difference of nearly equal numbers.
    """
    largest_gap = gap.max()
    price = jnp.where(largest_gap == 0, 0.0, 4 * kappa_squared * largest_gap)
    scale = jnp.abs(gap).max()
    # The mean is taken around one gap, so that equal gaps give exactly that gap and ties stay ties.
    mean = gap[0] + (importance * (gap - gap[0])).sum() / importance.sum()
    tolerance = 16 * jnp.finfo(gap.dtype).eps * scale

    def consider(carry: _Sums, client: tuple[Array, Array, Array]) -> tuple[_Sums, Array]:
        removed, mean, left = carry.removed, carry.mean, carry.left
        alpha, g, candidate = client
        rest = jnp.maximum(1 - removed - alpha, jnp.finfo(gap.dtype).tiny)
        fall = alpha * ((g - mean) / rest - price * (2 * removed + alpha))
        rounding = tolerance * alpha / rest
        enough = fall > threshold + rounding if strict else fall >= threshold - rounding
        out = candidate & enough & (left > 1)
        removed, lost = _add(removed, carry.removed_lost, jnp.where(out, alpha, 0))
        mean, mean_lost = _add(mean, carry.mean_lost, jnp.where(out, alpha * (mean - g) / rest, 0))
        return _Sums(removed, lost, mean, mean_lost, left - out), out

    def sweep(order: Array, kept: Array, carry: _Sums) -> tuple[Array, _Sums]:
        inputs = (importance[order], gap[order], kept[order])
        # On a GPU launching a step takes longer than the step: many steps per kernel.
        carry, out = jax.lax.scan(consider, carry, inputs, unroll=1 if jax.default_backend() == "cpu" else 32)
        return kept.at[order].set(inputs[2] & ~out), carry

    kept = importance > 0
    zero = jnp.zeros((), gap.dtype)
    carry = _Sums(zero, zero, mean, zero, kept.sum())
    kept, carry = sweep(_order(-jnp.abs(correlation)), kept, carry)
    kept, _ = sweep(_order(availability), kept, carry)
    return kept


def _order(key: Array) -> Array:
    """Clients by ascending key in [−1, 1]; those whose keys differ by rounding alone, by their number.

    Equal counts of different rounds, such as 1/2 and 3/6, are one estimate, but not always one floating-point number.
    """
    key = jnp.asarray(key)
    order = jnp.argsort(key, stable=True)
    apart = jnp.diff(key[order], prepend=-jnp.inf) > 8 * jnp.finfo(key.dtype).eps
    rank = jnp.zeros(len(key), jnp.int32).at[order].set(jnp.cumsum(apart, dtype=jnp.int32))
    return jnp.argsort(rank, stable=True)


class _Sums(NamedTuple):
    """What changes with each exclusion. Sums are compensated: a million small terms would lose digits in float32."""

    removed: Array  # R = 1 − S, the importance of the excluded clients
    removed_lost: Array
    mean: Array  # ḡ
    mean_lost: Array
    left: Array  # number of clients kept


def _add(total: Array, lost: Array, term: Array) -> tuple[Array, Array]:
    """Kahan's compensated sum: (total + term, rounding error)."""
    term = term - lost
    new = total + term
    return new, (new - total) - term


_exclude = jax.jit(exclude, static_argnames="strict")
