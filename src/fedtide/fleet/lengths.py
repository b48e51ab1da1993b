"""How long stays and absences last, beyond their mean: fitted by simulation."""

import numpy as np

from fedtide.fleet.model import Lengths, Profile
from fedtide.fleet.runs import Law, law
from fedtide.fleet.simulable import Simulable, alternating, chains, simulable, usable
from fedtide.fleet.slots import HERE, Slots

CHAINS = 59  # simulated fleets of chains; one more distant than all of them has a chance of 1 in 60
LEAST = 100  # stays, and absences, that were seen to begin
_FLEETS, _STEPS = 8, 40  # simulated fleets for each step of the search
_WIDER = 1.5  # a class of lengths than the one before
_TINY = 1e-6  # the share of what a chain has not, where the record may have it


def lengths(
    slots: Slots,
    profile: Profile,
    pi: np.ndarray,
    hours: np.ndarray,
    seed: int = 0,
    habit: np.ndarray | None = None,
) -> tuple[Lengths, Lengths] | None:
    """The lengths of stays and of absences; None where a chain's are as good.

    Compared are the shares of stays and of absences by length, pooled over devices, of the record and of simulated
    fleets with the same devices, clock and missing rounds (`_distance`). None if the distance from chains is within
    those of 59 simulated fleets of chains, which true chains fail with probability 1/60; otherwise lengths with which
    it is as small as that of a simulated fleet from others (`_search`). Members of clusters count as others.
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
    others = np.stack([_distance(each, (total - each) / (CHAINS - 1)) for each in simulated])
    chance = np.median(others, axis=0)
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
    """Ends of classes of lengths in rounds, up to the longest run that was seen, and which of the classes a run of the
    record [N, rounds] is in or next to, whether or not its ends were seen: of others nothing is known."""
    padded = np.zeros((len(record), record.shape[1] + 2), np.int8)
    padded[:, 1:-1] = record == state
    turn = np.diff(padded.ravel())
    length = np.flatnonzero(turn < 0) - np.flatnonzero(turn > 0)
    ends = _classes(rounds)
    longest = max(int(length.max(initial=1)), 1)
    ends = np.r_[ends[ends < longest], longest]
    if len(ends) > 2 and ends[-1] < 1.1 * ends[-2]:
        ends = np.delete(ends, -2)  # hardly a class of its own
    seen = np.histogram(length, ends)[0] > 0
    near = np.convolve(seen, (1, 1, 1), "same") > 0 if len(seen) > 1 else seen
    return ends, near


def _tally(here: np.ndarray, unknown: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """[2, classes]: absences and stays that were seen to begin, by length; arguments [N, rounds].

    Runs that were not seen to end are shared out among the lengths that they may have had, as Kaplan and Meier do: when
    devices are observed may have to do with whether they are there, and so with which runs are cut off.
    """
    state = np.full((len(here), here.shape[1] + 1), 2, np.int8)  # a column that is unknown ends every device
    state[:, :-1] = np.where(unknown, np.int8(2), here)
    flat = state.ravel()
    last = np.flatnonzero(np.diff(flat))  # of every run but the final, which is unknown
    length, kind = np.diff(last), flat[last[1:]].astype(np.intp)
    begun, ended = (kind < 2) & (flat[last[:-1]] < 2), flat[last[1:] + 1] < 2
    group = kind * len(edges) + np.searchsorted(edges, length, side="right") - 1
    done, cut = (
        np.bincount(group[begun & which], minlength=2 * len(edges)).reshape(2, -1) for which in (ended, ~ended)
    )
    lasted = np.cumsum((done + cut)[:, ::-1], 1)[:, ::-1]
    left = np.cumprod(1 - done / np.maximum(lasted - cut / 2, 0.5), 1)
    return lasted[:, :1] * -np.diff(left, axis=1, prepend=1.0)


def _distance(number: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """[2, 2] of absences and stays: by class, Σ (2√number − 2√expected)², and up to each class, as Anderson and Darling
    do, n Σ (F − E)² ΔE / E (1 − E), which sees when all short runs are a little too many."""
    total = number.sum(-1, keepdims=True)
    expected = expected * total / np.maximum(expected.sum(-1, keepdims=True), 1e-9)
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
    means = (1 - fleet.pi) / fleet.changes, fleet.pi / fleet.changes
    typical = [float(np.exp(np.log(mean).mean())) for mean in means]
    # From what a chain's are. A little wherever the record has a run: what is 0 stays so.
    found = [
        near * (np.exp(-ends[:-1] / m) - np.exp(-ends[1:] / m) + _TINY)
        for m, (ends, near) in zip(typical, classes, strict=True)
    ]
    best, least = list(found), np.full(2, np.inf)
    for step in range(_STEPS):
        # Devices' proportions follow from their means: for the typical one those that it has itself.
        found = [
            law(np.array([m]), Lengths(tuple(ends), tuple(share)), fleet.hours).share[0]
            for m, ends, share in zip(typical, bounds, found, strict=True)
        ]
        laws = [
            law(mean, Lengths(tuple(ends), tuple(share)), fleet.hours)
            for mean, ends, share in zip(means, bounds, found, strict=True)
        ]
        drawn = (alternating(fleet, (laws[0], laws[1]), np.random.default_rng([seed, step, i])) for i in range(_FLEETS))
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
    away, there = (
        Lengths(tuple(map(float, ends)), tuple(map(float, share))) for ends, share in zip(bounds, best, strict=True)
    )
    return away, there


def _classes(rounds: int) -> np.ndarray:
    """Ends of the classes of lengths, in rounds: from half a round to the record and more."""
    count = int(np.ceil(np.log(2 * rounds) / np.log(_WIDER)))
    return 0.5 * _WIDER ** np.arange(count + 1)
