"""A synthetic availability log with the irregularities of real ones."""

import datetime
from pathlib import Path

import numpy as np
import polars as pl

from fedtide.errors import require, whole
from fedtide.files import atomic

_STEP = 300  # seconds between samples
_ZONE = datetime.timezone(datetime.timedelta(hours=1))
_Row = tuple[str | None, str, str]
_FIRST = datetime.datetime(2026, 3, 2, tzinfo=_ZONE)  # a Monday


def write_example(folder: str | Path, devices: int = 60, days: int = 15, seed: int = 0) -> tuple[Path, Path]:
    """Writes `log.csv` (device, start, end) and `windows.csv`, when each device was observed; returns both paths.

    The devices charge at night, with different frequencies and durations; eight of them are in one room, on
    a power line that sometimes fails; three are never available. Among the rows are 12 duplicates, 9 that overlap
    another, 4 that end before they start, one of a clock that was reset, one without a device, and one whose end is not
    a time.
    """
    devices, days = whole("devices", devices, 12), whole("days", days, 3)
    require(devices < 10_000, "devices", devices, "less than 10,000")
    random = np.random.default_rng([whole("seed", seed, 0, 2**63), 0xF1EE7])
    here = _presence(random, devices, days)
    names = [f"phone-{k:04d}" for k in range(1, devices + 1)]
    windows = _windows(random, names, days)
    rows = _messy(random, _intervals(random, here, names, windows), windows)
    folder = Path(folder)
    paths = folder / "log.csv", folder / "windows.csv"
    _write(paths[0], rows)
    _write(paths[1], [(name, _iso(first), _iso(last)) for name, (first, last) in windows.items()])
    return paths


def _presence(random: np.random.Generator, devices: int, days: int) -> np.ndarray:
    """bool [samples, devices]: chains with a daily cycle; eight share a fault."""
    looks = days * 86_400 // _STEP
    availability = random.beta(2.2, 5.0, devices)
    availability[:3] = 0
    availability[3:11] = random.beta(9, 4, 8)
    keep = np.exp(-_STEP / 3600 / (1.8 * np.exp(0.5 * random.standard_normal(devices))))
    hour = np.arange(looks) * _STEP / 3600 % 24
    day = 1 + 0.6 * np.cos(2 * np.pi * (hour - 3) / 24)
    chance = np.minimum(availability * day[:, None], 1)
    latent = random.random(devices)
    here = np.zeros((looks, devices), bool)
    for t in range(looks):
        latent = np.where(random.random(devices) < keep, latent, random.random(devices))
        here[t] = latent < chance[t]
    # The line is down for some hours about every second day.
    down, t = np.zeros(looks, bool), 0
    while t < looks:
        t += int(random.exponential(40 * 3600 / _STEP)) + 1
        down[t : t + int(random.uniform(4, 10) * 3600 / _STEP)] = True
        t += 10 * 3600 // _STEP
    here[:, 3:11] &= ~down[:, None]
    return here


def _windows(random: np.random.Generator, names: list[str], days: int) -> dict[str, tuple[int, int]]:
    """Seconds from the first day's start between which each device was observed; some joined late, some left early."""
    end = days * 86_400
    late = np.where(random.random(len(names)) < 0.15, random.uniform(0, 0.4, len(names)), 0) * end
    early = end - np.where(random.random(len(names)) < 0.1, random.uniform(0, 0.4, len(names)), 0) * end
    return {name: (int(a), int(b)) for name, a, b in zip(names, late, early, strict=True)}


def _intervals(
    random: np.random.Generator, here: np.ndarray, names: list[str], windows: dict[str, tuple[int, int]]
) -> list[tuple[str, int, int]]:
    """(device, first second, last second) of every stay within the device's window."""
    found = []
    for k, name in enumerate(names):
        edges = np.diff(np.concatenate([[0], here[:, k].astype(np.int8), [0]]))
        starts, ends = np.flatnonzero(edges == 1) * _STEP, np.flatnonzero(edges == -1) * _STEP
        starts = starts + random.integers(0, _STEP // 2, len(starts))
        ends = ends - random.integers(0, _STEP // 2, len(ends))
        for start, end in zip(starts, ends, strict=True):
            low, high = max(int(start), windows[name][0]), min(int(end), windows[name][1])
            if high > low:
                found.append((name, low, high))
    return found


def _messy(
    random: np.random.Generator, clean: list[tuple[str, int, int]], windows: dict[str, tuple[int, int]]
) -> list[_Row]:
    """The rows as text, in the order of their ends, with irregularities."""
    rows: list[_Row] = [(name, _iso(a), _iso(b)) for name, a, b in sorted(clean, key=lambda row: row[2])]
    mistakes = {
        12: lambda name, a, b: (a, b),  # sent twice
        9: lambda name, a, b: ((a + b) // 2, min(b + 40, windows[name][1])),  # overlaps, within the step to its next
        4: lambda name, a, b: (b, a),  # the wrong way round
    }
    for count, mistaken in mistakes.items():
        for at in random.choice(len(clean), count, replace=False):
            start, end = mistaken(*clean[at])
            rows.insert(int(random.integers(len(rows))), (clean[at][0], _iso(start), _iso(end)))
    name, a, b = clean[int(random.integers(len(clean)))]
    rows.insert(len(rows) // 2, (name, "1970-01-01T00:00:07+00:00", "1970-01-01T00:41:00+00:00"))  # a reset clock
    rows.insert(len(rows) // 3, (None, _iso(a), _iso(b)))
    rows.insert(len(rows) // 4, (name, _iso(a), "unknown"))
    return rows


def _iso(second: int) -> str:
    return (_FIRST + datetime.timedelta(seconds=second)).isoformat()


def _write(path: Path, rows: list[_Row]) -> None:
    with atomic(path) as temporary:
        table = pl.DataFrame(rows, schema=["device", "start", "end"], orient="row")
        table.write_csv(temporary, line_terminator="\r\n")
