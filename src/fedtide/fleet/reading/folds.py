"""The hour that occurs twice, where clocks are set back and times are written without an offset."""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from fedtide.fleet.reading.rows import OPEN, TURNED, Rows
from fedtide.fleet.reading.spans import Spans
from fedtide.fleet.reading.tally import LEFT_OUT, Tally
from fedtide.fleet.reading.times import LogClock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000
_NOBODY = Spans(np.zeros(0, np.uint32), np.zeros(0, np.int64), np.zeros(0, np.int64))


def unfold(rows: Rows, clock: LogClock, tally: Tally) -> tuple[Rows, Spans]:
    """Rows with the times of repeated hours corrected, and the times at which devices are not observed otherwise.

    Times were read as the first of the two. Where the file lists a device's rows in order of time, its times go back
    once in such an hour, and those after that are of the second. Where they do not, both hours are not observed.
    """
    if not clock.naive or clock.local == "UTC" or not len(rows.start):
        return rows, _NOBODY
    holes = []
    order = np.argsort(rows.device, kind="stable")
    kept = rows.only(order)
    # All times of a device in the order of the file: start, end, start, end, …
    times = np.stack([kept.start, kept.end], axis=1) if len(kept.end) else kept.start[:, None].copy()
    device = np.repeat(kept.device, times.shape[1])
    flat = times.reshape(-1)
    finite = flat[flat < OPEN]
    clear = unclear = 0  # times whose hour the order of the file determines, or does not
    for begin, length in _repeated(clock.local, int(finite.min()), int(finite.max())):
        inside = (flat >= begin) & (flat < begin + length)
        if not inside.any():
            continue
        places = np.flatnonzero(inside)
        steps = (device[places][1:] == device[places][:-1]) & (flat[places][1:] < flat[places][:-1])
        back = np.r_[False, steps]
        firsts = np.r_[True, device[places][1:] != device[places][:-1]]
        count = np.cumsum(back)
        since = count - np.maximum.accumulate(np.where(firsts, count - back, 0))  # times gone back so far, per device
        moved = flat.copy()
        moved[places] += length * (since > 0)
        once = np.bincount(device[places], weights=back, minlength=int(device.max()) + 1) == 1
        wrong = np.zeros(len(once), bool)
        wrong[device[1:][(device[1:] == device[:-1]) & (moved[1:] < moved[:-1])]] = True
        good = once & ~wrong if clock.naive == "all" else np.zeros(len(once), bool)
        flat[places] = np.where(good[device[places]], moved[places], flat[places])
        bad = np.unique(device[places][~good[device[places]]])
        settled = int(good[device[places]].sum())
        clear, unclear = clear + settled, unclear + len(places) - settled
        holes.append(Spans(bad, np.full(len(bad), begin), np.full(len(bad), begin + 2 * length)))
    if clear:
        lie = f"{clear:,} times are in an hour that occurs twice (clocks are set back)"
        tally.note(f"{lie}; the order of the file determines which.")
    done = "both hours not observed for their devices, as the order of the file does not determine which"
    tally.add("times in an hour that occurs twice (clocks are set back)", unclear, done)
    times = flat.reshape(times.shape)
    kept = kept._replace(start=times[:, 0], end=times[:, 1] if len(kept.end) else kept.end)
    kept = kept.only(np.argsort(order, kind="stable"))  # as in the file
    if len(kept.end):
        turned = kept.end <= kept.start
        tally.mark(TURNED, turned, LEFT_OUT, lambda i: f"{kept.number[i]}: to {tally.moment(int(kept.end[i]))}")
        kept = kept.only(~turned)
    return kept, Spans(*(np.concatenate(part) for part in zip(*holes, strict=True))) if holes else _NOBODY


def _repeated(zone: str, first: int, last: int) -> list[tuple[int, int]]:
    """(begin, length) of the first of the two hours, in milliseconds, for each time that clocks are set back."""
    place = ZoneInfo(zone)

    def offset(ms: int) -> int:
        moment = (_EPOCH + timedelta(milliseconds=ms)).astimezone(place).utcoffset()
        return round(moment.total_seconds() * 1000) if moment is not None else 0

    found = []
    low, high = max(first - 2 * _DAY, 0), min(last + 2 * _DAY, 150 * 365 * _DAY)
    for at in range(low, high, _DAY):
        before, after = offset(at), offset(at + _DAY)
        if after < before:
            turn = bisect_left(range(at, at + _DAY), True, key=lambda ms: offset(ms) != before)
            found.append((at + turn - (before - after), before - after))
    return found
