"""Partitioners: they distribute samples over clients. Each returns one array of sample numbers per client."""

from fedtide.partitioners.base import Partition, Partitioner
from fedtide.partitioners.catalogue import CATALOGUE, find
from fedtide.partitioners.clustered import clustered
from fedtide.partitioners.dirichlet import dirichlet
from fedtide.partitioners.iid import iid
from fedtide.partitioners.label_skew import label_skew
from fedtide.partitioners.power_law import power_law
from fedtide.partitioners.rare_pattern import rare_pattern
from fedtide.partitioners.super_clusters import super_clusters

__all__ = [
    "CATALOGUE",
    "Partition",
    "Partitioner",
    "clustered",
    "dirichlet",
    "find",
    "iid",
    "label_skew",
    "power_law",
    "rare_pattern",
    "super_clusters",
]
