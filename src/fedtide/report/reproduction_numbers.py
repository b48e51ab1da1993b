"""What stored results say: means with intervals, who is drawn how, where cases stand.

Results are those of `fedtide.experiments.reproduce`, a study is its TOML as a dictionary. Seeds that share a data draw
are not independent: where there are several draws, draws are counted. Verdicts stand on the same numbers.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedtide.report.statistics import student
from fedtide.report.words import short

Facts = Mapping[str, Any]

SHARES = ("late", "average", "best", "spread", "worst_decile")  # of 1, told in percent or points
_PLACE = re.compile(r"([^\s=,;]+)\s*=\s*([-−]?[\d.]+(?:e[-−]?\d+)?)")


class Row(NamedTuple):
    """A method of a case, and how it is drawn."""

    label: str
    colour: int
    published: bool  # runs at published settings beside its own tuned row
    found: Facts


class Level(NamedTuple):
    """A mean and its 95 % interval (Student's t); None where one value gives none."""

    mean: float
    low: float | None
    high: float | None

    @property
    def ends(self) -> tuple[float, float]:
        return (self.mean, self.mean) if self.low is None or self.high is None else (self.low, self.high)


def label_of(method: Facts) -> str:
    return str(method.get("label") or method.get("name"))


def brief(label: str, most: int) -> str:
    """A label of at most so many characters.

    >>> brief("CA-Fed, published rates", 14)
    'CA-Fed, publ.'
    """
    return short(re.sub(r", published rates?$", ", publ.", label), most)


def partners(study: Facts) -> dict[str, str]:
    """Methods that run at published settings, by label, with the tuned method that they belong to.

    They begin with its label; or they are of its kind and named by nothing but settings (cells of a grid), and no claim
    is about them.
    """
    tuned = {label_of(m): m.get("name") for m in study["methods"]}
    claimed: set[str] = set()
    for claim in study.get("claims") or ():
        against = claim.get("against") or ()
        claimed |= {claim["method"], *([against] if isinstance(against, str) else against)}
    found = {}
    for method in study.get("fixed") or () if study.get("tune") else ():
        label = label_of(method)
        stems = [t for t in tuned if label != t and label.startswith(t)]
        named = [t for t, name in tuned.items() if name == method.get("name")]
        if stems:
            found[label] = max(stems, key=len)
        elif named and label not in claimed and not coordinates(label)[0]:
            found[label] = named[-1]
    return found


def order(study: Facts) -> list[str]:
    """Labels in the order of their colours; a method at its published settings shares its partner's."""
    paired = partners(study)
    every = [label_of(m) for m in (*study["methods"], *(study.get("fixed") or ()))]
    return [label for label in every if label not in paired]


def rows(study: Facts, case: Facts) -> list[Row]:
    """The methods of a case in the order in which they were run."""
    places, paired = order(study), partners(study)
    found = []
    for method in case["methods"]:
        label = method["label"]
        owner = paired.get(label, label)
        colour = places.index(owner) if owner in places else len(places)
        found.append(Row(label, colour, label in paired, method))
    return found


def reference(study: Facts) -> str:
    """The method that the claims are about most often; the first one where there are none."""
    named = Counter(claim["method"] for claim in study.get("claims") or ())
    return named.most_common(1)[0][0] if named else label_of(study["methods"][0])


def values(method: Facts, measure: str) -> np.ndarray | None:
    """A measure's values, one a replica; None where it is not measured.

    A run that diverged is right about nothing. It has no spread and no loss: nan.
    """
    if method.get(measure) is None:
        return None
    found = np.array(method[measure], float)
    if not np.isfinite(found).any() and not all(method["diverged"]):
        return None
    if measure not in (*SHARES, "classes", "curve") or measure == "spread":
        return found
    lost = np.array(method["diverged"], bool).reshape(-1, *(1,) * (found.ndim - 1))
    return np.where(lost, np.nan_to_num(found), found)


def replicas(case: Facts, found: np.ndarray) -> np.ndarray:
    """Values [seeds of all draws, …] as independent ones: means by draw where there are several draws."""
    draw = np.array(case["draw"])
    draws = np.unique(draw)
    if len(draws) < 2:
        return found
    return np.array([found[draw == d].mean(axis=0) for d in draws])


def level(found: np.ndarray, confidence: float = 0.95) -> Level:
    """The mean of independent values and its interval."""
    mean, low, high = student(found, confidence)
    return Level(np.nan if mean is None else mean, low, high)


def measured(case: Facts, method: Facts, measure: str) -> Level | None:
    """A method's level in a case; None where the measure is not there."""
    found = values(method, measure)
    return None if found is None else level(replicas(case, found))


def gap(case: Facts, method: Facts, other: Facts, measure: str) -> Level | None:
    """Method − other, paired."""
    mine, theirs = values(method, measure), values(other, measure)
    return None if mine is None or theirs is None else level(replicas(case, mine - theirs))


def measure_of(results: Facts) -> str:
    """What methods are compared by: late accuracy where there is one, otherwise the objective."""
    tested = any(values(m, "late") is not None for case in results["cases"] for m in case["methods"])
    return "late" if tested else "objective"


def coordinates(label: str) -> tuple[str, dict[str, float]]:
    """What a label says beside numbers, and its numbers by name.

    >>> coordinates("Dirichlet, λ = 0.9, α = 0.1")
    ('Dirichlet', {'λ': 0.9, 'α': 0.1})
    """
    found = {name: float(number.replace("−", "-")) for name, number in _PLACE.findall(label)}
    rest = _PLACE.sub("", label)
    return " ".join(re.sub(r"[\s,;:]*[,;:][\s,;:]*", ", ", rest).strip(" ,;:").split()), found


def axis(cases: Sequence[Facts]) -> str:
    """The name of what varies over cases that stand on an axis."""
    named = [coordinates(case["label"])[1] for case in cases]
    for name in named[0] if named else ():
        if all(name in found and found[name] == case["value"] for found, case in zip(named, cases, strict=True)):
            return name
    return ""


def grouped(cases: Sequence[Facts]) -> dict[str, list[Facts]]:
    """Cases that stand on an axis, by what else their labels say, each in the order of the axis."""
    name = axis(cases)
    found: dict[str, list[Facts]] = {}
    for case in cases:
        rest, numbers = coordinates(case["label"])
        if not name:
            rest = ""
        others = [f"{key} = {number:g}" for key, number in numbers.items() if key != name] if name else []
        found.setdefault(", ".join(filter(None, (rest, *others))), []).append(case)
    return {rest: sorted(own, key=lambda case: case["value"]) for rest, own in found.items()}


def on_axis(cases: Sequence[Facts]) -> bool:
    """Whether the cases are points of an axis."""
    placed = [case["value"] for case in cases if case.get("value") is not None]
    return len(placed) == len(cases) and len(set(placed)) > 1


def watched(study: Facts) -> list[int]:
    """The classes that claims are about."""
    return sorted({c for claim in study.get("claims") or () for c in claim.get("classes") or ()})
