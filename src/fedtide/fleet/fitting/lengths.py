"""The distribution of the lengths of stays and absences, fitted by simulation."""

import numpy as np

from fedtide.fleet.model import Lengths, Profile
from fedtide.fleet.process.run_lengths import Law, law
from fedtide.fleet.process.simulable import Simulable, alternating, chains, simulable, usable
from fedtide.fleet.slots import HERE, UNKNOWN, Slots, state_runs

CHAINS = 59  # simulated fleets of chains: an exact test at 1/60
LEAST = 100  # stays, and absences, with an observed beginning
_FLEETS, _STEPS = 8, 40  # simulated fleets for each step of the search
_WIDER = 1.5  # a class of lengths than the one before
_TINY = 1e-6  # added to the share of each class that the record supports


def lengths(
    slots: Slots, profile: Profile, pi: np.ndarray, hours: np.ndarray, seed: int = 0, habit: np.ndarray | None = None
) -> tuple[Lengths, Lengths] | None:
    """The lengths of stays and of absences; None if those of a chain fit.

    Compared are the shares of stays and of absences by length, pooled over devices, of the record and of simulated
    fleets with the same devices, clock and missing rounds (`_distance`). None if the distance from chains is within
    those of 59 simulated fleets of chains, which true chains fail with probability 1/60; otherwise lengths with which
    it is as small as that of one simulated fleet from others (`_search`). Members of clusters are included.
    """
    generator = np.random.default_rng([seed, 0x1E26])
    some = usable(slots, pi, generator)
    if len(some) == 0:
        return None
    fleet = simulable(
        slots, profile, pi[some], hours[some], slots.state[:, some], None if habit is None else habit[some]
    )
    edges = _edges(slots.rounds)
    recorded = _tally((slots.state[:, some] == HERE).T, fleet.unknown, edges)
    if recorded.sum(1).min() < LEAST:
        return None
    simulated = [_tally(chains(fleet, generator), fleet.unknown, edges) for _ in range(CHAINS)]
    total = np.sum(simulated, axis=0)
    # Each fleet is compared with the mean of the others, so that the 60 distances are exchangeable.
    others = np.stack([_distance(each, (total - each) / (CHAINS - 1)) for each in simulated])
    chance = np.median(others, axis=0)  # scale of each of the four distances
    apart = [(each / chance).sum() for each in (_distance(recorded, total / CHAINS), *others)]
    if apart[0] <= max(apart[1:]):
        return None
    bounds = [supported(slots.state[:, some].T, state, slots.rounds) for state in (0, 1)]
    away, there = _search(recorded, fleet, edges, chance, bounds, seed)
    return there, away


def _edges(rounds: int) -> np.ndarray:
    """Lengths at which classes begin: one by one, then a third wider each time."""
    edges = [1, 2, 3, 4, 6]
    while edges[-1] < rounds:
        edges.append(int(edges[-1] * 1.35) + 1)
    return np.asarray(edges)


