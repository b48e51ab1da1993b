"""Lengths of available and unavailable periods (stays and absences) that are not geometric."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.errors import require
from fedtide.fleet.model import MOST_BOUNDS, Lengths
from fedtide.streams import Stream

_STEEPEST = 6.0  # |θ| of a device
_SURE = 0.99  # of a typical device's time; longer runs are too few for their shares to be known
_FOREVER = 2.0**30  # longest run in rounds; longer ones are cut to it
_MOST_GROWTH = 20.0  # of a class's share: a class with few observations must not come to dominate a device


class Law(NamedTuple):
    """The distribution of each device's run lengths in rounds: class b with probability share[k, b], log-uniform from
    scale[k] edges[b] to scale[k] edges[b + 1], then rounded up or down at random to one round or more."""

    edges: np.ndarray  # [classes + 1]
    share: np.ndarray  # [N, classes]
    scale: np.ndarray  # [N]; 1 unless no shares give the mean


def law(mean: np.ndarray, lengths: Lengths, round_hours: float) -> Law:
    """For devices whose runs last `mean` rounds on average, exactly.

    A device has the lengths of the typical one in other proportions, share · (length + typical mean)^θ: a device with
    longer stays has more of the long ones, not longer ones, and the short ones keep their relative proportions. Empty
    classes stay empty; the longest classes, with 1 % of the time, grow no more than the one before; and θ is limited
    such that no share exceeds 20 times the typical one. `scale` then corrects the remaining difference of the mean.
    """
    edges, share = np.asarray(lengths.hours) / round_hours, np.asarray(lengths.share)
    mean, scale = np.maximum(mean, 1.0), np.ones(len(mean))
    each = expected(edges, np.ones(1))[0]
    some = share > 0
    height = np.log(share, where=some, out=np.full(len(share), -np.inf))
    slope = np.log(each + share @ each / share.sum())
    spent = np.cumsum(share * each)
    slope = np.minimum(slope, slope[np.searchsorted(spent, _SURE * spent[-1])])
    slope = slope - slope[some].mean()
    least, most = _steepest(share[some], slope[some])
    theta, weight = np.zeros(len(mean)), np.zeros((len(mean), len(share)))
    for _ in range(50):
        weight = height + theta[:, None] * slope
        weight = np.exp(weight - weight.max(1, keepdims=True))
        weight /= weight.sum(1, keepdims=True)
        found = weight @ each
        missing = np.log(mean / found)
        if np.abs(missing).max(initial=0) < 1e-12:
            break
        rise = (weight * each) @ slope / found - weight @ slope  # of the logarithm, with θ
        theta = np.clip(theta + np.clip(missing / np.maximum(rise, 1e-9), -0.5, 0.5), least, most)
    off = np.abs(weight @ each / mean - 1) > 1e-9
    scale[off] = _scaled(edges, weight[off], mean[off])
    return Law(edges, weight, scale)


def _steepest(share: np.ndarray, slope: np.ndarray) -> tuple[float, float]:
    """The limits of θ: where the share of the shortest, or of the longest, class has grown by the largest factor."""
    share = share / share.sum()

    def limit(sign: int, end: int) -> float:
        tilt = sign * (slope - slope[end])
        return sign * bisection(0.0, _STEEPEST, lambda x: 1 / (share @ np.exp(x * tilt)) <= _MOST_GROWTH)

    return limit(-1, 0), limit(1, -1)


def bisection(low: float, high: float, further: Callable[[float], bool]) -> float:
    """Where `further` becomes false, or the nearer end."""
    # SciPy's root finders need a change of sign; here, and in `law`, an end of the range is the answer without one.
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if further(middle) else (low, middle)
    return (low + high) / 2


def expected(edges: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """[N, classes] mean run length in each class: of max(1, x) for log-uniform x."""
    return weighed(np, scale[:, None] * edges[:-1], scale[:, None] * edges[1:])[2] / np.log(edges[1:] / edges[:-1])


def weighed(xp: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
    """(1 clipped to [low, high], ∫ dx/x below it, ∫ max(1, x) dx/x from low to high)."""
    one = xp.clip(1.0, low, high)
    under = xp.log(one / low)
    return one, under, under + high - one


def _scaled(edges: np.ndarray, share: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """[N] the factor of the lengths that gives these means."""
    # By bisection: for a mean of one round there is no change of sign, which SciPy's find_root needs.
    low, high = np.full(len(mean), 1e-9), mean / edges[0]
    for _ in range(100):
        middle = np.sqrt(low * high)
        less = (share * expected(edges, middle)).sum(1) < mean
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.sqrt(low * high)


def lasting(xp: Any, low: Any, high: Any, scale: Any, place: Any, up: Any) -> Any:
    """Run lengths in whole rounds, from two uniform numbers each: log-uniform in their class, rounded at random.
    `xp` is NumPy or `jax.numpy`, here and below."""
    return xp.clip(xp.floor(low * (high / low) ** place * scale + up), 1, _FOREVER)


def left(xp: Any, low: Any, high: Any, place: Any, up: Any, ahead: Any) -> Any:
    """Remaining rounds, with the current one, of runs in progress at a random time (length-biased)."""
    # A random time falls into a run in proportion to its length, and anywhere within it (Cox, "Renewal theory", 1962).
    one, under, total = weighed(xp, low, high)
    length = xp.clip(one + place * total - under, 1, _FOREVER)
    short = xp.floor(length)
    length = short + (up * length < (length - short) * (short + 1))
    return xp.floor(ahead * length) + 1


class Again(NamedTuple):
    """P(available in two consecutive rounds) = never_changing − slope · (changes per round)."""

    never_changing: np.ndarray
    slope: np.ndarray

    def changes(self, pi: np.ndarray, correlation: np.ndarray) -> np.ndarray:
        """[N] arrivals per round (equal to departures) that give this long-run lag-1 correlation."""
        wanted = pi**2 + correlation * pi * (1 - pi)
        found = (self.never_changing - wanted) / np.maximum(self.slope, 1e-9)
        return np.clip(found, 1e-6 * pi * (1 - pi), np.minimum(pi, 1 - pi))


def again(pi: np.ndarray, threshold: np.ndarray) -> Again:
    """For a level that is uniform below π in a stay and above π in an absence, redrawn with every run; the client is
    available while it is below the threshold [N, rounds], of mean π over a whole cycle of the clock. π in (0, 1)."""
    level, after = pi[:, None], np.roll(threshold, -1, 1)
    least = np.minimum(threshold, after)
    stay, beyond = np.minimum(least, level).mean(1), np.maximum(least - level, 0).mean(1)
    in_stay, in_absence = np.minimum(threshold, level) / level, np.maximum(threshold - level, 0) / (1 - level)
    between = (in_stay * np.roll(in_absence, -1, 1) + in_absence * np.roll(in_stay, -1, 1)).mean(1)
    return Again(stay + beyond, stay / pi + beyond / (1 - pi) - between)


class Turns(NamedTuple):
    """The laws of absences (first row) and stays (second). See `fedtide.fleet.process.run_lengths.Law`."""

    edges: Array | np.ndarray  # [2, 1, classes + 1] bounds of the classes of lengths, in rounds
    below: Array | np.ndarray  # [2, N, classes] probability of a shorter class
    scale: Array | np.ndarray  # [2, N, 1]


class TurnLevel(NamedTuple):
    """Uniform below π in a stay and above π in an absence, so that it is uniform on [0, 1) at any time."""

    level: Array  # [N]
    ahead: Array  # [N] remaining rounds of this run, with the current one


def turns(pi: np.ndarray, changes: np.ndarray, stays: Any, absences: Any, round_hours: float) -> Turns:
    """For `changes` arrivals per round: stays of π / changes rounds, absences of (1 − π) / changes."""
    laws = law((1 - pi) / changes, absences, round_hours), law(pi / changes, stays, round_hours)
    most = max(len(each.edges) for each in laws)
    # Padded with classes of probability 0, so that both have the same number.
    edges = [np.r_[each.edges, each.edges[-1] * 2.0 ** np.arange(1, 1 + most - len(each.edges))] for each in laws]
    share = [np.pad(each.share, ((0, 0), (0, most - len(each.edges)))) for each in laws]
    below = np.stack([np.cumsum(each, 1) - each for each in share])
    scale = np.stack([each.scale for each in laws])
    return Turns(np.stack(edges)[:, None], np.minimum(below, 1), scale[:, :, None])


def begin(turns: Turns, level: Array, pi: Array, stream: Stream) -> TurnLevel:
    """In the middle of a run, as at any later time (length-biased)."""
    numbers = stream.uniform(jnp.arange(len(level)), 4, start=8)
    available = level < pi
    edges, below, scale = (_of(field, available) for field in turns)
    share = jnp.diff(below, axis=1, append=1.0)
    low, high = edges[:, :-1] * scale, edges[:, 1:] * scale
    met = jnp.cumsum(share * weighed(jnp, low, high)[2] / jnp.log(high / low), axis=1)
    group = (met[:, :-1] <= numbers[:, :1] * met[:, -1:]).sum(1)[:, None]
    low, high = (jnp.take_along_axis(field, group, 1)[:, 0] for field in (low, high))
    return TurnLevel(level, left(jnp, low, high, *numbers[:, 1:].T).astype(jnp.int32))


def turn(turns: Turns, state: TurnLevel, pi: Array, numbers: Array) -> TurnLevel:
    """The next round, from three uniform numbers per client [N, 3]. Clients with π = 1 have no absences."""
    available, over = state.level < pi, state.ahead <= 1
    drawn = jnp.where(available & (pi < 1), pi + (1 - pi) * numbers[:, 0], pi * numbers[:, 0])
    edges, below, scale = (_of(field, ~available) for field in turns)
    group = (below[:, 1:] <= numbers[:, 1:2]).sum(1)[:, None]
    first, low, high = (jnp.take_along_axis(f, group, 1)[:, 0] for f in (below, edges[:, :-1], edges[:, 1:]))
    after = jnp.take_along_axis(jnp.pad(below, ((0, 0), (0, 1)), constant_values=1.0), group + 1, 1)[:, 0]
    place = jnp.clip((numbers[:, 1] - first) / jnp.maximum(after - first, 1e-9), 0, 1)
    length = lasting(jnp, low, high, scale[:, 0], place, numbers[:, 2]).astype(jnp.int32)
    return TurnLevel(jnp.where(over, drawn, state.level), jnp.where(over, length, state.ahead - 1))


def _of(field: Any, available: Array) -> Array:
    """[N, …] the row for each client, by whether it is available."""
    absence, stay = jnp.asarray(field)
    return jnp.where(available[:, None], stay, absence)


def lengths_of(field: str, value: Any) -> Any:
    """The checked lengths, or None."""
    if value is None:
        return None
    allowed = "[hours, share]: two or more increasing hours, and the share of runs between consecutive ones"
    try:
        hours, share = (tuple(float(v) for v in part) for part in value)
    except (TypeError, ValueError):
        require(False, field, value, allowed)
        raise
    fine = 2 <= len(hours) <= MOST_BOUNDS and len(share) == len(hours) - 1 and bool(np.isfinite([*hours, *share]).all())
    fine = fine and hours[0] > 1e-6 and bool((np.diff(hours) > 0).all()) and min(share) >= 0 and sum(share) > 0
    require(fine, field, value, allowed)
    total = sum(share)
    return Lengths(hours, tuple(each / total for each in share))
