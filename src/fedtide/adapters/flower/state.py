"""The server's checkpoint: all that it needs to go on after the last finished round."""

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedtide.adapters.coordinator import Coordinator
from fedtide.adapters.trees import named, tree_of
from fedtide.errors import CheckpointError, FedtideError
from fedtide.files import atomic

_FORMAT = "fedtide-server-1"


class Clients(NamedTuple):
    """What the server remembers about each client: which round counted last, and what it owes it since."""

    acknowledged: dict[int, int]
    owed: dict[int, dict[str, np.ndarray]]


class ServerState:
    """A run's state on disk: `save` after every round, `load` once at the start."""

    def __init__(self, folder: Path, run: str):
        self.path, self.run = folder / "state.safetensors", run
        self.series = secrets.token_hex(8)

    def save(self, coordinator: Coordinator, clients: Clients, rounds: int) -> None:
        """Writes the state after so many rounds, atomically. Equal arrays that are owed to many are written once."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        tensors = {f"carry{name}": leaf for name, leaf in named(coordinator.carry).items()}
        tensors["start"] = coordinator.start
        index: dict[str, dict[str, str]] = {}
        for client, leaves in clients.owed.items():
            for name, leaf in leaves.items():
                key = hashlib.sha256(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes()).hexdigest()[:32]
                tensors[f"owed{key}"] = leaf
                index.setdefault(str(client), {})[name] = key
        tensors = {name: np.ascontiguousarray(leaf).reshape(leaf.shape) for name, leaf in tensors.items()}
        about = {"acknowledged": clients.acknowledged, "owed": index, "rounds": rounds, "series": self.series}
        metadata = {"format": _FORMAT, "run": self.run, "about": json.dumps(about), "digest": _digest(tensors)}
        try:
            with atomic(self.path) as temporary:
                save_file(tensors, temporary, metadata=metadata)
            _lasting(self.path.parent)
        except (SafetensorError, OSError) as error:
            goes_on = f"started again, the run goes on after round {rounds - 1}"
            raise CheckpointError(f"{self.path}: cannot be written ({error}); {goes_on}") from error

    def load(self, coordinator: Coordinator) -> tuple[Clients, int]:
        """Puts the coordinator where the run was: (what is known of clients, rounds done); (…, 0) at the beginning."""
        if not self.path.exists():
            return Clients({}, {}), 0
        tensors, about = self._read()
        carry = {name[5:]: leaf for name, leaf in tensors.items() if name.startswith("carry")}
        try:
            coordinator.carry = tree_of(coordinator.carry, carry)
        except FedtideError as error:
            raise CheckpointError(f"{self.path}: belongs to another method or model ({error})") from error
        coordinator.start = tensors["start"]
        self.series = about["series"]
        owed = {int(k): {n: tensors[f"owed{key}"] for n, key in v.items()} for k, v in about["owed"].items()}
        return Clients({int(k): v for k, v in about["acknowledged"].items()}, owed), int(about["rounds"])

    def _read(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="numpy") as file:
                said = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{self.path}: damaged checkpoint ({error})") from error
        if said.get("format") != _FORMAT or said.get("digest") != _digest(tensors):
            raise CheckpointError(f"{self.path}: damaged, or not a checkpoint of this version of fedtide")
        if said.get("run") != self.run:
            raise CheckpointError(f"{self.path}: belongs to another run (other method, settings or roster)")
        return tensors, json.loads(said["about"])


def _lasting(folder: Path) -> None:
    """A power cut must not bring the checkpoint before back: clients have been told since that their update counted."""
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
