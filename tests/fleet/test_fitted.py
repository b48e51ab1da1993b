import numpy as np
import polars as pl

from fedtide.fleet import Diagnosis, Slots, fit
from fedtide.fleet.fitted import FittedFleet


def test_numbers_that_were_edited_after_the_diagnosis(tmp_path):
    state = (np.random.default_rng(0).random((60, 4)) < 0.4).astype(np.int8)
    model = fit(Slots(state, ("a", "b", "c", "d"), 1800, 0, "UTC"))
    FittedFleet(model, Diagnosis((), (), (), None, 39, 0), pl.DataFrame()).save(tmp_path)
    assert not FittedFleet.load(tmp_path).diagnosis.edited
    path = tmp_path / "fleet.toml"
    written = path.read_text()
    path.write_text("# a remark\n" + written)
    assert not FittedFleet.load(tmp_path).diagnosis.edited
    lines = ["never = 0.5" if line.startswith("never = ") else line for line in written.split("\n")]
    path.write_text("\n".join(lines))
    assert FittedFleet.load(tmp_path).diagnosis.edited
