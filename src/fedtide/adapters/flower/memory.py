"""A client's memory between rounds, on its own disk.

    row.safetensors      what it remembers, after the round in its metadata
    pending.safetensors  what it would remember after a round of which the server has not yet said that it counted

The next message says which round counted last: the pending row is taken over then, or dropped. So an update that did
not count leaves no trace, and a round that the server repeats trains from the same row.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedtide.errors import FedtideError
from fedtide.files import atomic

Row = dict[str, np.ndarray]


LOST = "memory lost"


class MemoryLost(FedtideError):
    """The client does not have the row that it had after its last round that counted."""


class Stored(NamedTuple):
    row: Row
    series: str
    round: int


class ClientMemory:
    """The memory of one client in one run."""

    def __init__(self, folder: Path, series: str):
        self.folder, self.series = folder, series
        self._row, self._pending = folder / "row.safetensors", folder / "pending.safetensors"

    def recall(self, round: int, acknowledged: int, owed: Mapping[str, np.ndarray], first: Row) -> Row:
        """The row to train from: that after the acknowledged round, `first` before any; `owed` replaces leaves of it.

        An order that was overtaken by a later one changes nothing.
        """
        kept, pending = self._read(self._row), self._read(self._pending)
        latest = max(kept.round if kept else -1, pending.round if pending else -1)
        if latest > round:
            raise FedtideError(f"an order of round {round}, though round {latest} has begun")
        if kept is not None and kept.round == acknowledged:
            self._pending.unlink(missing_ok=True)
            return kept.row
        if acknowledged < 0 and kept is None:
            self._pending.unlink(missing_ok=True)
            return {**first, **owed}
        if pending is None or pending.round != acknowledged:
            raise MemoryLost(f"{LOST}: nothing of round {acknowledged}, in which this client took part last")
        row = {**pending.row, **owed}
        self._write(self._row, row, acknowledged)
        self._pending.unlink(missing_ok=True)
        return row

    def forget(self) -> None:
        """Removes all that is remembered."""
        for path in (self._row, self._pending):
            path.unlink(missing_ok=True)

    def hold(self, row: Row, round: int) -> None:
        """Keeps the row in case that the round counts."""
        self._write(self._pending, row, round)

    def _read(self, path: Path) -> Stored | None:
        """A file's content; None where there is none, where it is damaged, or of another series of rounds."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                said = file.metadata() or {}
                row = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return None
        return Stored(row, said["series"], int(said["round"])) if said.get("series") == self.series else None

    def _write(self, path: Path, row: Row, round: int) -> None:
        from safetensors.numpy import save_file

        arrays = {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in row.items()}
        with atomic(path) as temporary:
            save_file(arrays, temporary, metadata={"series": self.series, "round": str(round)})
