"""What a federation will see, before it is simulated: who is there, where methods end, how fast they get there."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from fedtide.errors import require
from fedtide.theory.bias import Importance, biased_importance, normalised_importance
from fedtide.theory.chains import TwoState
from fedtide.theory.checks import at_least, correlations, positive, rates, shares, vector, weights
from fedtide.theory.families import Family


class Presence(NamedTuple):
    """How often and how persistently clients are seen, one entry a client."""

    availability: np.ndarray  # π
    correlation: np.ndarray  # λ
    present_run: np.ndarray  # mean rounds in a row there, 1/((1−λ)(1−π))
    absent_run: np.ndarray  # mean rounds in a row away, 1/((1−λ)π)
    inflation: np.ndarray  # (1+λ)/(1−λ): one round tells as much as this many rounds of such a client


def presence(availability: Any, correlation: Any) -> Presence:
    """Mean runs of two-state clients, and by how much correlation inflates the noise of their absence."""
    clients = TwoState(availability, correlation)
    lam, runs = clients.correlation, clients.runs
    return Presence(clients.availability, lam, runs.present, runs.absent, (1 + lam) / (1 - lam))


def expected_weights(score: Any, availability: Any, normalised: bool) -> Importance:
    """E[a_k] and p of a policy that gives whoever is there the score s_k, normalised over them or not."""
    if normalised:
        return normalised_importance(score, availability)
    s = weights("score", score)
    return Importance(s * rates("availability", availability, len(s)), biased_importance(s, availability))


class Trial(NamedTuple):
    """CA-Fed considers leaving one client out."""

    client: int
    sweep: Literal["correlation", "availability"]  # the order in which it came up
    faster: float  # by how much the remaining clients' mean gap falls
    biased: float  # by how much 4κ̄² TV² Γ rises
    excluded: bool

    @property
    def fall(self) -> float:
        return self.faster - self.biased


class Exclusions(NamedTuple):
    """Whom CA-Fed keeps, and why."""

    kept: np.ndarray  # [N] bool
    trials: list[Trial]  # the last trial of each client decides


def exclusions(
    alpha: Any,
    availability: Any,
    correlation: Any,
    gap: Any,
    kappa_squared: float,
    threshold: float = 0.0,
    strict: bool = False,
) -> Exclusions:
    """CA-Fed's decision for loss gaps g = F̂ − F̂*, with the two sides of each comparison.

    Clients are tried by descending |λ|, then by ascending π. Leaving k out of the kept mass S = 1 − R lowers
    Σ p_k g_k by α_k (g_k − ḡ)/(S − α_k) and raises 4κ̄² TV² Γ by 4κ̄² Γ α_k (2R + α_k).

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, Algorithm 2.
    """
    alpha = shares("alpha", alpha)
    pi, lam = rates("availability", availability, len(alpha)), correlations("correlation", correlation, len(alpha))
    g = vector("gap", gap, len(alpha))
    price = 4 * at_least("kappa_squared", kappa_squared, 0) * g.max()
    tolerance = 16 * np.finfo(float).eps * np.abs(g).max()
    kept, removed, mean = alpha > 0, 0.0, float(alpha @ g)
    trials: list[Trial] = []
    orders = {"correlation": np.argsort(-np.abs(lam), kind="stable"), "availability": np.argsort(pi, kind="stable")}
    for sweep, order in orders.items():
        for k in order:
            rest = 1 - removed - alpha[k]
            if not kept[k] or kept.sum() == 1 or rest <= 0:
                continue
            faster, biased = alpha[k] * (g[k] - mean) / rest, alpha[k] * price * (2 * removed + alpha[k])
            slack = tolerance * alpha[k] / rest
            out = faster - biased > threshold + slack if strict else faster - biased >= threshold - slack
            trials.append(Trial(int(k), sweep, float(faster), float(biased), bool(out)))  # pyright: ignore[reportArgumentType]
            if out:
                kept[k] = False
                removed += alpha[k]
                mean -= faster
    return Exclusions(kept, trials)


class SettledExclusions(NamedTuple):
    """Whom CA-Fed keeps once the model has reached the optimum of the kept."""

    kept: np.ndarray  # [N] bool
    trials: list[Trial]
    gap: np.ndarray  # [N] F_k − F̂*_k there
    settled: bool  # whether the kept set and its optimum agree; otherwise CA-Fed goes back and forth


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
    """Repeats: optimum of the kept clients, gaps there, whom CA-Fed keeps for those gaps; from everyone kept.

    `minima` is what CA-Fed takes for F*_k: 0 unless given.
    """
    alpha = shares("alpha", alpha, family.clients)
    floor = vector("minima", minima, family.clients)
    seen: list[bytes] = []
    kept = alpha > 0
    found, gap = Exclusions(kept, []), np.zeros(len(alpha))
    for _ in range(most):
        seen.append(kept.tobytes())
        gap = family.values(family.minimise(np.where(kept, alpha, 0))) - floor
        found = exclusions(alpha, availability, correlation, gap, kappa_squared, threshold, strict)
        if found.kept.tobytes() in seen:
            break
        kept = found.kept
    return SettledExclusions(found.kept, found.trials, gap, bool((found.kept == kept).all()))


class Path(NamedTuple):
    """The predicted error F(w_t) − F* at some rounds, and what it is made of: it is the sum of the three."""

    rounds: np.ndarray  # [P] rounds looked at, the last included
    convergence: np.ndarray  # [P] what the mean path has still to go
    bias: float  # F(w_B*) − F*: what stays however long one trains
    cloud: np.ndarray  # [P] ½ tr(∇²F Σ_t), from who happens to be there and from minibatches
    end: np.ndarray  # [d] where the mean path is after T rounds
    spread: float  # √tr Σ_T: the predicted distance of a run from the mean path

    @property
    def error(self) -> np.ndarray:
        return self.convergence + self.bias + self.cloud


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
    cloud: bool = True,
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
    At the limit this is a factor of about (1+λ_k)/(1−λ_k) for each client: what correlation costs.

    `together` is the cluster of each client, for clients that come and go as one (alike in π and λ). `record` are the
    rounds to look at, all unless given. `dynamics` is the family of the updates where it differs from `family`
    (`QuadraticFamily.after_local_steps`); `optimum` w* and `limit` w_B* where they are known already.

    For a policy that normalises pass q_k = E[a_k]/π_k, and as `shared` those numbers before any factor multiplies them:
    whoever comes takes weight from the others, so that only its difference from their mean direction is noise. That
    matters on the way, not at the limit, where the mean is 0.
    """
    alpha = shares("alpha", alpha, family.clients)
    q = weights("q", q, family.clients)
    pi = rates("availability", availability, family.clients)
    lam = TwoState(pi, vector("correlation", correlation, family.clients)).correlation
    h = positive("step", step)
    require(rounds >= 1, "rounds", rounds, "1 or more")
    moves = family if dynamics is None else dynamics
    mass = pi * q
    true = family.minimise(alpha) if optimum is None else optimum
    ends = moves.minimise(mass) if limit is None else limit
    lowest, floor = float(alpha @ family.values(true)), float(alpha @ family.values(ends))
    w = np.asarray(start, float).copy()
    taken = None if shared is None else vector("shared", shared, family.clients)
    noise = _Cloud(family, moves, alpha, q, pi, lam, h, ends, samples, together, taken) if cloud else None
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
        gradients = moves.gradients(w)
        if noise is not None:
            noise.advance(gradients)
        w = w - h * (mass @ gradients)
        progress(t + 1)
    spread = float(np.sqrt(max(np.trace(noise.covariance), 0))) if noise is not None else float("nan")
    return Path(shown, value - floor, max(floor - lowest, 0.0), size, w, spread)


