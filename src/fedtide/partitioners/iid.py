"""Equal shares at random."""

from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.base import Partition, checked


@kinds_checked
def iid(labels: Any, clients: int, *, seed: int = 0) -> Partition:
    """Splits the samples over clients at random, independent of labels, as evenly as possible.

    >>> [len(mine) for mine in iid([0, 1] * 5, 3)]
    [4, 3, 3]
    """
    labels = checked(labels, clients, seed)
    require(len(labels) >= clients, "labels", f"{len(labels)} samples", f"at least {clients}: one for each client")
    return Partition(np.array_split(np.random.default_rng([seed]).permutation(len(labels)), clients))
