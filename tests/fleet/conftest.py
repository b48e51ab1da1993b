"""Records and models made by hand."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from fedtide.fleet.model import Distribution, FleetModel, Profile


def _model(record: np.ndarray, round_seconds: int = 1800, start: int = 0, zone: str | None = None) -> FleetModel:
    record = np.asarray(record, np.int8)
    seen, here = record >= 0, (record == 1).sum(0)
    pairs = seen[1:] & seen[:-1]
    names = ("off", "on")
    counts = {
        f"{names[a]}_{names[b]}": (pairs & (record[:-1] == a) & (record[1:] == b)).sum(0)
        for a in (0, 1)
        for b in (0, 1)
    }
    arrive = counts["off_on"] / np.maximum(counts["off_on"] + counts["off_off"], 1)
    leave = counts["on_off"] / np.maximum(counts["on_off"] + counts["on_on"], 1)
    devices = pl.DataFrame(
        {
            "device": [f"d{k}" for k in range(record.shape[1])],
            "kind": np.where(here == 0, "never", np.where(here == seen.sum(0), "always", "regular")),
            **counts,
            "availability": here / np.maximum(seen.sum(0), 1),
            "correlation": 1 - arrive - leave,
        }
    )
    none = Distribution((1.0, 1.0), (0.0, 0.0), (1.0, 1.0), (0.0, 0.0), 0.0, 0.0)
    flat = Profile(np.zeros(24), np.zeros(24), np.zeros(24), None)
    return FleetModel("by hand", devices, record, round_seconds, start, zone, none, flat, (), (0.0, 0.0, 0.0), {})


@pytest.fixture(scope="session")
def model_by_hand() -> Callable[..., FleetModel]:
    """A model of a record: raw π and λ from its counts, no population, no profile."""
    return _model


def _chains(rounds: int, devices: int, seed: int, amplitude: float = 0.0, kind: int | None = None) -> np.ndarray:
    """bool [rounds, devices]: independent chains in rounds of 30 minutes, π between .1 and .5, λ between .4 and .85,
    with a daily cycle. Fleets of equal `kind` (default: the seed) are of the same devices."""
    drawn = np.random.default_rng([seed if kind is None else kind, 0])
    presence, correlation = drawn.uniform(0.1, 0.5, devices), drawn.uniform(0.4, 0.85, devices)
    generator = np.random.default_rng([seed, 2])
    p = presence * (1 + amplitude * np.sin(2 * np.pi * np.arange(rounds + 1) / 48))[:, None]
    here = np.empty((rounds, devices), bool)
    here[0] = generator.random(devices) < p[0]
    for t in range(1, rounds):
        here[t] = generator.random(devices) < np.clip(p[t] + correlation * (here[t - 1] - p[t - 1]), 0, 1)
    return here


def _hide(here: np.ndarray, seed: int) -> np.ndarray:
    """int8: each device begins late, ends early, and is not observed for two stretches in between."""
    generator = np.random.default_rng([seed, 1])
    record = here.astype(np.int8)
    rounds = len(record)
    for k in range(record.shape[1]):
        record[: generator.integers(rounds // 5), k] = -1
        record[rounds - generator.integers(rounds // 5) :, k] = -1
        for begin in generator.integers(rounds, size=2):
            record[begin : begin + generator.integers(1, rounds // 10), k] = -1
    return record


@pytest.fixture(scope="session")
def chains() -> Callable[..., np.ndarray]:
    return _chains


@pytest.fixture(scope="session")
def hide() -> Callable[[np.ndarray, int], np.ndarray]:
    return _hide