class _Cloud:
    """The covariance of a run around the mean path, in the axes of M, where I − hM is a vector."""

    def __init__(
        self,
        family: Family,
        moves: Family,
        alpha: np.ndarray,
        q: np.ndarray,
        pi: np.ndarray,
        lam: np.ndarray,
        h: float,
        limit: np.ndarray,
        samples: float,
        together: Any,
        shared: np.ndarray | None = None,
    ):
        values, self.axes = np.linalg.eigh(moves.hessian(limit, pi * q))
        self.keep = 1 - h * values
        self.lean = self.axes.T @ family.hessian(limit, alpha) @ self.axes
        minibatches = self.axes.T @ family.sample_covariance(limit, pi * q**2) @ self.axes / samples
        self.white = h**2 * minibatches
        self.covariance = np.zeros_like(self.lean)
        # Clients that come and go together act as one, whose push is the sum of theirs.
        cluster = np.arange(len(q)) if together is None else np.unique(together, return_inverse=True)[1].ravel()
        first = np.unique(cluster, return_index=True)[1]
        self.sums = None if together is None else (np.arange(len(first))[:, None] == cluster).astype(float)
        self.mass, self.taken = pi * q, None if shared is None else h * shared
        self.push, self.lam, self.variance = h * q, lam[first], (pi * (1 - pi))[first]
        self.with_client = np.zeros((len(first), len(limit)))  # c_k

    @property
    def excess(self) -> float:
        """½ tr(∇²F Σ)."""
        return 0.5 * float((self.lean * self.covariance).sum())

    def pushes(self, gradients: np.ndarray) -> np.ndarray:
        """What a client's (or a cluster's) presence moves."""
        turned = gradients @ self.axes
        pushed = self.push[:, None] * turned
        if self.taken is not None:
            pushed = pushed - self.taken[:, None] * (self.mass @ turned)
        return pushed if self.sums is None else self.sums @ pushed

    def advance(self, gradients: np.ndarray) -> None:
        pushed = self.pushes(gradients)
        moved = self.keep * self.with_client
        cross = moved.T @ pushed
        fresh = (pushed.T * self.variance) @ pushed
        kept = self.keep[:, None] * self.covariance * self.keep
        self.covariance = kept - cross - cross.T + fresh + self.white
        self.with_client = self.lam[:, None] * (moved - self.variance[:, None] * pushed)


