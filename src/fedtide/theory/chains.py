"""Markov chains: mixing, hitting and return times, and mean lengths of runs.

`TwoState` has closed forms; `Chain` computes the same quantities, under the same names, from any transition matrix.

Reference: Levin and Peres, "Markov chains and mixing times", 2nd ed., AMS 2017 (chapters 1, 4, 12).
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtide.errors import InvalidInput, require
from fedtide.kinds import kinds_checked
from fedtide.statistics import lowest_correlation, stationary_law
from fedtide.theory.checks import numbers

_MOST_STEPS = 2**40


class MixingBounds(NamedTuple):
    """(t_rel − 1) ln(1/(2ε)) ≤ t_mix(ε) ≤ t_rel ln(1/(ε μ_min)); no upper bound for a chain that is not reversible."""

    lower: float
    upper: float


class RunLengths(NamedTuple):
    """Mean lengths in rounds."""

    present: Any  # 1/((1−λ)(1−π))
    absent: Any  # 1/((1−λ)π)
    cycle: Any  # from one arrival to the next: the sum of both


class _Mixing:
    """The quantities that follow from the second eigenvalue alone."""

    second_eigenvalue: Any

    @property
    def rate(self) -> Any:
        """λ(P) = (1 + |λ₂|)/2, the mixing rate of the paper."""
        return (1 + self.second_eigenvalue) / 2

    @property
    def relaxation_time(self) -> Any:
        """1/(1 − |λ₂|)."""
        return 1 / (1 - self.second_eigenvalue)


@dataclass(frozen=True)
class TwoState(_Mixing):
    """The chain of one client, states (absent, present): P(on|on) = λ + (1−λ)π, P(on|off) = (1−λ)π.

    π and λ may be arrays: every quantity is then an array as well (matrices on the last two axes).

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, Sec. III.
    """

    availability: Any
    correlation: Any

    def __post_init__(self):
        pi, lam = numbers("availability", self.availability), numbers("correlation", self.correlation)
        try:
            pi, lam = np.broadcast_arrays(pi, lam)
        except ValueError:
            allowed = f"that of the availability, {pi.shape}, or one number"
            raise InvalidInput("shape of correlation", lam.shape, allowed) from None
        require(pi.size > 0, "availability", self.availability, "one number or more")
        require(bool(((pi > 0) & (pi <= 1)).all()), "availability", self.availability, "in (0, 1]")
        fine = (lam >= lowest_correlation(pi) - 1e-12) & (lam < 1)
        if not fine.all():
            where = np.argmin(fine)
            low = float(lowest_correlation(pi.flat[where]))
            allowed = f"in [{low:.4g}, 1) for availability {pi.flat[where]:.4g}"
            require(False, "correlation", float(lam.flat[where]), allowed)
        object.__setattr__(self, "availability", pi.astype(float))
        object.__setattr__(self, "correlation", lam.astype(float))

    @property
    def transition(self) -> np.ndarray:
        pi, lam = self.availability, self.correlation
        arrive, stay = (1 - lam) * pi, lam + (1 - lam) * pi
        return _matrix([[1 - arrive, arrive], [1 - stay, stay]])

    @property
    def stationary(self) -> np.ndarray:
        return np.stack([1 - self.availability, self.availability], -1)

    @property
    def second_eigenvalue(self) -> Any:
        """|λ|: the eigenvalues are 1 and λ."""
        return np.abs(self.correlation)

    def distance(self, steps: int) -> Any:
        """d(t) = max_x TV(Pᵗ(x, ·), μ) = |λ|ᵗ max(π, 1 − π)."""
        return self.second_eigenvalue**steps * np.maximum(self.availability, 1 - self.availability)

    def mixing_time(self, distance: float = 0.25) -> Any:
        """The smallest t with d(t) ≤ ε: ⌈ln(ε/max(π, 1−π)) / ln|λ|⌉."""
        require(0 < distance < 1, "distance", distance, "in (0, 1)")
        start = self.distance(0)
        with np.errstate(divide="ignore"):
            needed = np.log(distance / start) / np.log(self.second_eigenvalue)
        needed = np.where(self.second_eigenvalue == 0, 1.0, np.ceil(needed - 1e-12))
        return np.where(start <= distance, 0, np.maximum(needed, 1)).astype(int)[()]

    def mixing_bounds(self, distance: float = 0.25) -> MixingBounds:
        return _mixing_bounds(self.relaxation_time, np.minimum(self.availability, 1 - self.availability), distance)

    @property
    def hitting_times(self) -> np.ndarray:
        """Expected rounds from x until y: 1/((1−λ)π) to arrive, 1/((1−λ)(1−π)) to leave, 0 on the diagonal."""
        runs, nothing = self.runs, np.zeros_like(self.availability)
        return _matrix([[nothing, runs.absent], [runs.present, nothing]])

    @property
    def return_times(self) -> np.ndarray:
        """1/μ (Kac), whatever λ."""
        with np.errstate(divide="ignore"):
            return 1 / self.stationary

    @property
    def runs(self) -> RunLengths:
        pi, lam = self.availability, self.correlation
        with np.errstate(divide="ignore"):
            present, absent = 1 / ((1 - lam) * (1 - pi)), 1 / ((1 - lam) * pi)
        return RunLengths(present, absent, present + absent)

    def autocovariance(self, lag: int) -> Any:
        """Cov(1_t, 1_{t+s}) = π(1−π)λˢ."""
        return self.availability * (1 - self.availability) * self.correlation**lag

    @property
    def long_run_variance(self) -> Any:
        """Σ_s Cov(1_t, 1_{t+s}) over all s = π(1−π)(1+λ)/(1−λ): the variance of long averages."""
        lam = self.correlation
        return self.availability * (1 - self.availability) * (1 + lam) / (1 - lam)

    def mean_gap(self, cutoff: int) -> Any:
        """Mean rounds between participations, where a gap of K = `cutoff` rounds is closed and a new one begins.

        With a = P(on|off) and b = 1 − a, gaps that begin with an available client last 1 + P(off|on) (1 − b^{K−1})/a on
        average, the others (1 − b^K)/a, and P(off|on) b^{K−1}/(1 − b^K) of the latter follow each of the former.
        1/π as K → ∞.

        Reference: Wang and Ji, "A lightweight method for tackling unknown participation statistics in federated
        averaging", ICLR 2024 (FedAU's weights settle at it).
        """
        require(cutoff >= 1, "cutoff", cutoff, "1 or more rounds")
        arrive, leave = self.transition[..., 0, 1], self.transition[..., 1, 0]
        after_one, after_all = (-np.expm1(k * np.log1p(-np.minimum(arrive, 1 - 1e-16))) for k in (cutoff - 1, cutoff))
        others = leave * (1 - after_one) / after_all
        return (1 + leave * after_one / arrive + others * after_all / arrive) / (1 + others)

    @property
    def log_coefficient(self) -> Any:
        """ln of C_P = √(M−1) Σ_i ‖r_i‖ ‖l_i‖ = 2 √2 √(π² + (1−π)²) for M = 2 states (balanced eigenvectors)."""
        pi = self.availability
        return 1.5 * np.log(2.0) + 0.5 * np.log(pi**2 + (1 - pi) ** 2)


class Presence(NamedTuple):
    """Availability of clients and its persistence, one entry per client."""

    availability: np.ndarray  # π
    correlation: np.ndarray  # λ
    present_run: np.ndarray  # mean length of availability in rounds, 1/((1−λ)(1−π))
    absent_run: np.ndarray  # mean length of absence in rounds, 1/((1−λ)π)
    inflation: np.ndarray  # (1+λ)/(1−λ): so many rounds carry as much information as one independent round


@kinds_checked
def presence(availability: Any, correlation: Any) -> Presence:
    """Mean runs of two-state clients, and the factor by which correlation inflates the noise of their availability."""
    clients = TwoState(availability, correlation)
    lam, runs = clients.correlation, clients.runs
    return Presence(clients.availability, lam, runs.present, runs.absent, (1 + lam) / (1 - lam))


@dataclass(frozen=True)
class Chain(_Mixing):
    """Any irreducible and aperiodic chain with finitely many states, from its transition matrix."""

    transition: np.ndarray

    def __post_init__(self):
        matrix = numbers("transition", self.transition)
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.size > 0
        require(square, "transition", self.transition, "a square matrix of probabilities")
        stochastic = bool((matrix >= -1e-12).all() and np.allclose(matrix.sum(1), 1, atol=1e-9))
        require(stochastic, "transition", self.transition, "rows of probabilities that sum to 1")
        object.__setattr__(self, "transition", matrix)
        require(self.second_eigenvalue < 1 - 1e-12, "transition", self.transition, "irreducible and aperiodic")

    @property
    def stationary(self) -> np.ndarray:
        """μ = μP with Σμ = 1."""
        return stationary_law(self.transition)

    @property
    def second_eigenvalue(self) -> float:
        """The second largest modulus of the eigenvalues; 0 with one state."""
        moduli = np.sort(np.abs(np.linalg.eigvals(self.transition)))
        return float(moduli[-2]) if len(moduli) > 1 else 0.0

    @property
    def reversible(self) -> bool:
        """Detailed balance: μ_x P_xy = μ_y P_yx."""
        flow = self.stationary[:, None] * self.transition
        return bool(np.allclose(flow, flow.T, atol=1e-10))

    def distance(self, steps: int) -> float:
        """d(t) = max_x TV(Pᵗ(x, ·), μ)."""
        power = np.linalg.matrix_power(self.transition, steps)
        return float(np.abs(power - self.stationary).sum(1).max() / 2)

    def mixing_time(self, distance: float = 0.25) -> int:
        """The smallest t with d(t) ≤ ε, by doubling and bisection, since d does not increase."""
        require(0 < distance < 1, "distance", distance, "in (0, 1)")
        if self.distance(0) <= distance:
            return 0
        high = 1
        while self.distance(high) > distance:
            high *= 2
            require(high < _MOST_STEPS, "transition", self.transition, "a chain that mixes in fewer than 2⁴⁰ rounds")
        return bisect_left(range(high), True, lo=high // 2, key=lambda t: self.distance(t) <= distance)

    def mixing_bounds(self, distance: float = 0.25) -> MixingBounds:
        bounds = _mixing_bounds(self.relaxation_time, self.stationary.min(), distance)
        return bounds if self.reversible else MixingBounds(bounds.lower, np.inf)

    @property
    def hitting_times(self) -> np.ndarray:
        """h_xy, expected rounds from x until y: h_xy = 1 + Σ_z P_xz h_zy for x ≠ y, h_yy = 0."""
        states = len(self.transition)
        times = np.zeros((states, states))
        for y in range(states):
            others = np.arange(states) != y
            system = np.eye(states - 1) - self.transition[np.ix_(others, others)]
            times[others, y] = np.linalg.solve(system, np.ones(states - 1))
        return times

    @property
    def return_times(self) -> np.ndarray:
        """Expected rounds from x back to x: 1 + Σ_z P_xz h_zx = 1/μ_x (Kac)."""
        return 1 + np.einsum("xz,zx->x", self.transition, self.hitting_times)

    @property
    def log_coefficient(self) -> float:
        """ln of C_P = √(M−1) Σ_i ‖r_i‖ ‖l_i‖ over right and left eigenvectors with l_i r_i = 1 (diagonalisable P)."""
        _, right = np.linalg.eig(self.transition)
        require(np.linalg.cond(right) < 1e12, "transition", self.transition, "diagonalisable")
        left = np.linalg.inv(right)
        spread = (np.linalg.norm(right, axis=0) * np.linalg.norm(left, axis=1)).sum()
        return float(np.log(spread) + 0.5 * np.log(max(len(right) - 1, 1)))


@kinds_checked
def product(*chains: Chain | TwoState) -> Chain:
    """The chain of independent chains: P ⊗ Q ⊗ …. Its second eigenvalue is the largest of theirs."""
    return Chain(reduce(np.kron, (np.asarray(chain.transition) for chain in chains)))


@kinds_checked
def from_transition(transition: Any) -> TwoState:
    """(π, λ) of a 2 × 2 transition matrix, states (absent, present): λ = P(on|on) − P(on|off), π = P(on|off)/(1−λ)."""
    matrix = numbers("transition", transition)
    require(matrix.shape == (2, 2), "shape of transition", matrix.shape, "(2, 2)")
    lam = matrix[1, 1] - matrix[0, 1]
    require(lam < 1, "transition", transition, "irreducible")
    return TwoState(matrix[0, 1] / (1 - lam), lam)


class ProductConstants(NamedTuple):
    """Constants in Theorem 2 of the chain over all 2^N sets of clients, for independent two-state clients."""

    log_states: float  # ln M = N ln 2
    rate: float  # λ(P) = (1 + max_k |λ_k|)/2
    log_coefficient: float  # ln C_P
    threshold: int  # T_P: 0, since the chain is diagonalisable


@kinds_checked
def product_constants(availability: npt.ArrayLike, correlation: npt.ArrayLike) -> ProductConstants:
    """M, λ(P), C_P = √(M−1) Π_k 2√2 √(π_k² + (1−π_k)²) and T_P without building the chain of 2^N states."""
    clients = TwoState(np.atleast_1d(availability), np.atleast_1d(correlation))
    log_states = clients.availability.size * np.log(2.0)
    log_coefficient = 0.5 * (log_states + np.log1p(-np.exp(-log_states))) + clients.log_coefficient.sum()
    return ProductConstants(log_states, float(clients.rate.max()), float(log_coefficient), 0)


def _mixing_bounds(relaxation: Any, smallest: Any, distance: float) -> MixingBounds:
    require(0 < distance < 1, "distance", distance, "in (0, 1)")
    with np.errstate(divide="ignore"):
        lower = np.maximum((relaxation - 1) * np.log(1 / (2 * distance)), 0.0)
        return MixingBounds(lower, relaxation * np.log(1 / (distance * smallest)))


def _matrix(rows: list[list[Any]]) -> np.ndarray:
    return np.stack([np.stack(row, -1) for row in rows], -2)
