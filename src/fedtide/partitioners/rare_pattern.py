"""Classes that only rarely available clients have."""

from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.base import Partition, checked, in_numbers


@kinds_checked
def rare_pattern(
    labels: Any, clients: int, pattern: tuple[int, ...] = (8, 9), rare: int = 3, *, seed: int = 0
) -> Partition:
    """Gives the classes of the pattern to the last `rare` clients only, and all other classes to the others only.

    Within each of the two sets of clients samples are assigned at random, the same number to each client; the remainder
    is dropped, as published (a note says how many). Clients should be numbered by availability, the rarest last, as in
    the probabilities of `random_access`.

    Reference: Theodoropoulos, Nikolakakis and Kalogerias, "Federated learning under restricted user availability",
    2023: classes 8 and 9 of Fashion-MNIST at the 3 rarest of 30 users.
    """
    labels = checked(labels, clients, seed)
    require(clients >= 2, "clients", clients, "2 or more")
    require(1 <= rare < clients, "rare", rare, f"in 1 … {clients - 1}: some of the {clients} clients, not all")
    rng = np.random.default_rng([seed])
    has = np.isin(labels, pattern)
    parts, dropped = [], 0
    for mine, count, field in ((~has, clients - rare, "outside of the pattern"), (has, rare, "of the pattern")):
        samples = rng.permutation(np.flatnonzero(mine))
        each, rest = divmod(len(samples), count)
        require(each >= 1, "pattern", list(pattern), f"classes with enough samples: {len(samples)} {field} are too "
                f"few for {in_numbers(count, 'client')}")  # fmt: skip
        parts += np.split(samples[: len(samples) - rest], count)
        dropped += rest
    notes = [f"{in_numbers(dropped, 'sample')} dropped, so that sizes are equal"] if dropped else []
    return Partition(parts, notes)
