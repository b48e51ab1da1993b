"""A client's state between rounds, on its own disk.

    row.safetensors      its row after the round in the file's metadata
    pending.safetensors  its row after a round whose update the server has not acknowledged yet

The next order contains the last acknowledged round, so the pending row is then either adopted or dropped. An update
that was not used has no effect, and a repeated round trains from the same row.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedtide.errors import FedtideError
from fedtide.simulation.trees import read_arrays, write_arrays

Row = dict[str, np.ndarray]


class MemoryLost(FedtideError):
    """The client no longer has its row of the last acknowledged round."""


class Stored(NamedTuple):
    row: Row
    round: int


class ClientMemory:
    """The state of one client in one run."""

    def __init__(self, folder: Path, series: str):
        self.folder, self.series = folder, series
        self._row, self._pending = folder / "row.safetensors", folder / "pending.safetensors"

    def recall(self, round: int, acknowledged: int, owed: Mapping[str, np.ndarray], first: Row) -> Row:
        """The row to train from: the row after the acknowledged round, with the leaves in `owed` replaced; `first` if
        there was none.

        Raises if the client has already begun a later round; nothing changes then.
        """
        kept, pending = self._read(self._row), self._read(self._pending)
        latest = max(kept.round if kept else -1, pending.round if pending else -1)
        if latest > round:
            raise FedtideError(f"a request for round {round}, although round {latest} has begun")
        if kept is not None and kept.round == acknowledged:
            self._pending.unlink(missing_ok=True)
            return kept.row
        if acknowledged < 0 and kept is None:
            self._pending.unlink(missing_ok=True)
            return {**first, **owed}
        if pending is None or pending.round != acknowledged:
            last = f"round {acknowledged}, the last in which this client participated"
            raise MemoryLost(f"memory lost: no state of {last}")
        row = {**pending.row, **owed}
        self._write(self._row, row, acknowledged)
        self._pending.unlink(missing_ok=True)
        return row

    def forget(self) -> None:
        """Removes the stored rows."""
        for path in (self._row, self._pending):
            path.unlink(missing_ok=True)

    def hold(self, row: Row, round: int) -> None:
        """Stores the row as pending, until the round is acknowledged."""
        self._write(self._pending, row, round)

    def _read(self, path: Path) -> Stored | None:
        """A file's content; None if it is missing, damaged, or of another series of rounds."""
        try:
            row, metadata = read_arrays(path)
        except (OSError, ValueError):
            return None
        return Stored(row, int(metadata["round"])) if metadata.get("series") == self.series else None

    def _write(self, path: Path, row: Row, round: int) -> None:
        write_arrays(path, row, {"series": self.series, "round": str(round)})
