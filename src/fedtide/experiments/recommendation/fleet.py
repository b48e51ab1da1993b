"""A fitted fleet as availabilities for a recommendation: which devices, their record, fleets like it, what if."""

import datetime
from typing import NamedTuple

import numpy as np
import polars as pl

from fedtide.availability import Trace
from fedtide.availability.fleet import Fleet
from fedtide.errors import FedtideError, require
from fedtide.fleet.fill import filled, whole_days
from fedtide.fleet.model import FleetModel
from fedtide.fleet.waves import HABIT

MOST = 100
"""At most so many devices take part unless the problem says how many."""

_LEARNABLE = ("regular", "seldom", "always")
_SECONDS_A_DAY = 86_400
_FLAT = 0.05  # a daily cycle that moves less has no effect worth a comparison


class Chosen(NamedTuple):
    """The devices that stand for the fleet: client k is device `numbers[k]`."""

    numbers: np.ndarray
    table: pl.DataFrame  # their rows of `FleetModel.devices`
    never: tuple[str, ...]  # seen in no round: no method can learn from them
    brief: tuple[str, ...]  # observed for less than a day, and left out
    others: int  # could have been chosen, too

    @property
    def names(self) -> list[str]:
        return self.table["device"].to_list()


def choose(model: FleetModel, count: int | None = None, seed: int = 0) -> Chosen:
    """The devices to simulate: all that can be learnt from, or a sample spread evenly over how often they are there.

    A problem with a client for every device of the record takes them all, in their order.
    """
    devices = model.devices
    named = {kind: tuple(devices.filter(kind=kind)["device"].to_list()) for kind in ("never", "brief")}
    usable = np.flatnonzero(devices["kind"].is_in(_LEARNABLE).to_numpy())
    if count == devices.height:
        return Chosen(np.arange(devices.height), devices, named["never"], named["brief"], 0)
    if len(usable) < 2:
        raise FedtideError(f"fleet: {len(usable)} devices that were seen for a day or more; a comparison needs two")
    wanted = min(len(usable), MOST) if count is None else count
    require(
        wanted <= len(usable), "problem", f"{wanted} clients",
        f"a problem of at most {len(usable)} clients, the devices that can be learnt from, or of {devices.height}, all",
    )  # fmt: skip
    if wanted < len(usable):
        order = usable[np.argsort(devices["availability"].to_numpy()[usable], kind="stable")]
        rng = np.random.default_rng([seed, 0xF1EE7])
        usable = np.sort([rng.choice(stratum) for stratum in np.array_split(order, wanted)])
    others = int(devices["kind"].is_in(_LEARNABLE).sum()) - len(usable)
    return Chosen(usable, devices[usable], named["never"], named["brief"], others)


def part_of(model: FleetModel, chosen: Chosen) -> FleetModel:
    """The fleet of the chosen devices alone."""
    return model._replace(devices=chosen.table, record=model.record[:, chosen.numbers])


def recorded(part: FleetModel, seed: int = 0) -> Trace:
    """The record; each seed starts at its own round of it. What was not observed is drawn given what was."""
    return Trace(whole_days(filled(part, seed), part.round_seconds), random_start=True)


def generated(part: FleetModel, stay: float = 1.0, often: float = 1.0, clock: bool = True) -> Fleet:
    """Fleets like this one: the fitted generator.

    `stay` multiplies how long devices stay and stay away (τ), `often` their availability; without `clock` there is no
    daily or weekly cycle, neither a shared one nor devices' own.
    """
    # spread_availability and spread_hours are what the generator takes.
    devices = part.devices.with_columns(pl.col("^(spread_)?availability$") * often, pl.col("^(spread_)?hours$") * stay)
    clusters = tuple(cluster._replace(hours=cluster.hours * stay) for cluster in part.clusters)
    profile = part.profile if clock else part.profile._replace(hour=np.zeros(24), weekday=None)
    devices = devices if clock else devices.drop(HABIT, strict=False)
    return Fleet.of(part._replace(devices=devices, clusters=clusters, profile=profile))


class Scenario(NamedTuple):
    """The fleet as it might become."""

    name: str
    words: str  # to follow "if"
    process: Fleet


def scenarios(part: FleetModel) -> tuple[Scenario, ...]:
    """What the answer is tried on besides the fleet as it is."""
    found = (
        Scenario("longer", "devices stayed and stayed away twice as long", generated(part, stay=2.0)),
        Scenario("rarer", "devices were there half as often", generated(part, often=0.5)),
    )
    if np.ptp(part.profile.hour) < _FLAT and HABIT not in part.devices.columns:
        return found
    return (*found, Scenario("no_clock", "there were no daily cycle", generated(part, clock=False)))


def about(model: FleetModel, chosen: Chosen) -> dict[str, object]:
    """The fleet in plain data."""
    observed = model.record[:, chosen.numbers] >= 0
    rounds = len(model.record)
    return {
        "source": model.source,
        "devices": model.devices.height,
        "used": len(chosen.numbers),
        "others": chosen.others,
        "never": list(chosen.never),
        "brief": list(chosen.brief),
        "rounds": rounds,
        "round_seconds": model.round_seconds,
        "days": rounds * model.round_seconds / _SECONDS_A_DAY,
        "start": _moment(model),
        "unobserved": float(1 - observed.mean()),
    }


def _moment(model: FleetModel) -> str | None:
    if model.zone is None:
        return None
    return datetime.datetime.fromtimestamp(model.start, datetime.UTC).strftime("%Y-%m-%d")
