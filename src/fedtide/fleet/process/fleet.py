"""A fleet that was fitted to a log."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtr

from fedtide.availability.base import Numbers, Process, count_clients, lag_one, per_client
from fedtide.availability.daily import DAY, WEEK, swing
from fedtide.errors import FedtideError, require, whole
from fedtide.fleet.model import FleetModel
from fedtide.fleet.process.normal import both_here
from fedtide.fleet.process.replay import replay
from fedtide.fleet.process.run_lengths import Again, TurnLevel, again, begin, lengths_of, turn, turns
from fedtide.fleet.process.waves import Habitual, drawn
from fedtide.streams import Stream, normal
from fedtide.types import State, part

_LONGEST = 5.0  # relaxation time of a member's own part, relative to its `hours`, at most


class _Draws(NamedTuple):
    own: State  # [N] uniform, or TurnLevel
    shared: Array  # [clusters] uniform


@part
class Fleet(Habitual):
    """Devices with persistent availability, a shared clock and correlated clusters, as fitted by `fedtide.fleet`.

    Client k is available in round t when Φ(X_k) < π_k(t) = π_k (1 + s_k d(clock)), with X_k = √r Z_c + √(1−r) E_k for a
    member of cluster c with coupling r, and X_k = E_k for others. Z_c and E_k are standard normal; in every
    round each is kept with its own probability and otherwise redrawn, so that the marginal is exactly π_k(t). Z_c is
    kept with probability exp(−Δ/cluster_hours), E_k with the probability that makes the long-run lag-1 correlation of
    availability exp(−Δ/hours) where possible, but at most exp(−Δ/(5 hours)). Without clusters this is `Phones`.

    With `stays` and `absences`, clients outside of clusters have runs that are not geometric. Φ(E_k) is then uniform
    below π_k in a stay and above it in an absence, and redrawn with every run: the marginal is again exactly π_k(t).
    Both are [hours, share] of a typical client: share[i] of the runs last hours[i] to hours[i + 1]. Other clients have
    the same lengths in other proportions, share · (length + typical mean)^θ, where no share exceeds 20 times the
    typical one, and beyond that scaled lengths, such that the mean is the one implied by π_k and hours. With `habit`,
    clients also have daily cycles of their own: see `Habitual`.

    `availability` is π and `hours` the relaxation time, one number per client or one for all; `profile` has 24 numbers,
    d at the middles of hours, `weekday` 7 from Monday, both relative (0 is the mean) and scaled such that a client's
    mean is π_k. `membership` is each client's cluster (−1 for none); `coupling` and `cluster_hours` have one number per
    cluster. Round 0 begins at `start_second` of the day, or of the week if there is a `weekday` profile.
    """

    availability: Numbers
    hours: Numbers = 1.5
    profile: Numbers = None
    weekday: Numbers = None
    membership: Numbers = None
    coupling: Numbers = None
    cluster_hours: Numbers = 1.0
    stays: Any = None
    absences: Any = None
    habit: Numbers = None
    round_seconds: int = 1800
    start_second: int = 0
    clients: int = None  # pyright: ignore[reportAssignmentType]  # filled from the vectors
    persistence: Array = dataclasses.field(init=False, repr=False)
    shared_persistence: Numbers = dataclasses.field(init=False, repr=False)  # [clusters]
    turns: Any = dataclasses.field(init=False, repr=False)  # Turns, or None where all runs are geometric
    swing: Array = dataclasses.field(init=False, repr=False)
    balance: Numbers = dataclasses.field(init=False, repr=False)  # [N], or None without habits
    correlation: Array = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        clients = count_clients(self.clients, self.availability, self.hours, self.membership)
        pi = per_client("availability", self.availability, clients)
        clients = len(pi)
        hours = per_client("hours", self.hours, clients, 1e-6, np.inf)
        whole("round_seconds", self.round_seconds, 1)
        whole("start_second", self.start_second, 0, 2**40)
        profile = np.zeros(24) if self.profile is None else per_client("profile", self.profile, None, -1, 1e3)
        require(len(profile) == 24, "profile", f"{len(profile)} numbers", "24 numbers")
        weekday = None if self.weekday is None else per_client("weekday", self.weekday, None, -1, 1e3)
        require(weekday is None or len(weekday) == 7, "weekday", weekday, "7 numbers")
        self._set(clients=clients, availability=pi, hours=hours, profile=profile, weekday=weekday)
        self._set(start_second=self.start_second % (DAY if weekday is None else WEEK))
        mean = 1 + self._clock().mean()
        require(mean > 0, "profile", self.profile, "above −1 in some round; otherwise no client is ever available")
        profile = (1 + profile) / mean - 1
        most = (1 + profile.max()) * (1 if weekday is None else 1 + weekday.max()) - 1
        self._set(profile=profile, swing=swing(pi, most))
        habit, offsets = self._balanced(self.habit)
        self._set(habit=habit, balance=offsets)
        self._set_clusters()
        kept, redrawn = self._again()
        wanted = pi**2 + np.exp(-self.round_seconds / 3600 / hours) * pi * (1 - pi)
        room = kept - redrawn
        share = np.where(room > 1e-12, (wanted - redrawn) / np.maximum(room, 1e-12), 0)
        # Members must not compensate a cluster with fast relaxation by parts that never change: they would be always
        # or never available. So a member's own part lasts at most a few times as long as its runs.
        share = np.clip(share, 0, np.minimum(np.exp(-self.round_seconds / 3600 / (_LONGEST * hours)), 1 - 1e-6))
        self._set(persistence=share, correlation=lag_one(pi, share * kept + (1 - share) * redrawn), turns=None)
        self._set(stays=lengths_of("stays", self.stays), absences=lengths_of("absences", self.absences))
        given = (self.stays is None) == (self.absences is None)
        require(given, "absences" if self.stays else "stays", None, "given together with the other")
        if self.stays:
            self._set_turns(pi, np.exp(-self.round_seconds / 3600 / hours))

    def _set_turns(self, pi: np.ndarray, wanted: np.ndarray) -> None:
        inner = np.clip(pi, 1e-7, 1 - 1e-7)
        parts = [again(inner[some], self._presence(some)) for some in self._chunks()]
        twice = Again(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        changes = twice.changes(inner, wanted)
        alone = lag_one(pi, twice.never_changing - twice.slope * changes)
        self._set(turns=turns(inner, changes, self.stays, self.absences, self.round_seconds / 3600))
        if self.membership is not None:
            alone = np.where(np.asarray(self.membership) >= 0, self.correlation, alone)
        self._set(correlation=alone)

    def _set_clusters(self) -> None:
        if self.membership is None:
            require(self.coupling is None, "coupling", self.coupling, "given together with membership")
            self._set(shared_persistence=None, cluster_hours=None)
            return
        require(self.coupling is not None, "coupling", None, "a number for each cluster of membership")
        coupling = per_client("coupling", self.coupling, 1 if np.ndim(self.coupling) == 0 else None)
        count = len(coupling)
        member = np.asarray(self.membership)
        fine = member.shape == (self.clients,) and member.dtype.kind in "iu"
        fine = fine and member.min() >= -1 and member.max() < count
        require(fine, "membership", self.membership, f"−1 or a cluster, 0 … {count - 1}, for each client")
        hours = per_client("cluster_hours", self.cluster_hours, count, 1e-6, np.inf)
        kept = np.minimum(np.exp(-self.round_seconds / 3600 / hours), 1 - 1e-6)
        self._set(membership=member.astype(np.int32), coupling=coupling, cluster_hours=hours, shared_persistence=kept)

    def init(self, stream: Stream) -> State:
        own = super().init(stream)
        if self.turns is not None:
            own = begin(self.turns, own, jnp.asarray(self.availability, own.dtype), stream)
        if self.membership is None:
            return own
        return _Draws(own, stream.uniform(jnp.arange(len(self.coupling)), 1, start=4)[:, 0])

    def _next(self, state: State, numbers: Array) -> State:
        """The clients' own parts in the next round, from four numbers per client."""
        level = state.level if self.turns is not None else state
        kept = jnp.where(numbers[:, 1] < self.persistence, level, numbers[:, 2])
        if self.turns is None:
            return kept
        after = turn(self.turns, state, jnp.asarray(self.availability, level.dtype), numbers[:, 1:])
        if self.membership is None:
            return after
        return TurnLevel(jnp.where(jnp.asarray(self.membership) >= 0, kept, after.level), after.ahead)

    def step(self, state: State, stream: Stream) -> tuple[Array, State]:
        numbers = stream.uniform(jnp.arange(self.clients), 4)
        if self.membership is None:
            level = state if self.turns is None else state.level
            return level < self.marginal(stream.round), self._next(state, numbers)
        own = state.own if self.turns is None else state.own.level
        common = stream.uniform(jnp.arange(len(self.coupling)), 3, start=4)
        member = jnp.asarray(self.membership)
        r = jnp.where(member >= 0, jnp.asarray(self.coupling)[member], 0)
        alone, shared = (normal(u) for u in (own, state.shared))
        both = jnp.minimum(ndtr(jnp.sqrt(r) * shared[member] + jnp.sqrt(1 - r) * alone), 1 - 2.0**-24)  # below π = 1
        level = jnp.where(r > 0, both, own)
        after = _Draws(
            self._next(state.own, numbers),
            jnp.where(common[:, 1] < self.shared_persistence, state.shared, common[:, 2]),
        )
        return level < self.marginal(stream.round), after

    def _again(self) -> tuple[np.ndarray, np.ndarray]:
        """P(available in two consecutive rounds) with E_k kept, with E_k redrawn; averaged over cluster and clock."""
        kept, redrawn = super()._again()
        if self.membership is None:
            return kept, redrawn
        member = np.asarray(self.membership)
        coupling, hold = (np.asarray(v, np.float64) for v in (self.coupling, self.shared_persistence))
        for some in np.array_split(np.flatnonzero(member >= 0), max(1, int((member >= 0).sum()) // 256)):
            now = self._presence(some)
            after, c = np.roll(now, -1, axis=1), member[some]
            r, held = coupling[c, None], hold[c]
            only_shared, only_own = both_here(now, after, r).mean(1), both_here(now, after, 1 - r).mean(1)
            kept[some] = held * kept[some] + (1 - held) * only_own
            redrawn[some] = held * only_shared + (1 - held) * redrawn[some]
        return kept, redrawn

    @classmethod
    def load(cls, path: str | Path, clients: int | None = None, population_seed: int = 0) -> "Fleet":
        """The fleet in a folder written by `fedtide fleet fit`; see `of`."""
        from fedtide.fleet.storage import load_model  # needs polars, which a simulation does not

        return cls.of(load_model(path), clients, population_seed)

    @classmethod
    def of(cls, model: FleetModel, clients: int | None = None, population_seed: int = 0) -> "Fleet":
        """The fitted devices; with another number of `clients`, clients drawn from the fleet's distribution.

        The devices' π and hours have the spread of the fleet (columns spread_availability and spread_hours); posterior
        means would vary less. Drawn clients have π ~ Beta, hours ~ lognormal, habits ~ normal, the fitted share of
        never available ones, and clusters of the same relative sizes. The clock, the time of round 0 and the length of
        a round are those of the record.
        """
        seed, count = whole("population_seed", population_seed, 0, 2**63), len(model.devices)
        wide = "spread_" if "spread_availability" in model.devices.columns else ""
        names = f"{wide}availability", f"{wide}hours", "cluster"
        pi, hours, member = (model.devices[name].to_numpy() for name in names)
        habit = model.habit
        clients = count_clients(clients) or count
        if clients != count:
            d, random = model.distribution, np.random.default_rng([seed, 0xF1EE7])
            pi = random.beta(*d.beta, size=clients)
            hours = d.hours[0] * np.exp(d.hours[1] * random.standard_normal(clients))
            pi = np.where(random.random(clients) < d.never, 0, pi)
            member = member[random.integers(count, size=clients)]
            habit = None if model.habits is None else drawn(model.habits.sigma, clients, random)
        slots = model.slots
        day = 0 if slots.weekdays is None else int(slots.weekdays[0])
        groups: dict[str, Any] = {}
        if model.clusters:
            groups = {"membership": member, "coupling": [c.coupling for c in model.clusters]}
            groups["cluster_hours"] = [c.hours for c in model.clusters]
        return cls(
            np.asarray(pi), np.asarray(hours), model.profile.hour, model.profile.weekday, **groups,
            stays=model.stays, absences=model.absences, habit=habit,
            round_seconds=model.round_seconds, start_second=day * DAY + int(slots.seconds[0]),
        )  # fmt: skip


_WRITTEN = [field.name for field in dataclasses.fields(Fleet) if field.init and field.name != "clients"]


def fleet(
    path: str | Path | None = None,
    clients: int | None = None,
    population_seed: int = 0,
    recorded: bool = False,
    availability: Numbers | None = None,
    hours: Numbers | None = None,
    profile: Numbers | None = None,
    weekday: Numbers | None = None,
    membership: Numbers | None = None,
    coupling: Numbers | None = None,
    cluster_hours: Numbers | None = None,
    stays: Any = None,
    absences: Any = None,
    habit: Numbers | None = None,
    round_seconds: int | None = None,
    start_second: int | None = None,
) -> Process:
    """A fleet fitted to a log (`path`, the folder written by `fedtide fleet fit`), or specified by its parameters.

    With a path: the fitted devices if `clients` is their number (or not given), otherwise clients drawn from the
    fleet's distribution with `population_seed`. With `recorded`, the log itself is replayed: whole days, with
    unobserved entries drawn given the observed ones; fewer `clients` are drawn from its devices. Without a path: the
    arguments of `Fleet`.
    """
    given = {name: value for name, value in locals().items() if name in _WRITTEN and value is not None}
    if (path is None) == (availability is None):
        raise FedtideError("fleet: give either path, or availability and other arguments of Fleet")
    if path is None:
        if recorded:
            raise FedtideError("fleet: recorded = true replays the log of a path; without a path there is none")
        return Fleet(**given, clients=clients)  # pyright: ignore[reportArgumentType]
    if given:
        raise FedtideError(
            f"fleet: {next(iter(given))} is for a fleet without a path; with one, edit fleet.toml instead"
        )
    if recorded:
        return replay(path, clients, population_seed)
    return Fleet.load(path, clients, population_seed)
