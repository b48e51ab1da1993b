"""The server's checkpoint, from which a run continues after the last finished round."""

import hashlib
import os
import secrets
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel

from fedtide.adapters.coordinator import Coordinator
from fedtide.errors import CheckpointError, FedtideError
from fedtide.simulation.trees import named, read_arrays, tree_of, write_arrays

_FORMAT = "fedtide-server-2"


class _About(BaseModel):
    """The part of a checkpoint that is not arrays, stored as JSON."""

    acknowledged: dict[int, int]
    owed: dict[int, dict[str, str]]  # by client and name: the key of the array
    rounds: int
    series: str


class ClientRecords(NamedTuple):
    """The last acknowledged round of each client, and changes of its row that it has not received yet."""

    acknowledged: dict[int, int]
    owed: dict[int, dict[str, np.ndarray]]


class ServerState:
    """A run's state on disk: `save` after every round, `load` once at the start."""

    def __init__(self, folder: Path, run: str):
        self.path, self.run = folder / "state.safetensors", run
        self.series = secrets.token_hex(8)

    def save(self, coordinator: Coordinator, clients: ClientRecords, rounds: int) -> None:
        """Writes the state atomically. Arrays that are owed to several clients are stored once."""
        from safetensors import SafetensorError

        tensors = {f"carry{name}": leaf for name, leaf in named(coordinator.carry).items()}
        tensors["start"] = coordinator.start
        about = _About(acknowledged=clients.acknowledged, owed={}, rounds=rounds, series=self.series)
        for client, leaves in clients.owed.items():
            for name, leaf in leaves.items():
                key = hashlib.sha256(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes()).hexdigest()[:32]
                tensors[f"owed{key}"] = leaf
                about.owed.setdefault(client, {})[name] = key
        metadata = {"format": _FORMAT, "run": self.run, "about": about.model_dump_json(), "digest": _digest(tensors)}
        try:
            write_arrays(self.path, tensors, metadata)
            _sync(self.path.parent)
        except (SafetensorError, OSError) as error:
            resumed = f"when restarted, the run continues after round {rounds - 1}"
            raise CheckpointError(f"{self.path}: cannot be written ({error}); {resumed}") from error

    def load(self, coordinator: Coordinator) -> tuple[ClientRecords, int]:
        """Restores the coordinator; returns the clients' records and the number of finished rounds."""
        if not self.path.exists():
            return ClientRecords({}, {}), 0
        tensors, about = self._read()
        carry = {name[5:]: leaf for name, leaf in tensors.items() if name.startswith("carry")}
        try:
            coordinator.carry = tree_of(coordinator.carry, carry)
        except FedtideError as error:
            raise CheckpointError(f"{self.path}: belongs to another method or model ({error})") from error
        coordinator.start = tensors["start"]
        self.series = about.series
        owed = {k: {name: tensors[f"owed{key}"] for name, key in keys.items()} for k, keys in about.owed.items()}
        return ClientRecords(about.acknowledged, owed), about.rounds

    def _read(self) -> tuple[dict[str, np.ndarray], _About]:
        try:
            tensors, metadata = read_arrays(self.path)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.path}: damaged checkpoint ({error})") from error
        if metadata.get("format") != _FORMAT or metadata.get("digest") != _digest(tensors):
            raise CheckpointError(f"{self.path}: damaged, or not a checkpoint of this version of fedtide")
        if metadata.get("run") != self.run:
            raise CheckpointError(f"{self.path}: belongs to another run (other method, settings or roster)")
        return tensors, _About.model_validate_json(metadata["about"])


def _sync(folder: Path) -> None:
    """Makes the rename durable: after a power cut, clients may already know that their updates were acknowledged."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode() + np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
