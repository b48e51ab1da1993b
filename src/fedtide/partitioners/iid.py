"""Equal shares at random."""

import numpy as np

from fedtide.errors import require


def iid(samples: int, clients: int, *, seed: int = 0) -> list[np.ndarray]:
    """Splits samples 0 … `samples` − 1 over clients at random, as evenly as possible: one index array a client.

    >>> [len(mine) for mine in iid(10, 3)]
    [4, 3, 3]
    """
    require(clients >= 1, "clients", clients, "1 or more")
    require(samples >= clients, "samples", samples, f"at least {clients}: one for each client")
    require(seed >= 0, "seed", seed, "0 or more")
    return np.array_split(np.random.default_rng([seed]).permutation(samples), clients)
