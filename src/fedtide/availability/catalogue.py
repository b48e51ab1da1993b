"""Every availability process by name."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from fedtide.availability.always import Always
from fedtide.availability.base import Process
from fedtide.availability.bernoulli import Bernoulli
from fedtide.availability.clusters import Clusters
from fedtide.availability.cyclic import Cyclic
from fedtide.availability.diurnal import Diurnal
from fedtide.availability.finite_chain import FiniteChain
from fedtide.availability.markov import Markov
from fedtide.availability.phones import Phones
from fedtide.availability.populations import paper_population, spatial_population
from fedtide.availability.random_access import RandomAccess
from fedtide.availability.trace import trace
from fedtide.errors import check_one_of


class Entry(NamedTuple):
    """An availability process with its name."""

    name: str
    build: Callable[..., Process]
    example: dict[str, Any]  # arguments that build one

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.build) or "").split("\n")[0]


_ENTRIES = (
    Entry("always", Always, {"clients": 6}),
    Entry("bernoulli", Bernoulli, {"availability": [0.1, 0.3, 0.5, 0.7, 0.9, 1.0]}),
    Entry(
        "markov",
        Markov,
        {"availability": [0.1, 0.1, 0.5, 0.5, 0.9, 0.9], "correlation": [0.0, 0.9, -0.6, 0.6, 0.0, 0.9]},
    ),
    Entry(
        "finite_chain",
        FiniteChain,
        {
            "transition": [[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.5, 0.0, 0.5]],
            "active_sets": [[0, 1], [1, 2, 3], [4]],
            "clients": 5,
        },
    ),
    Entry(
        "clusters",
        Clusters,
        {"process": Markov([0.9, 0.5, 0.1], [0.0, 0.5, 0.9]), "membership": [0, 0, 1, 1, 2, 2]},
    ),
    Entry("cyclic", Cyclic, {"groups": 3, "clients": 6, "period": 2}),
    Entry("random_access", RandomAccess, {"probabilities": [0.4, 0.2, 0.2, 0.1, 0.1], "users": 2}),
    Entry("diurnal", Diurnal, {"base": 0.5, "zone": [0.0, 0.25, 0.5, 0.75], "persistence": 0.7, "period": 24}),
    Entry("phones", Phones, {"rule": "charging", "round_minutes": 60, "clients": 10}),
    Entry("trace", trace, {"matrix": [[1, 0, 1], [1, 1, 0], [0, 1, 0], [0, 1, 1]], "random_start": True}),
    Entry("paper_population", paper_population, {"clients": 8}),
    Entry("spatial_population", spatial_population, {"clusters": 4, "clients_per_cluster": 2}),
)

CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
"""Every availability process by its name in configurations: `CATALOGUE[name].build(**arguments)`."""


def register(entry: Entry) -> None:
    """Adds a process: it is then available by its name in configurations, `fedtide availability` and the laws."""
    CATALOGUE[entry.name] = entry


def find(name: str) -> Entry:
    """The catalogue's entry of that name."""
    check_one_of("availability", name, CATALOGUE)
    return CATALOGUE[name]
