"""A fleet as it was fitted to a log."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtr, ndtri

from fedtide.availability.base import Numbers, Process, count_clients, lag_one, per_client
from fedtide.availability.daily import DAY, WEEK, swing
from fedtide.availability.habitual import Habitual
from fedtide.availability.replay import replay
from fedtide.availability.runs import Level, begin, lengths_of, turn, turns
from fedtide.errors import FedtideError, require, whole
from fedtide.streams import Stream
from fedtide.types import State, part

if TYPE_CHECKING:
    from fedtide.fleet.model import FleetModel


_LONGEST = 5.0  # relaxation times that a member's own part may last


class _Draws(NamedTuple):
    own: State  # [N] uniform, or Level
    shared: Array  # [clusters] uniform


@part
class Fleet(Habitual):
    """Devices with runs, a shared clock, and clusters that move together: what `fedtide.fleet` fits to a log.

    Client k is there in round t when Φ(X_k) < π_k(t) = π_k (1 + s_k d(clock)), with X_k = √r Z_c + √(1−r) E_k for a
    member of cluster c with coupling r, and X_k = E_k for others. Z_c and E_k are standard normal; from a round to the
    next each is kept with its own probability and drawn again otherwise, so that the marginal is exactly π_k(t). Z_c
    is kept with exp(−Δ/cluster_hours), E_k with the probability that makes the long-run lag-1 correlation of being
    there exp(−Δ/hours), as far as it can: at most exp(−Δ/(5 hours)). Without clusters this is the process of `Phones`.

    With `stays` and `absences` a client of no cluster has runs that are not geometric. Φ(E_k) is then uniform below π_k
    in a stay and above it in an absence, and drawn anew with every run: the marginal is exactly π_k(t) again. Both are
    [hours, share] for a typical client: share[i] of the runs last hours[i] to hours[i + 1]. A client has the same
    lengths in other proportions, share · (length + typical mean)^θ as far as no share becomes 20 times the typical
    client's, and otherwise all lengths in proportion, such that the mean is the one that follows from π_k and hours.
    With `habit` clients have days of their own, too: see `Habitual`.

    `availability` is π and `hours` the relaxation time, a number for each client, or one number; `profile` 24 numbers,
    d at the middles of hours, `weekday` 7 from Monday, both relative (0 is the mean) and scaled so that a client's
    average is π_k. `membership` is each client's cluster (−1 for none), `coupling` and `cluster_hours` one number for
    each cluster. Round 0 begins at `start_second` of the day, or of the week where there is a `weekday` profile.
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
        require(mean > 0, "profile", self.profile, "above −1 in some round, or nobody is ever there")
        profile = (1 + profile) / mean - 1
        most = (1 + profile.max()) * (1 if weekday is None else 1 + weekday.max()) - 1
        self._set(profile=profile, swing=swing(pi, most))
        self._set(**dict(zip(("habit", "balance"), self._balanced(self.habit), strict=True)))
        self._set_clusters()
        kept, redrawn = self._again()
        wanted = pi**2 + np.exp(-self.round_seconds / 3600 / hours) * pi * (1 - pi)
        room = kept - redrawn
        share = np.where(room > 1e-12, (wanted - redrawn) / np.maximum(room, 1e-12), 0)
        # A cluster that forgets fast cannot be made up for by members who never do: they would be there or away for
        # ever. One's own part lasts at most a few times as long as one's runs.
        share = np.clip(share, 0, np.minimum(np.exp(-self.round_seconds / 3600 / (_LONGEST * hours)), 1 - 1e-6))
        self._set(persistence=share, correlation=lag_one(pi, share * kept + (1 - share) * redrawn), turns=None)
        self._set(stays=lengths_of("stays", self.stays), absences=lengths_of("absences", self.absences))
        given = (self.stays is None) == (self.absences is None)
        require(given, "absences" if self.stays else "stays", None, "given together with the other")
        if self.stays:
            self._set_turns(pi, np.exp(-self.round_seconds / 3600 / hours))

    def _set_turns(self, pi: np.ndarray, wanted: np.ndarray) -> None:
        from fedtide.fleet.runs import Again, again

        inner = np.clip(pi, 1e-7, 1 - 1e-7)
        parts = [again(inner[some], self._presence(some)) for some in self._chunks()]
        twice = Again(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        changes = twice.changes(inner, wanted)
        alone = lag_one(pi, twice.never_changing - twice.slope * changes)
        self._set(turns=turns(inner, changes, self.stays, self.absences, self.round_seconds / 3600))
        if self.membership is not None:
            alone = np.where(np.asarray(self.membership) >= 0, self.correlation, alone)
        self._set(correlation=alone)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

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
        """One's own part a round later, by four numbers for each client."""
        level = state.level if self.turns is not None else state
        kept = jnp.where(numbers[:, 1] < self.persistence, level, numbers[:, 2])
        if self.turns is None:
            return kept
        after = turn(self.turns, state, jnp.asarray(self.availability, level.dtype), numbers[:, 1:])
        if self.membership is None:
            return after
        return Level(jnp.where(jnp.asarray(self.membership) >= 0, kept, after.level), after.ahead)

    def step(self, state: State, stream: Stream) -> tuple[Array, State]:
        numbers = stream.uniform(jnp.arange(self.clients), 4)
        if self.membership is None:
            level = state if self.turns is None else state.level
            return level < self.marginal(stream.round), self._next(state, numbers)
        own = state.own if self.turns is None else state.own.level
        common = stream.uniform(jnp.arange(len(self.coupling)), 3, start=4)
        member = jnp.asarray(self.membership)
        r = jnp.where(member >= 0, jnp.asarray(self.coupling)[member], 0)
        # Numbers lie on a grid that has 0, whose normal would be −∞.
        normal, shared = (ndtri(jnp.maximum(u, 2.0**-25)) for u in (own, state.shared))
        both = jnp.minimum(ndtr(jnp.sqrt(r) * shared[member] + jnp.sqrt(1 - r) * normal), 1 - 2.0**-24)  # below π = 1
        level = jnp.where(r > 0, both, own)
        after = _Draws(
            self._next(state.own, numbers),
            jnp.where(common[:, 1] < self.shared_persistence, state.shared, common[:, 2]),
        )
        return level < self.marginal(stream.round), after

    def _again(self) -> tuple[np.ndarray, np.ndarray]:
        """P(there in a round and in the next): E_k kept, E_k drawn again; over the cluster's keeping and the clock."""
        kept, redrawn = super()._again()
        if self.membership is None:
            return kept, redrawn
        from fedtide.fleet.normal import both_here

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
        """The fleet of a folder that `fedtide fleet fit` wrote; see `of`."""
        from fedtide.fleet.storage import load_model

        return cls.of(load_model(path), clients, population_seed)

    @classmethod
    def of(cls, model: "FleetModel", clients: int | None = None, population_seed: int = 0) -> "Fleet":
        """The fitted devices themselves; with another number of `clients`, as many drawn from the fleet's distribution.

        The devices' π and hours are as different as the fleet's are (columns spread_availability and spread_hours):
        posterior means differ less.
        Drawn: π ~ Beta, hours ~ lognormal, habits ~ normal, a share never there, clusters as large in proportion. The
        clock, the hour at which round 0 begins and the length of a round are the record's.
        """
        from fedtide.fleet.slots import DAY, Slots
        from fedtide.fleet.waves import HABIT, drawn

        seed, count = whole("population_seed", population_seed, 0, 2**63), len(model.devices)
        wide = "spread_" if "spread_availability" in model.devices.columns else ""
        names = f"{wide}availability", f"{wide}hours", "cluster"
        pi, hours, member = (model.devices[name].to_numpy() for name in names)
        habit = np.array(model.devices[HABIT].to_list()) if HABIT in model.devices.columns else None
        clients = count_clients(clients) or count
        if clients != count:
            d, random = model.distribution, np.random.default_rng([seed, 0xF1EE7])
            pi = random.beta(*d.beta, size=clients)
            hours = d.hours[0] * np.exp(d.hours[1] * random.standard_normal(clients))
            pi = np.where(random.random(clients) < d.never, 0, pi)
            member = member[random.integers(count, size=clients)]
            habit = None if model.habits is None else drawn(model.habits.sigma, clients, random)
        slots = Slots(model.record[:1], (), model.round_seconds, model.start, model.zone)
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
    """A fleet as fitted to a log (`path`, the folder of `fedtide fleet fit`), or written out in numbers.

    With a path: the devices themselves where `clients` is their number (or not given), otherwise as many drawn from
    the fleet's distribution, by `population_seed`. With `recorded` the log itself is replayed, round by round: whole
    days, what was not observed drawn given what was; fewer `clients` are drawn from its devices. Without a
    path: the numbers of `Fleet`.
    """
    written = {
        "availability": availability, "hours": hours, "profile": profile, "weekday": weekday,
        "membership": membership, "coupling": coupling, "cluster_hours": cluster_hours,
        "stays": stays, "absences": absences, "habit": habit,
        "round_seconds": round_seconds, "start_second": start_second,
    }  # fmt: skip
    given = {name: value for name, value in written.items() if value is not None}
    if (path is None) == (availability is None):
        raise FedtideError("fleet: give either path, or availability and what else Fleet takes")
    if path is None:
        if recorded:
            raise FedtideError("fleet: recorded = true replays the log of a path; numbers have none")
        return Fleet(**given, clients=clients)  # pyright: ignore[reportArgumentType]
    if given:
        raise FedtideError(f"fleet: {next(iter(given))} is for a fleet without a path; edit its fleet.toml instead")
    if recorded:
        return replay(path, clients, population_seed)
    return Fleet.load(path, clients, population_seed)
