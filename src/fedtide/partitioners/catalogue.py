"""Every partitioner by name."""

from fedtide.catalogue import Catalogue, Entry
from fedtide.partitioners.base import Partitioner, deferred
from fedtide.partitioners.clustered import clustered
from fedtide.partitioners.dirichlet import dirichlet
from fedtide.partitioners.iid import iid
from fedtide.partitioners.label_skew import label_skew
from fedtide.partitioners.power_law import power_law
from fedtide.partitioners.rare_pattern import rare_pattern
from fedtide.partitioners.super_clusters import super_clusters

CATALOGUE: Catalogue[Entry[Partitioner]] = Catalogue(
    "partition",
    *(
        Entry(split.__name__, deferred(split, "labels", "clients", "seed"))
        for split in (iid, dirichlet, super_clusters, rare_pattern, label_skew, power_law, clustered)
    ),
)
"""Every partitioner by its name in configurations: `CATALOGUE["iid"].build()(labels, clients, seed=0)`."""
find = CATALOGUE.find
