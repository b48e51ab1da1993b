"""The invented log: the same every time, with exactly the mistakes that it says, which reading finds."""

import csv
import datetime

import numpy as np
import polars as pl
import pytest

from fedtide.errors import FedtideError
from fedtide.fleet import read, write_example

MISTAKES = {
    ("rows without a device", "left out"): 1,
    ("rows whose time cannot be read", "left out"): 1,
    ("rows that end before they start", "left out"): 4,
    ("rows with times far from all others (a clock jump)", "left out"): 1,
    ("rows that are exact duplicates", "left out"): 12,
    ("rows that overlap an earlier row of the same device", "merged"): 9,
}


@pytest.mark.parametrize(("devices", "days", "seed"), [(12, 3, 0), (24, 4, 1), (60, 15, 0), (60, 15, 5)])
def test_reading_finds_the_mistakes_that_it_says_and_no_others(tmp_path, devices, days, seed):
    path, windows = write_example(tmp_path, devices, days, seed)
    log = read(path, windows=windows)
    assert {(issue.kind, issue.done): issue.count for issue in log.account.issues} == MISTAKES
    assert log.account.used == log.account.rows - 19
    assert len(log.devices) == devices
    never = set(range(devices)) - set(log.intervals["device"].to_list())
    assert {0, 1, 2} <= never


def test_the_same_seed_gives_the_same_files(tmp_path):
    texts = [
        [path.read_bytes() for path in write_example(tmp_path / str(i), 12, 3, seed)]
        for i, seed in enumerate((4, 4, 5))
    ]
    assert texts[0] == texts[1] != texts[2]


def test_devices_are_there_when_a_usable_row_says_so(tmp_path):
    path, windows = write_example(tmp_path, 24, 4)
    log = read(path, windows=windows)
    there = {name: np.zeros(4 * 86_400, bool) for name in log.devices}
    for device, start, end in csv.reader(path.read_text("utf-8").splitlines()[1:]):
        if device and end != "unknown" and not start.startswith("1970") and start < end:
            there[device][_second(start) : _second(end)] = True
    found = log.intervals.with_columns(seconds=(pl.col("end") - pl.col("start")) / 1000).group_by("device")
    seconds = dict(found.agg(pl.col("seconds").sum()).iter_rows())
    assert {log.devices[k]: x for k, x in seconds.items()} == {n: x.sum() for n, x in there.items() if x.any()}


def test_examples_are_dated_and_the_offset_is_noted(tmp_path):
    path, windows = write_example(tmp_path, 12, 3)
    log = read(path, windows=windows)
    (twins,) = (issue for issue in log.account.issues if "duplicates" in issue.kind)
    assert "phone-00" in twins.examples[0]
    assert ", 2026-03-" in twins.examples[0]
    assert "+00:00 to 2026-03-" in twins.examples[0]
    assert "Times are given at +01:00; days are counted in UTC unless zone is given." in log.account.notes
    local = read(path, windows=windows, zone="Europe/Paris")
    (twins,) = (issue for issue in local.account.issues if "duplicates" in issue.kind)
    assert "+01:00 to 2026-03-" in twins.examples[0]
    assert not any("give zone" in note for note in local.account.notes)


@pytest.mark.parametrize("options", [{"devices": 11}, {"days": 2}, {"devices": 10_000}, {"seed": -1}])
def test_bad_sizes(tmp_path, options):
    with pytest.raises(FedtideError, match=next(iter(options))):
        write_example(tmp_path, **options)
    assert not any(tmp_path.iterdir())


def _second(text: str) -> int:
    begin = datetime.datetime.fromisoformat("2026-03-02T00:00:00+01:00")
    return round((datetime.datetime.fromisoformat(text) - begin).total_seconds())
