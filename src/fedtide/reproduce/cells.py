"""What a study has computed so far, cell by cell: a study that was stopped continues from there."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedtide.errors import FedtideError
from fedtide.reproduce.study import CaseConfig, StudyPlan
from fedtide.simulation import describe
from fedtide.simulation.trees import read_arrays, write_arrays

Arrays = dict[str, np.ndarray]


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
        path = self._folder and self._folder / f"{self._digest(panel, name)}.safetensors"
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
                write_arrays(path, arrays, {"case": panel.label, "cell": name, "seconds": f"{seconds:.3f}"})
        self.seconds += seconds
        return arrays

    def _digest(self, panel: CaseConfig, name: str) -> str:
        decides = [self._study, panel.tuned, panel.config.model_dump(mode="json"), name]
        return hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()[:16]
