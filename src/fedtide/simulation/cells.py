"""What a long computation has finished, cell by cell: one that was stopped continues from there."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from fedtide.errors import FedtideError
from fedtide.files import free
from fedtide.simulation.trees import read_arrays, write_arrays

Arrays = dict[str, np.ndarray]

_POLL = 0.5  # seconds between two looks for the cells of other processes


class Cells:
    """Arrays by name, each in a file of `folder`; without a folder nothing is kept.

    A file is named after a digest of its name and of `decides`: plain data that must contain everything else that
    decides its numbers. So the cells of other settings are never used, and cells may be computed in any order.
    """

    def __init__(self, folder: Path | None, *decides: Any) -> None:
        self._folder, self._decides = folder, decides
        self.seconds = 0.0  # spent on the cells that were asked for, in this process or in an earlier one

    def __contains__(self, name: str) -> bool:
        path = self._path(name)
        return path is not None and path.exists()

    def __call__(self, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """The arrays of a cell: read if they are there, otherwise computed and kept."""
        return self.each({name: compute})[name]

    def each(self, computations: Mapping[str, Callable[[], Arrays]]) -> dict[str, Arrays]:
        """The arrays of several cells. Processes that compute the same cells share them: each computes those left."""
        found: dict[str, Arrays] = {}
        while len(found) < len(computations):
            before = len(found)
            for name, compute in computations.items():
                arrays = None if name in found else self._one(name, compute)
                if arrays is not None:
                    found[name] = arrays
            if len(found) == before:
                time.sleep(_POLL)
        return {name: found[name] for name in computations}

    def read(self, name: str) -> Arrays | None:
        """The arrays of a cell; None if they are not there."""
        path = self._path(name)
        if path is None or not path.exists():
            return None
        try:
            arrays, about = read_arrays(path)
            self.seconds += float(about["seconds"])
        except (OSError, ValueError, KeyError) as error:
            raise FedtideError(f"{path}: damaged ({error}); delete the file to compute it again") from error
        return arrays

    def write(self, name: str, arrays: Arrays, seconds: float) -> None:
        """Keeps the arrays of a cell, which took so many seconds."""
        path = self._path(name)
        if path is not None:
            write_arrays(path, arrays, {"cell": name, "seconds": f"{seconds:.3f}"})
        self.seconds += seconds

    def _one(self, name: str, compute: Callable[[], Arrays]) -> Arrays | None:
        """The arrays of a cell; None if another process is computing them."""
        path = self._path(name)
        with nullcontext(True) if path is None else free(path.with_suffix(".lock")) as mine:
            arrays = self.read(name)
            if arrays is None and mine:
                begun = time.monotonic()
                arrays = {key: np.asarray(value) for key, value in compute().items()}
                self.write(name, arrays, time.monotonic() - begun)
            return arrays

    def _path(self, name: str) -> Path | None:
        if self._folder is None:
            return None
        decides = json.dumps([*self._decides, name], sort_keys=True, default=str)
        return self._folder / f"{hashlib.sha256(decides.encode()).hexdigest()[:16]}.safetensors"
