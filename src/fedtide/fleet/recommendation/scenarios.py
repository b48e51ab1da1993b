"""Availability for a recommendation: the simulated devices, their record, generated and hypothetical fleets."""

import datetime
from typing import NamedTuple

import numpy as np
import polars as pl

from fedtide.availability import Trace
from fedtide.availability.daily import DAY
from fedtide.errors import FedtideError, require
from fedtide.fleet.model import HABIT, FleetModel
from fedtide.fleet.process.fleet import Fleet
from fedtide.fleet.process.replay import filled, whole_days

MOST = 100
"""The most devices that are simulated, unless the problem sets their number."""

_LEARNABLE = ("regular", "seldom", "always")
_FLAT = 0.05  # a daily cycle of a smaller range is not worth a comparison without it


class ChosenDevices(NamedTuple):
    """The simulated devices: client k is device `numbers[k]`."""

    numbers: np.ndarray
    table: pl.DataFrame  # their rows of `FleetModel.devices`
    never: tuple[str, ...]  # available in no round: no method can learn from them
    brief: tuple[str, ...]  # observed for less than a day, and left out
    others: int  # that could have been chosen as well


def choose(model: FleetModel, count: int | None = None, seed: int = 0) -> ChosenDevices:
    """The devices to simulate: all that are available at all, or a sample stratified by availability.

    A problem with one client for every device of the record uses all of them, in their order.
    """
    devices = model.devices
    named = {kind: tuple(devices.filter(kind=kind)["device"].to_list()) for kind in ("never", "brief")}
    usable = np.flatnonzero(devices["kind"].is_in(_LEARNABLE).to_numpy())
    if count == devices.height:
        return ChosenDevices(np.arange(devices.height), devices, named["never"], named["brief"], 0)
    learnable = len(usable)
    if learnable < 2:
        raise FedtideError(f"fleet: {learnable} devices were available and observed for a day or more; two are needed")
    wanted = min(learnable, MOST) if count is None else count
    require(
        wanted <= learnable, "problem", f"{wanted} clients",
        f"a problem of at most {learnable} clients, the available devices, or of {devices.height}, all devices",
    )  # fmt: skip
    if wanted < learnable:
        order = usable[np.argsort(devices["availability"].to_numpy()[usable], kind="stable")]
        rng = np.random.default_rng([seed, 0xF1EE7])
        usable = np.sort([rng.choice(stratum) for stratum in np.array_split(order, wanted)])
    return ChosenDevices(usable, devices[usable], named["never"], named["brief"], learnable - len(usable))


def part_of(model: FleetModel, chosen: ChosenDevices) -> FleetModel:
    """The fleet of the chosen devices only."""
    return model._replace(devices=chosen.table, record=model.record[:, chosen.numbers])


def recorded(part: FleetModel, seed: int = 0) -> Trace:
    """The record, from a random start for each seed. Unobserved entries are drawn given the observed ones."""
    return Trace(whole_days(filled(part, seed), part.round_seconds), random_start=True)


def generated(part: FleetModel, hours: float = 1.0, availability: float = 1.0, clock: bool = True) -> Fleet:
    """The fitted generator of such fleets.

    `hours` multiplies the relaxation times τ, `availability` the devices' π; without `clock` there is no daily or
    weekly cycle, neither the shared one nor those of single devices.
    """
    # spread_availability and spread_hours are what the generator takes.
    pi, tau = pl.col("^(spread_)?availability$"), pl.col("^(spread_)?hours$")
    devices = part.devices.with_columns(pi * availability, tau * hours)
    clusters = tuple(cluster._replace(hours=cluster.hours * hours) for cluster in part.clusters)
    profile = part.profile if clock else part.profile._replace(hour=np.zeros(24), weekday=None)
    devices = devices if clock else devices.drop(HABIT, strict=False)
    return Fleet.of(part._replace(devices=devices, clusters=clusters, profile=profile))


class Scenario(NamedTuple):
    """A hypothetical fleet."""

    name: str
    words: str  # what is different about it
    process: Fleet


def scenarios(part: FleetModel) -> tuple[Scenario, ...]:
    """Other fleets on which methods are compared."""
    scenarios = (
        Scenario("longer", "with stays and absences twice as long", generated(part, hours=2.0)),
        Scenario("rarer", "at half the availability", generated(part, availability=0.5)),
    )
    if np.ptp(part.profile.hour) < _FLAT and HABIT not in part.devices.columns:
        return scenarios
    return (*scenarios, Scenario("no_clock", "without the daily cycle", generated(part, clock=False)))


class Described(NamedTuple):
    """The fleet and the simulated part of it."""

    source: str
    devices: int
    used: int
    others: int
    never: tuple[str, ...]
    brief: tuple[str, ...]
    rounds: int
    round_seconds: float
    days: float
    start: str | None
    unobserved: float  # share of the record


def described(model: FleetModel, chosen: ChosenDevices) -> Described:
    rounds, observed = len(model.record), model.record[:, chosen.numbers] >= 0
    begun = datetime.datetime.fromtimestamp(model.start, datetime.UTC)
    return Described(
        source=model.source,
        devices=model.devices.height,
        used=len(chosen.numbers),
        others=chosen.others,
        never=chosen.never,
        brief=chosen.brief,
        rounds=rounds,
        round_seconds=model.round_seconds,
        days=rounds * model.round_seconds / DAY,
        start=None if model.zone is None else begun.strftime("%Y-%m-%d"),
        unobserved=float(1 - observed.mean()),
    )
