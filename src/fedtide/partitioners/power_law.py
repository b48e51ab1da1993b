"""Few large clients, many small ones."""

from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.base import Partition, checked, rounded
from fedtide.partitioners.dirichlet import check_smallest, filled


@kinds_checked
def power_law(
    labels: Any, clients: int, exponent: float = 1.0, *, shuffled: bool = False, smallest: int = 1, seed: int = 0
) -> Partition:
    """Gives client k a number of samples ∝ k^(−`exponent`), k = 1, 2, …, at random, independent of labels.

    The first client is the largest, unless `shuffled`. Clients with fewer than `smallest` samples get samples of the
    largest clients. Exponent 0 is as even as possible.
    """
    labels = checked(labels, clients, seed)
    require(0 <= exponent < np.inf, "exponent", exponent, "0 or more, and finite")
    check_smallest(labels, clients, smallest)
    rng = np.random.default_rng([seed])
    with np.errstate(over="ignore"):
        sizes = rounded(np.exp(-exponent * np.log(np.arange(1, clients + 1))), len(labels))
    sizes = rng.permutation(sizes) if shuffled else sizes
    return filled(rng, np.split(rng.permutation(len(labels)), np.cumsum(sizes)[:-1]), smallest)
