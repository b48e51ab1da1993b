"""The record of a fitted fleet as an availability."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedtide.availability.base import count_clients
from fedtide.availability.trace import Trace
from fedtide.errors import require, whole

if TYPE_CHECKING:
    from fedtide.fleet.model import FleetModel


def replay(path: "str | Path | FleetModel", clients: int | None = None, population_seed: int = 0) -> Trace:
    """The record of a fitted fleet, replayed from its first round and again from its end; see `fleet`.

    Fewer `clients` than devices are drawn without repetition among those observed at all. More are refused: copies of a
    device would come and go as one, as no devices of the record do.
    """
    from fedtide.fleet.fill import filled, whole_days
    from fedtide.fleet.storage import load_model

    model = load_model(path) if isinstance(path, str | Path) else path
    seed = whole("population_seed", population_seed, 0, 2**63)
    record = whole_days(filled(model, seed), model.round_seconds)
    clients = count_clients(clients) or len(model.devices)
    if clients != len(model.devices):
        seen = np.flatnonzero(model.devices["observed"].to_numpy() > 0)
        few = f"{len(seen)} or fewer: so many devices were recorded; without recorded = true new ones are drawn"
        require(clients <= len(seen), "clients", clients, few)
        random = np.random.default_rng([seed, 0xF1EE7])
        record = record[:, np.sort(random.choice(seen, clients, replace=False))]
    return Trace(record)
