"""Stays and absences that are not geometric: some brief, the others longer and more alike."""

from typing import NamedTuple

import numpy as np

from fedtide.fleet.model import Lengths

MOST_BRIEF = 0.97


class Law(NamedTuple):
    """[N] each: the run of a device is brief with probability `brief`, geometric with mean `short`; otherwise it goes
    through `stages` geometric stages that last `long` together. All in rounds, one or more."""

    brief: np.ndarray
    short: np.ndarray
    long: np.ndarray
    stages: np.ndarray

    @property
    def now_brief(self) -> np.ndarray:
        """Probability that a run that is going on is a brief one."""
        return self.brief * self.short / (self.brief * self.short + (1 - self.brief) * self.long)


def law(mean: np.ndarray, lengths: Lengths | None, round_hours: float) -> Law:
    """Of devices whose runs last `mean` rounds on average; geometric without `lengths`.

    Brief and long runs of a device last √(mean / the typical mean) times the typical ones, and so many are brief that
    the mean is exactly as wanted: who stays longer has both longer stays and fewer brief ones.
    """
    if lengths is None:
        return Law(np.zeros_like(mean), np.ones_like(mean), mean, np.ones(len(mean), np.int32))
    typical = lengths.brief * lengths.brief_hours + (1 - lengths.brief) * lengths.long_hours
    unit = np.sqrt(mean * round_hours / typical) / round_hours
    short = np.clip(lengths.brief_hours * unit, 1, mean)
    long = np.maximum(lengths.long_hours * unit, mean)
    brief = np.clip((long - mean) / np.maximum(long - short, 1e-9), 0, MOST_BRIEF)
    long = np.maximum((mean - brief * short) / (1 - brief), 1)
    stages = np.maximum(np.minimum(lengths.stages, np.floor(long + 1e-9)), 1).astype(np.int32)
    return Law(brief, short, long, stages)


class Again(NamedTuple):
    """P(there in a round and in the next) = never_changing − slope · (changes a round)."""

    never_changing: np.ndarray
    slope: np.ndarray

    def changes(self, pi: np.ndarray, correlation: np.ndarray) -> np.ndarray:
        """[N] arrivals (as many as departures) a round that give this long-run lag-1 correlation."""
        wanted = pi**2 + correlation * pi * (1 - pi)
        found = (self.never_changing - wanted) / np.maximum(self.slope, 1e-9)
        return np.clip(found, 1e-6 * pi * (1 - pi), np.minimum(pi, 1 - pi))


def again(pi: np.ndarray, swing: np.ndarray, clock: np.ndarray) -> Again:
    """Of a level that is uniform below π in a stay, above it in an absence, drawn anew with every run, and there while
    it is below π (1 + swing · clock). π in (0, 1); `clock` d in each round until the time of day is the same again."""
    after = np.roll(clock, -1)
    least, up, down = np.minimum(clock, after), np.maximum(clock, 0), np.minimum(clock, 0)
    stay = pi * (1 + swing * np.minimum(least, 0).mean())  # the same stay in both rounds
    beyond = pi * swing * np.maximum(least, 0).mean()  # the same absence, there because π is up
    crossing = (down * np.roll(up, -1)).mean() + (up * np.roll(down, -1)).mean()
    between = pi / (1 - pi) * (2 * swing * up.mean() + swing**2 * crossing)  # a stay and an absence, there in both
    return Again(stay + beyond, stay / pi + beyond / (1 - pi) - between)
