"""How some data sets begin, to tell them apart where names and sizes do not."""

from collections.abc import Iterable
from itertools import islice

from fedtide.data.base import wrong

COUNT = 10

_FIRST_LABELS: dict[tuple[int, ...], tuple[str, str]] = {
    (5, 0, 4, 1, 9, 2, 1, 3, 1, 4): ("mnist", "training"),
    (7, 2, 1, 0, 4, 1, 4, 9, 5, 9): ("mnist", "test"),
    (9, 0, 0, 3, 0, 2, 7, 2, 5, 5): ("fashion_mnist", "training"),
    (9, 2, 1, 1, 6, 1, 4, 6, 5, 7): ("fashion_mnist", "test"),
    (6, 9, 9, 4, 1, 1, 2, 7, 8, 3): ("cifar10", "training"),
    (3, 8, 8, 0, 6, 6, 1, 6, 3, 1): ("cifar10", "test"),
}


def known(labels: Iterable[int]) -> tuple[str, str] | None:
    """The data set and the part that begin with these labels, if one of the known ones does."""
    return _FIRST_LABELS.get(tuple(int(label) for label in islice(labels, COUNT)))


def check(where: object, name: str, labels: Iterable[int], test_labels: Iterable[int]) -> None:
    """Raises where a part begins as another data set does, or as the other part. What is not known may be anything."""
    for part, found in (("training", known(labels)), ("test", known(test_labels))):
        if found is not None and found != (name, part):
            wrong(
                where, f"the {part} labels of {name} expected, those found begin as the {found[1]} labels of {found[0]}"
            )
