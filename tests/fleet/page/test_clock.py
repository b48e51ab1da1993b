"""What the figure of the clock says of devices' own hours where the record cannot tell them."""

import numpy as np
import polars as pl
import pytest

from fedtide.fleet.model import Distribution, FleetModel, Habits, Profile
from fedtide.fleet.page.clock import clock


def said(days: int, minutes: int, observed: bool = True, habits: Habits | None = None) -> str:
    record = np.zeros((days * 1440 // minutes, 4), np.int8)
    if not observed:
        record[5:, :] = -1
    profile = Profile(np.full(24, 0.5), np.full(24, 0.1), np.zeros(24), None)
    spread = Distribution((1.0, 1.0), (0.1, 0.1), (1.0, 1.0), (0.1, 0.1), 0.1, 0.05)
    devices = pl.DataFrame({"device": list("abcd")})
    model = FleetModel("", devices, record, 60 * minutes, 0, None, spread, profile, (), (0.0, 0.0, 0.0), {}, 0.0)
    found = clock(model._replace(habits=habits))
    assert found is not None
    return found.caption


@pytest.mark.parametrize(
    ("days", "minutes", "observed", "told"),
    [(4, 60, True, True), (2, 60, True, False), (30, 180, True, False), (4, 60, False, False)],
)
def test_what_cannot_be_told_of_own_hours_is_said(days, minutes, observed, told):
    text = " Habits of single devices cannot be estimated from this record: that requires 3 days or more"
    assert (text in said(days, minutes, observed)) == (not told)
    assert text not in said(days, minutes, observed, Habits(0.5, 0.1))
