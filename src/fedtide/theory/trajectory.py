"""The mean path of a run and the covariance of runs around it, by round and in the stationary limit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedtide.errors import number, require
from fedtide.kinds import kinds_checked
from fedtide.theory.chains import TwoState
from fedtide.theory.checks import rates, shares, vector, weights
from fedtide.theory.families import Family


class Parts(NamedTuple):
    """The parts of a predicted error."""

    convergence: float
    bias: float
    variance: float

    @property
    def largest(self) -> str:
        """The name of the largest part."""
        return max(self._fields, key=lambda name: getattr(self, name))


class Path(NamedTuple):
    """The predicted error F(w_t) − F* at some rounds: the sum of convergence, bias and variance."""

    rounds: np.ndarray  # [P] recorded rounds, including the last
    convergence: np.ndarray  # [P] remaining error of the mean path
    bias: float  # F(w_B*) − F*, which longer training does not reduce
    variance: np.ndarray  # [P] ½ tr(∇²F Σ_t), from random availability and minibatches
    end: np.ndarray  # [d] the mean path after T rounds
    spread: float  # √tr Σ_T: the predicted root mean square distance of a run from the mean path

    @property
    def error(self) -> np.ndarray:
        return self.convergence + self.bias + self.variance

    @property
    def parts(self) -> "Parts":
        """The parts of the error after the last round."""
        return Parts(float(self.convergence[-1]), self.bias, float(self.variance[-1]))


@kinds_checked
def predicted_path(
    family: Family,
    alpha: Any,
    q: Any,
    availability: Any,
    correlation: Any,
    start: Any,
    step: float,
    rounds: int,
    *,
    dynamics: Family | None = None,
    samples: float = np.inf,
    optimum: np.ndarray | None = None,
    limit: np.ndarray | None = None,
    variance: bool = True,
    together: Any = None,
    shared: Any = None,
    record: Any = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Path:
    """The mean path of w ← w − h Σ_{k∈A} q_k ∇F_k(w) and the covariance of a run around it, to first order in h.

    `step` h = η_s η E. With x the deviation from the mean path, M = Σ π_k q_k ∇²F_k at the limit and
    c_k = E[(1_k − π_k) x],
    c_k ← λ_k ((I − hM) c_k − h q_k π_k (1−π_k) ∇F_k),
    Σ ← (I − hM) Σ (I − hM) − h Σ_k q_k ((I − hM) c_k ∇F_kᵀ + its transpose) + h² Σ_k q_k² π_k (1−π_k) ∇F_k ∇F_kᵀ
    + h² Σ_k π_k q_k² Cov_k/n, where `samples` n are those of a client in a round (E minibatches of b: n = E b).
    At the limit, correlation multiplies each client's contribution to the variance by about (1+λ_k)/(1−λ_k).

    `together` is the cluster of each client, where clients of a cluster are available together (with equal π and λ).
    `record` are the rounds to record, by default all. `dynamics` is the family of the updates where it differs from
    `family` (`QuadraticFamily.after_local_steps`); `optimum` w* and `limit` w_B* can be passed if already known.

    For a policy that normalises, pass q_k = E[a_k]/π_k, and as `shared` those numbers before any factor multiplies
    them: an available client takes weight from the others, so that only its difference from their mean direction is
    noise. This matters during convergence, not at the limit, where the mean direction is 0.
    """
    require(rounds >= 1, "rounds", rounds, "1 or more")
    walk = _Walk(family, alpha, q, availability, correlation, step, dynamics, samples, limit)
    alpha, true = walk.alpha, family.minimise(walk.alpha) if optimum is None else optimum
    lowest, floor = float(alpha @ family.values(true)), float(alpha @ family.values(walk.limit))
    noise = _Covariance(walk, together, shared) if variance else None
    w = np.asarray(start, float).copy()
    shown = np.arange(rounds + 1) if record is None else np.unique([*np.asarray(record, int), rounds])
    require(bool((shown >= 0).all() and shown[-1] == rounds), "record", record, f"rounds from 0 to {rounds}")
    value, size = np.full(len(shown), np.inf), np.zeros(len(shown))
    at = 0
    for t in range(rounds + 1):
        if t == shown[at]:
            value[at] = alpha @ family.values(w)
            size[at] = 0.0 if noise is None else noise.excess
            if t == rounds or not value[at] <= 1e12 * max(1.0, abs(value[0])):
                break  # at the end, or diverged: the rest stays infinite
            at += 1
        gradients = walk.dynamics.gradients(w)
        if noise is not None:
            noise.advance(gradients)
        w = w - walk.step * (walk.mass @ gradients)
        progress(t + 1)
    spread = float(np.sqrt(max(np.trace(noise.covariance), 0))) if noise is not None else float("nan")
    return Path(shown, value - floor, max(floor - lowest, 0.0), size, w, spread)


@dataclass
class _Walk:
    """w ← w − h Σ_{k∈A} q_k ∇F_k(w): the arguments of `predicted_path` and `stationary_variance`, once checked."""

    family: Family  # the objective
    alpha: Any
    q: Any
    pi: Any
    lam: Any
    step: float
    dynamics: Any  # the family of the updates
    samples: float
    limit: Any

    def __post_init__(self):
        clients = self.family.clients
        self.alpha, self.q = shares("alpha", self.alpha, clients), weights("q", self.q, clients)
        self.pi = rates("availability", self.pi, clients)
        self.lam = TwoState(self.pi, vector("correlation", self.lam, clients)).correlation
        number("step", self.step, above=0)
        self.mass = self.pi * self.q
        self.dynamics = self.family if self.dynamics is None else self.dynamics
        self.limit = self.dynamics.minimise(self.mass) if self.limit is None else self.limit


class _Covariance:
    """The covariance of a run around the mean path, in the axes of M, where I − hM is a vector."""

    def __init__(self, walk: _Walk, together: Any = None, shared: Any = None):
        q, pi, h, limit = walk.q, walk.pi, walk.step, walk.limit
        values, self.axes = np.linalg.eigh(walk.dynamics.hessian(limit, walk.mass))
        self.contraction = 1 - h * values
        self.curvature = self.axes.T @ walk.family.hessian(limit, walk.alpha) @ self.axes
        minibatches = self.axes.T @ walk.family.sample_covariance(limit, pi * q**2) @ self.axes / walk.samples
        self.sampling = h**2 * minibatches
        self.covariance = np.zeros_like(self.curvature)
        # Clients that are available together act as one client, whose contribution is the sum of theirs.
        cluster = np.arange(len(q)) if together is None else np.unique(together, return_inverse=True)[1].ravel()
        first = np.unique(cluster, return_index=True)[1]
        self.sums = None if together is None else (np.arange(len(first))[:, None] == cluster).astype(float)
        self.mass, self.shared = walk.mass, None if shared is None else h * vector("shared", shared, len(q))
        self.gain, self.lam, self.variance = h * q, walk.lam[first], (pi * (1 - pi))[first]
        self.with_client = np.zeros((len(first), len(limit)))  # c_k

    @property
    def excess(self) -> float:
        """½ tr(∇²F Σ)."""
        return 0.5 * float((self.curvature * self.covariance).sum())

    def steps(self, gradients: np.ndarray) -> np.ndarray:
        """The change of the model by the availability of each client (or cluster)."""
        turned = gradients @ self.axes
        moves = self.gain[:, None] * turned
        if self.shared is not None:
            moves = moves - self.shared[:, None] * (self.mass @ turned)
        return moves if self.sums is None else self.sums @ moves

    def advance(self, gradients: np.ndarray) -> None:
        moves = self.steps(gradients)
        moved = self.contraction * self.with_client
        cross = moved.T @ moves
        fresh = (moves.T * self.variance) @ moves
        kept = self.contraction[:, None] * self.covariance * self.contraction
        self.covariance = kept - cross - cross.T + fresh + self.sampling
        self.with_client = self.lam[:, None] * (moved - self.variance[:, None] * moves)


class StationaryVariance(NamedTuple):
    """The stationary variance of a run with constant steps around its limit."""

    excess: float  # ½ tr(∇²F Σ)
    distance: float  # √tr Σ, the root mean square of ‖w − w_B*‖
    covariance: np.ndarray  # Σ [d, d]
    shift: np.ndarray  # [d] E[w] − w_B*, of the same order in h


@kinds_checked
def stationary_variance(
    family: Family,
    alpha: Any,
    q: Any,
    availability: Any,
    correlation: Any,
    step: float,
    *,
    dynamics: Family | None = None,
    samples: float = np.inf,
    limit: np.ndarray | None = None,
) -> StationaryVariance:
    """The stationary solution of the recursion of `predicted_path`, in closed form.

    In the axes of M, with a_i = 1 − h m_i and u_k the gradient of client k at the limit,
    Σ_ij = h² Σ_k q_k² π_k(1−π_k) u_ki u_kj [1 + a_iλ_k/(1−a_iλ_k) + a_jλ_k/(1−a_jλ_k)] / (1 − a_i a_j) + minibatches:
    O(h), and proportional to (1+λ)/(1−λ) as h → 0. An available client was probably available in earlier rounds, so
    the model is already biased towards it: the mean shifts by −M⁻¹ Σ_k q_k ∇²F_k c_k with c_k = E[(1_k − π_k) x],
    which is 0 for λ = 0.
    """
    walk = _Walk(family, alpha, q, availability, correlation, step, dynamics, samples, limit)
    setup, lam = _Covariance(walk), walk.lam[:, None]
    a, moves = setup.contraction, setup.steps(walk.dynamics.gradients(walk.limit))
    require(bool((np.abs(a) < 1).all()), "step", step, f"below {2 * step / (1 - a.min()):.4g}, or training diverges")
    scaled = moves * setup.variance[:, None]
    lagged = scaled * (lam * a / (1 - lam * a))
    sums = scaled.T @ moves + lagged.T @ moves + moves.T @ lagged
    covariance = (sums + setup.sampling) / (1 - np.outer(a, a))
    excess, turned = 0.5 * float((setup.curvature * covariance).sum()), setup.axes @ covariance @ setup.axes.T
    means = -(scaled * (lam / (1 - lam * a))) @ setup.axes.T  # c_k
    force = walk.q @ walk.dynamics.products(walk.limit, means)
    shift = -setup.axes @ ((setup.axes.T @ force) * step / (1 - a))
    return StationaryVariance(excess, float(np.sqrt(np.trace(covariance))), turned, shift)


class Overtaking(NamedTuple):
    """The round in which one predicted path overtakes another."""

    leader: str  # the lower at the end
    overtaken: str
    round: int | None  # the first round from which the leader stays ahead; None if it always was


@kinds_checked
def overtaking(first: tuple[str, np.ndarray], second: tuple[str, np.ndarray]) -> Overtaking:
    """Which of two error curves ends lower, and from which round on it is lower."""
    (leader, low), (other, high) = (first, second) if first[1][-1] <= second[1][-1] else (second, first)
    behind = np.flatnonzero(low > high)
    return Overtaking(leader, other, int(behind[-1]) + 1 if len(behind) else None)
