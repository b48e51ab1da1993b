"""The generator's check: a record against generated fleets."""

import json

import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.fleet import Habits, Lengths, resemble
from fedtide.fleet.diagnosis.findings import plain
from fedtide.fleet.diagnosis.resemblance import STATISTICS


def test_a_fleet_resembles_others_of_its_kind(model_by_hand, chains, hide):
    """Six records, each with 40 more fleets of the same devices: a check is outside with probability 2/40 or so (the
    quantiles lie within the 40), of 78 about 4 to 6. More than 16 has probability below 1 %, as several checks of a
    record go together."""
    outside = 0
    for kind in range(6):
        fleets = [chains(192, 20, 100 * kind + i, amplitude=0.5, kind=kind) for i in range(41)]
        checks, _ = resemble(model_by_hand(hide(fleets[0], kind)), fleets[1:])
        assert [check.name for check in checks] == list(STATISTICS)
        outside += sum(not check.inside for check in checks)
    assert outside <= 16


def test_a_generator_without_the_day_is_told_apart(model_by_hand, chains):
    record = chains(480, 60, 1, amplitude=0.8)
    checks, _ = resemble(model_by_hand(record), [chains(480, 60, seed) for seed in range(2, 22)])
    inside = {check.name: check.inside for check in checks}
    assert not inside["day_later"]
    assert not inside["variance_ratio"]
    assert not inside["number_sd"]
    assert not inside["hourly_deviation"]


def test_statistics_by_hand(model_by_hand):
    record = np.tile([1, 1, 0, 0, 0, 0], 20)[:, None].repeat(5, 1)  # stays of an hour, absences of two
    checks, curves = resemble(model_by_hand(record), [record, record])
    found = {check.name: check.recorded for check in checks}
    # A run of n rounds is spread over n − ½ to n + ½.
    assert [found[f"stay_{share}"] for share in (10, 50, 90)] == pytest.approx([0.8, 1, 1.2])
    assert [found[f"absence_{share}"] for share in (10, 50, 90)] == pytest.approx([1.8, 2, 2.2])
    assert found["longest_absence"] == 2
    assert found["back_in_an_hour"] == 0
    assert found["number_least"] == 0
    assert found["hourly_deviation"] == 0
    assert found["variance_ratio"] == pytest.approx(
        5
    )  # five devices that are one: 25 times the variance of one, over 5
    assert all(check.inside for check in checks)
    assert curves.stays.recorded.tolist() == [1, 1, 0]
    assert plain(curves.hourly.recorded) == plain(curves.hourly.middle)


def test_missing_entries_of_the_record_are_missing_in_what_is_generated(model_by_hand, chains):
    here = chains(200, 20, 3)
    record = here.astype(np.int8)
    record[50:120, ::2] = -1
    other = here.copy()
    other[50:120, ::2] ^= True  # differs only where nothing is known
    checks, curves = resemble(model_by_hand(record), [other, other])
    for check in checks:
        assert check.low == pytest.approx(check.recorded), check.name
        assert check.inside
    assert curves.number.recorded == pytest.approx(curves.number.middle)
    json.dumps(plain(curves), allow_nan=False)


def test_fleets_of_another_shape_are_refused(model_by_hand):
    model = model_by_hand(np.zeros((30, 3)))
    with pytest.raises(InvalidInput, match="generated"):
        resemble(model, [np.zeros((30, 4), bool)] * 2)
    with pytest.raises(InvalidInput, match="2 fleets or more"):
        resemble(model, [np.zeros((30, 3), bool)])
    with pytest.raises(InvalidInput, match="nothing observed"):
        resemble(model_by_hand(np.full((30, 3), -1)), [np.zeros((30, 3), bool)] * 2)


def test_what_was_fitted_is_marked(model_by_hand, chains):
    record = chains(96, 6, 1)
    model, others = model_by_hand(record), [chains(96, 6, seed) for seed in (2, 3)]
    assert [check.name for check in resemble(model, others)[0] if check.fitted] == ["hourly_deviation"]
    runs = Lengths((0.5, 1.0, 4.0), (0.5, 0.5))
    fitted = {c.name for c in resemble(model._replace(stays=runs, absences=runs), others)[0] if c.fitted}
    assert {"stay_50", "absence_90", "back_in_an_hour", "hourly_deviation"} < fitted
    assert "longest_absence" not in fitted
    assert "day_later" in {c.name for c in resemble(model._replace(habits=Habits(0.5, 0.1)), others)[0] if c.fitted}


def test_runs_that_are_cut_off_count_for_as_long_as_they_were_seen(model_by_hand):
    # Stays of three rounds, seen whole, and as many that were last seen in their second: Kaplan and Meier's median is
    # three rounds, though of what was seen half lasted two.
    whole, cut = [0, 1, 1, 1, 0, 0], [0, 1, 1, -1, -1, 0]
    record = np.tile(np.stack([whole] * 10 + [cut] * 10, 1), (10, 1))
    checks, _ = resemble(model_by_hand(record), [record, record])
    found = {check.name: check.recorded for check in checks}
    assert [found[f"stay_{share}"] for share in (10, 50, 90)] == pytest.approx([1.3, 1.5, 1.7])


def test_nobody_was_ever_here(model_by_hand, chains):
    nobody = np.zeros((96, 6), np.int8)
    assert resemble(model_by_hand(nobody), [nobody == 1, nobody == 1])[0] == ()
