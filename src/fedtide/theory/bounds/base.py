"""A bound by its terms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedtide.kinds import kinds_checked_class


@kinds_checked_class
@dataclass(frozen=True)
class Bound:
    """An upper bound as a sum of named terms, so that the dominant one can be shown."""

    terms: Mapping[str, Any]

    def __post_init__(self):
        object.__setattr__(self, "terms", {name: float(term) for name, term in self.terms.items()})

    @property
    def total(self) -> float:
        return float(sum(self.terms.values()))

    @property
    def dominant(self) -> str:
        """The name of the largest term."""
        return max(self.terms, key=lambda name: self.terms[name])

    def __getitem__(self, term: str) -> float:
        return self.terms[term]

    def __truediv__(self, divisor: float) -> "Bound":
        return Bound({name: term / divisor for name, term in self.terms.items()})
