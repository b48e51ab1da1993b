"""The clock shared by the devices of a fleet: hours of the day, days of the week."""

import numpy as np

from fedtide.availability.daily import between_hours
from fedtide.fleet.diagnosis.nulls import SharedClock, read_clock
from fedtide.fleet.model import Profile
from fedtide.fleet.slots import DAY, HERE, Slots

_SMOOTH = 3e-3  # weight of second differences relative to the errors of hours; interpolates hours without a round
LEAST_DAYS = 2  # of a record, for a daily profile
LEAST_WEEKS = 2  # of a record, for a weekly one


def profile(slots: Slots) -> tuple[Profile, tuple[str, ...]]:
    """Fits the shared profile with its errors; returns notes on what the record is too short for.

    d by hour is fitted together with the devices' levels, P = π_k (1 + s_k d), so that varying observation does
    not appear as a cycle. Errors are those of sums over devices, or over days if these vary more: both account
    for runs. The profile is shrunk by the power of its errors, d · √(1 − Σ se² / Σ d²), so that its amplitude is
    unbiased, and with it the swings of the number available. A round
    interpolates d between the middles of hours, whose values are such that the means over hours are as measured.
    """
    seen = slots.observed
    hours, flat = slots.hours, np.zeros(24)
    there = np.stack([(slots.state[hours == h] == HERE).sum(0) for h in range(24)])  # [24, N] rounds available
    looked = np.stack([seen[hours == h].sum(0) for h in range(24)])  # [24, N] rounds observed
    total = looked.sum(1)
    share = np.where(total > 0, there.sum(1) / np.maximum(total, 1), np.nan)
    share_se = _error(there - np.nan_to_num(share)[:, None] * looked, total)
    days = slots.rounds * slots.round_seconds / DAY
    if days < LEAST_DAYS:
        note = f"A record of {days:.1f} days is too short for a daily profile: assumed flat."
        return Profile(share, share_se, flat, None), (note,)
    if slots.round_seconds > DAY / 2 or not there.any():
        return Profile(share, share_se, flat, None), ("These rounds are too long for a daily profile: assumed flat.",)
    here = (slots.state == HERE).astype(np.uint8)[:, None]
    cells = np.unique(hours, return_inverse=True)[1]
    clock = read_clock(here, seen[:, None], cells)
    relative, error = _relative(slots, clock, cells, looked)
    kept = _kept(relative, error)
    hour = _at_middles(slots, kept * relative, error)
    weekday, notes = _weekday(slots, clock, cells)
    return Profile(share, share_se, hour, weekday), notes


def _error(deviation: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Standard error of a ratio of sums over independent columns, from each column's deviation."""
    return np.sqrt((deviation**2).sum(1)) / np.maximum(total, 1e-9)


def _relative(slots: Slots, clock: SharedClock, cells: np.ndarray, looked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """d by hour, and its standard error; nan for hours in which no round begins."""
    present = np.unique(slots.hours)
    level = clock.presence[:, 0].mean(0)  # [N]
    weight = (looked[present] * level).sum(1)
    left, by_day = _left(slots, clock, cells)
    error = _error(left, weight)
    if by_day.shape[1] >= 4:
        # Devices with common good and bad days are not independent: then days are the units. An error needs four.
        error = np.maximum(error, _error(by_day, weight))
    relative, errors = np.full(24, np.nan), np.full(24, np.nan)
    relative[present], errors[present] = clock.relative[0] - clock.relative[0].mean(), error
    return relative, errors


def _left(slots: Slots, clock: SharedClock, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals from the profile: sums for each device [cells, N] and for each day [cells, days]."""
    count = cells.max() + 1
    day = np.arange(slots.rounds) * slots.round_seconds // DAY
    left, by_day = np.zeros((count, slots.state.shape[1])), np.zeros((count, day[-1] + 1))
    for c in range(count):
        rounds = np.flatnonzero(cells == c)
        rows = slots.state[rounds]
        deviation = np.where(rows >= 0, rows - clock.presence[c], 0)
        left[c] = deviation.sum(0)
        np.add.at(by_day[c], day[rounds], deviation.sum(1))
    return left, by_day


def _kept(relative: np.ndarray, error: np.ndarray) -> float:
    # The estimate has the power of the truth plus that of its errors; the root, since d is an amplitude.
    power, noise = np.nansum(relative**2), np.nansum(error**2)
    return float(max(0.0, 1 - noise / power) ** 0.5) if power > 0 else 0.0


def _at_middles(slots: Slots, means: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Values at the middles of hours whose interpolation has these means over the rounds of each hour."""
    day = np.unique(slots.seconds)
    day = day if len(day) <= DAY // 60 else np.arange(0, DAY, 60)
    hat = np.stack([between_hours(one, day) for one in np.eye(24)], 1)  # [rounds of a day, 24]
    hours = day // 3600
    mean = np.stack([hat[hours == h].mean(0) if (hours == h).any() else np.zeros(24) for h in range(24)])
    known = np.isfinite(means)
    least = np.nanmedian(error) if known.any() else 1.0
    weight = np.where(known, 1 / np.maximum(np.nan_to_num(error) / max(least, 1e-9), 0.3) ** 2, 0)
    bend = 2 * np.eye(24) - np.roll(np.eye(24), 1, 0) - np.roll(np.eye(24), -1, 0)
    system = mean.T @ (weight[:, None] * mean) + _SMOOTH * bend.T @ bend
    value = np.linalg.solve(system + 1e-9 * np.eye(24), mean.T @ (weight * np.nan_to_num(means)))
    value = np.maximum(value, -1)
    return (1 + value) / (1 + (hat @ value).mean()) - 1


def _weekday(slots: Slots, clock: SharedClock, cells: np.ndarray) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Factors of weekdays minus 1, shrunk by the variation of the same weekday; None if they cannot be estimated."""
    weeks = slots.rounds * slots.round_seconds / (7 * DAY)
    if slots.weekdays is None:
        return None, ("The log's clock has no date: no weekly profile.",) if weeks >= LEAST_WEEKS else ()
    if weeks < LEAST_WEEKS:
        return None, (f"A record of {7 * weeks:.1f} days is too short for a weekly profile.",)
    names = np.r_[0, np.cumsum(np.diff(slots.weekdays) != 0)]  # number of the calendar day
    here, expected = np.zeros(names[-1] + 1), np.zeros(names[-1] + 1)
    for c in range(cells.max() + 1):
        rounds = np.flatnonzero(cells == c)
        rows = slots.state[rounds]
        np.add.at(here, names[rounds], (rows == HERE).sum(1))
        np.add.at(expected, names[rounds], (rows >= 0).astype(np.float32) @ clock.presence[c, 0])
    first = np.r_[0, np.flatnonzero(np.diff(names)) + 1]
    # Days that were observed for less than half of the median would have the weight of whole ones.
    of_day, full = slots.weekdays[first], expected > 0.5 * np.median(expected)
    ratio = here / np.maximum(expected, 1e-9)
    factor, error, within, degrees = np.ones(7), np.full(7, np.inf), 0.0, 0
    for w in range(7):
        mine = ratio[full & (of_day == w)]
        if len(mine):
            factor[w], error[w] = mine.mean(), 1 / len(mine)
            within, degrees = within + ((mine - mine.mean()) ** 2).sum(), degrees + len(mine) - 1
    if degrees < 4 or np.isinf(error).any():
        return None, ("Too few whole days for a weekly profile.",)
    factor /= factor.mean()
    return _kept(factor - 1, np.sqrt(error * within / degrees)) * (factor - 1) + 0.0, ()  # no −0