def supported(record: np.ndarray, state: int, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends of classes of lengths in rounds, up to the longest observed run, and which of the classes contain, or are
    next to, a run of the record [N, rounds], complete or not."""
    runs, length, _ = state_runs(record)
    length = length[runs == state]
    # From half a round to the record and more.
    ends = 0.5 * _WIDER ** np.arange(int(np.ceil(np.log(2 * rounds) / np.log(_WIDER))) + 1)
    longest = max(int(length.max(initial=1)), 1)
    ends = np.r_[ends[ends < longest], longest]
    if len(ends) > 2 and ends[-1] < 1.1 * ends[-2]:
        ends = np.delete(ends, -2)  # too narrow for a class
    seen = np.histogram(length, ends)[0] > 0
    near = np.convolve(seen, (1, 1, 1), "same") > 0 if len(seen) > 1 else seen
    return ends, near


def _tally(here: np.ndarray, unknown: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """[2, classes]: absences and stays with an observed beginning, by length; arguments [N, rounds].

    Censored runs are distributed over the lengths that they may have had (Kaplan and Meier): when
    devices are observed may depend on whether they are available, and so may censoring.
    """
    state, length, _ = state_runs(np.where(unknown, np.int8(UNKNOWN), here))
    known, kind = state != UNKNOWN, state[1:-1].astype(np.intp)
    begun, ended = known[1:-1] & known[:-2], known[2:]
    group = kind * len(edges) + np.searchsorted(edges, length[1:-1], side="right") - 1
    done, cut = (
        np.bincount(group[begun & which], minlength=2 * len(edges)).reshape(2, -1) for which in (ended, ~ended)
    )
    lasted = np.cumsum((done + cut)[:, ::-1], 1)[:, ::-1]
    # A run that is cut within a class was at risk in half of it on average: the life-table estimate.
    left = np.cumprod(1 - done / np.maximum(lasted - cut / 2, 0.5), 1)
    return lasted[:, :1] * -np.diff(left, axis=1, prepend=1.0)


def _distance(number: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """[2, 2] of absences and stays: by class, Σ (2√number − 2√expected)², and up to each class, as Anderson and Darling
    do, n Σ (F − E)² ΔE / E (1 − E), which is sensitive to a small excess of all short runs."""
    total = number.sum(-1, keepdims=True)
    expected = expected * total / np.maximum(expected.sum(-1, keepdims=True), 1e-9)
    # Square roots make the variance of a count about 1/4 whatever its mean (Freeman and Tukey).
    by_class = 4 * ((np.sqrt(number) - np.sqrt(expected)) ** 2).sum(-1)
    share = expected / np.maximum(total, 1)
    below, wanted = (np.cumsum(each / np.maximum(total, 1), -1)[..., :-1] for each in (number, expected))
    weight = (share[..., :-1] + share[..., 1:]) / 2 / np.maximum(wanted * (1 - wanted), 1e-3)
    return np.stack([by_class, (total[..., 0] * ((below - wanted) ** 2 * weight).sum(-1))], -1)


def laws_of(fleet: Simulable, stays: Lengths, absences: Lengths) -> tuple[Law, Law]:
    """Of absences and of stays, for each device."""
    away, there = (1 - fleet.pi) / fleet.changes, fleet.pi / fleet.changes
    return law(away, absences, fleet.hours), law(there, stays, fleet.hours)


def _search(
    recorded: np.ndarray, fleet: Simulable, edges: np.ndarray, chance: np.ndarray,
    classes: list[tuple[np.ndarray, np.ndarray]], seed: int,
) -> tuple[Lengths, Lengths]:  # fmt: skip
    """Absences and stays whose simulated numbers, by length, are no further from the record than `chance` [2, 2].

    Shares of lengths are multiplied by (recorded / simulated)^½ at this length, smoothed over neighbours, until then:
    Richardson and Lucy's iteration, stopped as soon as what is left may be chance.
    """
    bounds = [ends * fleet.hours for ends, _ in classes]
    middle = [np.log(each[1:] * each[:-1]) / 2 for each in bounds]
    counted = np.log(fleet.hours * np.sqrt(np.maximum(edges - 0.5, 0.5) * np.r_[edges[1:] - 0.5, 1.35 * edges[-1]]))
    typical = [np.exp(np.log(state / fleet.changes).mean(keepdims=True)) for state in (1 - fleet.pi, fleet.pi)]
    # Starts from a chain, with a small share wherever the record has a run, as zeros stay zero.
    found = [
        near * (np.exp(-ends[:-1] / m) - np.exp(-ends[1:] / m) + _TINY)
        for m, (ends, near) in zip(typical, classes, strict=True)
    ]
    best, least = list(found), np.full(2, np.inf)
    for step in range(_STEPS):
        # Each device's proportions follow from its mean; normalised for the typical device.
        found = [
            law(mean, _lengths(ends, share), fleet.hours).share[0]
            for mean, ends, share in zip(typical, bounds, found, strict=True)
        ]
        laws = laws_of(fleet, _lengths(bounds[1], found[1]), _lengths(bounds[0], found[0]))
        drawn = (alternating(fleet, laws, np.random.default_rng([seed, step, i])) for i in range(_FLEETS))
        simulated = np.mean([_tally(here, fleet.unknown, edges) for here in drawn], axis=0)
        away = (_distance(recorded, simulated) / chance).max(1)
        for state in np.flatnonzero(away < least):
            best[state], least[state] = found[state], away[state]
        if (least <= 1).all():
            break
        for state in np.flatnonzero(least > 1):
            ratio = np.log((recorded[state] + 1) / (simulated[state] + 1))
            ratio = np.convolve(np.pad(ratio, 1, mode="edge"), (0.25, 0.5, 0.25), "valid")
            found[state] = found[state] * np.exp(0.5 * np.interp(middle[state], counted, ratio))
            found[state] /= found[state].sum()
    return _lengths(bounds[0], best[0]), _lengths(bounds[1], best[1])


def _lengths(bounds: np.ndarray, share: np.ndarray) -> Lengths:
    return Lengths(tuple(bounds.tolist()), tuple(share.tolist()))
