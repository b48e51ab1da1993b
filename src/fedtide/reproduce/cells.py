"""What a study has computed so far, cell by cell: a study that was stopped continues from there."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fedtide.errors import FedtideError
from fedtide.files import free
from fedtide.reproduce.study import CaseConfig, StudyPlan
from fedtide.simulation import describe
from fedtide.simulation.trees import read_arrays, write_arrays

Arrays = dict[str, np.ndarray]

_POLL = 0.5  # seconds between two looks for the cells of other processes


class Cells:
    """Arrays by name, each in a file of `folder`; without a folder nothing is kept.

    A file is named after a digest of everything that decides its numbers (the configuration of its case, how the study
    tunes, and the versions, but not the contents of data files), so that the cells of other settings are never used,
    and cases may run in any order.
    """

    def __init__(self, folder: Path | None, planned: StudyPlan) -> None:
        study = planned.study.model_dump(mode="json", include={"shared", "tuning_draws", "extensions", "inclusion"})
        self._folder = folder
        self._study = [planned.scale, planned.draws, study, describe.versions()]
        self.seconds = 0.0  # spent on the cells that were asked for, in this process or in an earlier one

    def __call__(self, panel: CaseConfig, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """The arrays of a cell of a case: read if they are there, otherwise computed and kept."""
        return self.each(panel, {name: compute})[name]

    def each(self, panel: CaseConfig, computations: Mapping[str, Callable[[], Arrays]]) -> dict[str, Arrays]:
        """The arrays of several cells. Processes that run the same study share them: each computes those left."""
        found: dict[str, Arrays] = {}
        while len(found) < len(computations):
            before = len(found)
            for name, compute in computations.items():
                arrays = None if name in found else self._one(panel, name, compute)
                if arrays is not None:
                    found[name] = arrays
            if len(found) == before:
                time.sleep(_POLL)
        return {name: found[name] for name in computations}

    def _one(self, panel: CaseConfig, name: str, compute: Callable[[], Arrays]) -> Arrays | None:
        """The arrays of a cell; None if another process is computing them."""
        if self._folder is None:
            return self._timed(compute)[0]
        path = self._folder / f"{self._digest(panel, name)}.safetensors"
        with free(path.with_suffix(".lock")) as mine:
            if path.exists():
                try:
                    arrays, about = read_arrays(path)
                    self.seconds += float(about["seconds"])
                except (OSError, ValueError, KeyError) as error:
                    raise FedtideError(f"{path}: damaged ({error}); delete the file to compute it again") from error
                return arrays
            if not mine:
                return None
            arrays, seconds = self._timed(compute)
            write_arrays(path, arrays, {"case": panel.label, "cell": name, "seconds": f"{seconds:.3f}"})
            return arrays

    def _timed(self, compute: Callable[[], Arrays]) -> tuple[Arrays, float]:
        begun = time.monotonic()
        arrays = {key: np.asarray(value) for key, value in compute().items()}
        seconds = time.monotonic() - begun
        self.seconds += seconds
        return arrays, seconds

    def _digest(self, panel: CaseConfig, name: str) -> str:
        decides = [self._study, panel.tuned, panel.config.model_dump(mode="json"), name]
        return hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()[:16]
