"""Every availability process by name."""

from dataclasses import dataclass
from typing import Any

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
from fedtide.catalogue import Catalogue, Entry


@dataclass(frozen=True)
class ProcessEntry(Entry[Process]):
    """An availability process in the catalogue."""

    example: dict[str, Any]  # arguments that build one


CATALOGUE: Catalogue[ProcessEntry] = Catalogue(
    "availability",
    ProcessEntry("always", Always, {"clients": 6}),
    ProcessEntry("bernoulli", Bernoulli, {"availability": [0.1, 0.3, 0.5, 0.7, 0.9, 1.0]}),
    ProcessEntry(
        "markov",
        Markov,
        {"availability": [0.1, 0.1, 0.5, 0.5, 0.9, 0.9], "correlation": [0.0, 0.9, -0.6, 0.6, 0.0, 0.9]},
    ),
    ProcessEntry(
        "finite_chain",
        FiniteChain,
        {
            "transition": [[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.5, 0.0, 0.5]],
            "active_sets": [[0, 1], [1, 2, 3], [4]],
            "clients": 5,
        },
    ),
    ProcessEntry(
        "clusters",
        Clusters,
        {"process": Markov([0.9, 0.5, 0.1], [0.0, 0.5, 0.9]), "membership": [0, 0, 1, 1, 2, 2]},
    ),
    ProcessEntry("cyclic", Cyclic, {"groups": 3, "clients": 6, "period": 2}),
    ProcessEntry("random_access", RandomAccess, {"probabilities": [0.4, 0.2, 0.2, 0.1, 0.1], "users": 2}),
    ProcessEntry("diurnal", Diurnal, {"base": 0.5, "zone": [0.0, 0.25, 0.5, 0.75], "persistence": 0.7, "period": 24}),
    ProcessEntry("phones", Phones, {"rule": "charging", "round_minutes": 60, "clients": 10}),
    ProcessEntry("trace", trace, {"matrix": [[1, 0, 1], [1, 1, 0], [0, 1, 0], [0, 1, 1]], "random_start": True}),
    ProcessEntry("paper_population", paper_population, {"clients": 8}),
    ProcessEntry("spatial_population", spatial_population, {"clusters": 4, "clients_per_cluster": 2}),
    later="fedtide.fleet.process",
)
"""Every availability process by its name in configurations: `CATALOGUE[name].build(**arguments)`.

An entry that is added can be named in configurations, and is covered by `fedtide availability` and by the laws.
"""
find = CATALOGUE.find
