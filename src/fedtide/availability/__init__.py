"""Availability processes: which clients are available in each round."""

from fedtide.availability.always import Always
from fedtide.availability.base import Process
from fedtide.availability.bernoulli import Bernoulli
from fedtide.availability.catalogue import CATALOGUE, ProcessEntry, find
from fedtide.availability.clusters import Clusters
from fedtide.availability.cyclic import Cyclic
from fedtide.availability.diurnal import Diurnal
from fedtide.availability.finite_chain import FiniteChain
from fedtide.availability.markov import Markov
from fedtide.availability.phones import Phones
from fedtide.availability.populations import paper_population, spatial_population
from fedtide.availability.random_access import RandomAccess
from fedtide.availability.trace import Trace

__all__ = [
    "CATALOGUE",
    "Always",
    "Bernoulli",
    "Clusters",
    "Cyclic",
    "Diurnal",
    "FiniteChain",
    "Markov",
    "Phones",
    "Process",
    "ProcessEntry",
    "RandomAccess",
    "Trace",
    "find",
    "paper_population",
    "spatial_population",
]