class Cloud(NamedTuple):
    """The stationary spread of a run with constant steps around its limit."""

    excess: float  # ½ tr(∇²F Σ)
    distance: float  # √tr Σ, the root mean square of ‖w − w_B*‖
    covariance: np.ndarray  # Σ [d, d]
    shift: np.ndarray  # [d] E[w] − w_B*, of the same order in h


def stationary_cloud(
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
) -> Cloud:
    """Where the recursion of `predicted_path` settles, in closed form.

    In the axes of M, with a_i = 1 − h m_i and u_k the gradient of client k at the limit,
    Σ_ij = h² Σ_k q_k² π_k(1−π_k) u_ki u_kj [1 + a_iλ_k/(1−a_iλ_k) + a_jλ_k/(1−a_jλ_k)] / (1 − a_i a_j) + minibatches:
    O(h), and proportional to (1+λ)/(1−λ) as h → 0. A client that is there tends to have been there, so the model
    already leans to it: the mean moves by −M⁻¹ Σ_k q_k ∇²F_k c_k, c_k = E[(1_k − π_k) x], which is 0 for λ = 0.
    """
    alpha = shares("alpha", alpha, family.clients)
    q = weights("q", q, family.clients)
    pi = rates("availability", availability, family.clients)
    lam = TwoState(pi, vector("correlation", correlation, family.clients)).correlation
    moves = family if dynamics is None else dynamics
    ends = moves.minimise(pi * q) if limit is None else limit
    setup = _Cloud(family, moves, alpha, q, pi, lam, positive("step", step), ends, samples, None)
    a, pushed = setup.keep, setup.pushes(moves.gradients(ends))
    require(bool((np.abs(a) < 1).all()), "step", step, f"below {2 * step / (1 - a.min()):.4g}, or training diverges")
    scaled = pushed * setup.variance[:, None]
    lagged = scaled * (lam[:, None] * a / (1 - lam[:, None] * a))
    sums = scaled.T @ pushed + lagged.T @ pushed + pushed.T @ lagged
    covariance = (sums + setup.white) / (1 - np.outer(a, a))
    excess, turned = 0.5 * float((setup.lean * covariance).sum()), setup.axes @ covariance @ setup.axes.T
    leaning = -(scaled * (lam[:, None] / (1 - lam[:, None] * a))) @ setup.axes.T  # c_k
    pull = q @ moves.products(ends, leaning)
    shift = -setup.axes @ ((setup.axes.T @ pull) * step / (1 - a))
    return Cloud(excess, float(np.sqrt(np.trace(covariance))), turned, shift)


class Comparison(NamedTuple):
    """When one predicted path overtakes another."""

    leader: str  # the better at the end
    overtaken: str
    round: int | None  # the first round from which the leader stays ahead; None if it always was


def overtaking(first: tuple[str, np.ndarray], second: tuple[str, np.ndarray]) -> Comparison:
    """Which of two error curves ends lower, and since when."""
    (leader, low), (other, high) = (first, second) if first[1][-1] <= second[1][-1] else (second, first)
    behind = np.flatnonzero(low > high)
    return Comparison(leader, other, int(behind[-1]) + 1 if len(behind) else None)
