"""The size limits of generated problems."""

import math

from fedtide.errors import require

MOST_CLIENTS = 1_000_000  # whose data are drawn one after the other
_MOST_NUMBERS = 10**10  # 40 GB


def refuse_large(**sizes: int) -> None:
    """Refuses a problem with too many numbers, the product of its sizes, before anything is drawn."""
    largest = max(sizes, key=lambda name: sizes[name])
    allowed = f"less: {' × '.join(sizes)} must be at most {_MOST_NUMBERS:,} numbers"
    require(math.prod(sizes.values()) <= _MOST_NUMBERS, largest, sizes[largest], allowed)
