"""Every partitioner by name."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

from fedtide.errors import check_one_of
from fedtide.partitioners.base import Partition, Partitioner, deferred
from fedtide.partitioners.clustered import clustered
from fedtide.partitioners.dirichlet import dirichlet
from fedtide.partitioners.iid import iid
from fedtide.partitioners.label_skew import label_skew
from fedtide.partitioners.power_law import power_law
from fedtide.partitioners.rare_pattern import rare_pattern
from fedtide.partitioners.super_clusters import super_clusters


class Entry(NamedTuple):
    """A partitioner with its name."""

    name: str
    split: Callable[..., Partition]  # of labels, clients, its arguments and a seed

    @property
    def build(self) -> Callable[..., Partitioner]:
        """A partitioner from its arguments: `build(concentration=0.3)(labels, clients, seed=0)`."""
        return deferred(self.split, "labels", "clients", "seed")

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.split) or "").split("\n")[0]


CATALOGUE: dict[str, Entry] = {
    split.__name__: Entry(split.__name__, split)
    for split in (iid, dirichlet, super_clusters, rare_pattern, label_skew, power_law, clustered)
}
"""Every partitioner by its name in configurations."""


def find(name: str) -> Entry:
    """The catalogue's entry of that name."""
    check_one_of("partition", name, CATALOGUE)
    return CATALOGUE[name]
