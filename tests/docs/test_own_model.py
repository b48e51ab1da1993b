"""Models of flax and equinox train as the example says."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_model.py"


def test_models_of_other_libraries_learn():
    found = runpy.run_path(str(EXAMPLE))["main"]()
    # Ten classes: by chance a tenth would be right.
    assert found.keys() == {"flax", "equinox"}
    assert min(found.values()) > 0.5
