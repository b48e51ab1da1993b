"""What a study has computed so far, cell by cell: a study that was stopped continues from there."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedtide.errors import FedtideError
from fedtide.reproduce.study import StudyPlan
from fedtide.simulation import describe
from fedtide.simulation.trees import read_arrays, write_arrays

Arrays = dict[str, np.ndarray]


class Cells:
    """Arrays by name, each in a file of `folder`; without a folder nothing is kept.

    The files are in a sub-folder named after a digest of everything that decides their numbers (the settings of the
    study at its scale, and the versions), so that cells of another study are never used.
    """

    def __init__(self, folder: Path | None, planned: StudyPlan) -> None:
        panels = [[panel.label, panel.tuned, panel.config.model_dump(mode="json")] for panel in planned.panels]
        study = planned.study.model_dump(mode="json", include={"shared", "tuning_draws", "extensions", "inclusion"})
        decides = json.dumps([planned.scale, planned.draws, panels, study, describe.versions()], sort_keys=True)
        self._root = folder
        self._folder = folder and folder / _digest(decides)
        self.seconds = 0.0  # spent on the cells that were asked for, in this process or in an earlier one

    def __call__(self, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """The arrays of a cell: read if they are there, otherwise computed and kept."""
        path = self._folder and self._folder / f"{_digest(name)}.safetensors"
        if path is not None and path.exists():
            try:
                arrays, about = read_arrays(path)
                seconds = float(about["seconds"])
            except (OSError, ValueError, KeyError) as error:
                raise FedtideError(f"{path}: damaged ({error}); delete the file to compute it again") from error
        else:
            begun = time.monotonic()
            arrays = {key: np.asarray(value) for key, value in compute().items()}
            seconds = time.monotonic() - begun
            if path is not None:
                write_arrays(path, arrays, {"cell": name, "seconds": f"{seconds:.3f}"})
        self.seconds += seconds
        return arrays

    def remove(self) -> None:
        """Removes all cells, once the results are written."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
