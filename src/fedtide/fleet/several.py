"""Several questions to one record: verdicts that hold together."""

from collections.abc import Callable, Sequence

from fedtide.fleet.contrasts import LEVEL
from fedtide.fleet.diagnosis import Finding

_FAR = 0.001
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

Conclude = Callable[[float], Finding]
"""A finding whose verdict is \"does not hold\" where p is at most this level."""


def judged(questions: Sequence[Conclude]) -> tuple[Finding, ...]:
    """Findings of which all verdicts together err in 5 % of fleets of true chains: Holm's rule over those decided.

    The smallest of m values of p is compared with 5 % / m, the next with 5 % / (m − 1), until one is larger. `p` stays
    that of the question alone. A p that is at most 5 % and is not enough among so many is told.
    Reference: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 1979.
    """
    alone = [conclude(LEVEL) for conclude in questions]
    decided = sorted((i for i, found in enumerate(alone) if found.p is not None), key=lambda i: _finer(alone[i]))
    refuted: set[int] = set()
    for place, i in enumerate(decided):
        if _finer(alone[i]) * (len(decided) - place) > LEVEL:
            break
        refuted.add(i)
    return tuple(
        _excused(conclude(-1.0), len(decided))
        if found.p is not None and not found.holds and i not in refuted
        else found
        for i, (conclude, found) in enumerate(zip(questions, alone, strict=True))
    )


def _finer(found: Finding) -> float:
    """p, as small as 0.001 where the record lies off the simulated 95 % by more than their whole width (six standard
    deviations from the middle of a normal): a few hundred simulated fleets cannot show how rare that is."""
    assert found.p is not None
    if found.null is None or found.statistic is None or found.p > LEVEL:
        return found.p
    low, high = found.null
    off = max(low - found.statistic, found.statistic - high)
    return min(found.p, _FAR) if off > high - low > 0 else found.p


def _excused(found: Finding, asked: int) -> Finding:
    many = _NUMBERS[asked] if asked < len(_NUMBERS) else str(asked)
    return found._replace(
        sentence=f"{found.sentence} Asked alone this would be rare (p = {found.p:.2g}); among {many} questions it is"
        " not rare enough."
    )
