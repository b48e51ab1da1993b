"""A fitted fleet in words."""

import numpy as np
import pytest

from fedtide.fleet import FleetModel, Habits, Slots, fit
from fedtide.fleet.page import words as fleet_words


@pytest.fixture(scope="module")
def model() -> FleetModel:
    state = (np.random.default_rng(0).random((100, 6)) < 0.4).astype(np.int8)
    return fit(Slots(state, tuple("abcdef"), 1800, 0, None))


@pytest.mark.parametrize(("sigma", "times"), [(0.3, "3.0"), (0.6, "9.1"), (1.0, "40"), (2.0, "1,572")])
def test_how_far_a_typical_devices_own_day_goes(model, sigma, times):
    text = fleet_words.answer(model._replace(habits=Habits(sigma, 0.05)))
    assert f"about {times} times as high at its best hour as at its worst (σ = {sigma:.2f} ± 0.10)." in text
