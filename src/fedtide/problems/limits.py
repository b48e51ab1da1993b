"""How large generated problems may be."""

from fedtide.errors import require

MOST_CLIENTS = 1_000_000  # their data are drawn one client after the other
_MOST_NUMBERS = 10**10  # 40 GB


def refuse_large(**sizes: int) -> None:
    """Refuses a problem of so many numbers in all, the product of its sizes, before anything is drawn."""
    total, largest = 1, max(sizes, key=lambda name: sizes[name])
    for size in sizes.values():
        total *= size
    allowed = f"less: {' × '.join(sizes)} must be at most {_MOST_NUMBERS:,} numbers"
    require(total <= _MOST_NUMBERS, largest, sizes[largest], allowed)
