"""Which clients attack, for every part that simulates an attack."""

from typing import Any

import numpy as np

from fedtide.errors import InvalidInput, require, whole

Attackers = int | tuple[int, ...]
"""The attacking clients: their numbers, or how many of them are drawn at random."""


def check_attackers(field: str, value: Any) -> Attackers:
    """The value as a Python int or a tuple of different Python ints, 0 or more."""
    if not isinstance(value, tuple | list | np.ndarray):
        return whole(field, value, 0)
    numbers = tuple(whole(f"{field}[{i}]", number, 0) for i, number in enumerate(value))
    require(len(set(numbers)) == len(numbers), field, value, "different client numbers")
    return numbers


def attacker_mask(field: str, attackers: Attackers, clients: int, seed: int) -> np.ndarray:
    """bool[N]: the clients with these numbers, or as many as given, drawn without replacement by the seed.

    With the same seed, a smaller number of attackers is a subset of a larger one.
    """
    if isinstance(attackers, int):
        if attackers > clients:
            raise InvalidInput(field, attackers, f"{clients} or less, the number of clients")
        numbers = np.random.default_rng([seed, clients]).permutation(clients)[:attackers]
    else:
        numbers = np.array(attackers, int)
        if attackers and max(attackers) >= clients:
            raise InvalidInput(field, max(attackers), f"a client number, in 0 … {clients - 1}")
    mask = np.zeros(clients, bool)
    mask[numbers] = True
    return mask
