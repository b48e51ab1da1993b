"""Clients with classes of one group only."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtide.errors import FedtideError, InvalidInput, one_of, require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.base import Partition, check_concentration, checked, rounded
from fedtide.partitioners.dirichlet import check_smallest, split

GROUPS: dict[str, tuple[tuple[int, ...], ...]] = {
    "cifar10": ((0, 1, 8, 9), (2, 3, 4, 5, 6, 7)),  # vehicles, animals
    "fashion_mnist": ((0, 1, 3), (2, 4, 6, 8), (5, 7, 9)),
    "stl10": ((2, 8, 9), (0, 1, 3, 4, 5, 6, 7)),  # aeroplanes (0) are grouped with animals, as published
}
"""The published groups of classes, by data set."""


@kinds_checked
def super_clusters(
    labels: Any,
    clients: int,
    concentration: float,
    groups: tuple[tuple[int, ...], ...] | str,
    *,
    smallest: int = 15,
    seed: int = 0,
) -> Partition:
    """Gives each client samples of one group of classes only, by a Dirichlet distribution within the group (SC-DIR).

    Of `clients`, group g of G gets a share ∝ (1/G) (1 + |g|/C) for its |g| of C classes, consecutive clients, at least
    one. `groups` are lists of classes that cover all labels, or the name of a published choice: "fashion_mnist",
    "cifar10", "stl10". Where the published code draws again until every client has `smallest` samples, here clients
    get samples of the largest clients of their group.

    Reference: Srihari and Bhikkaji, "Stochastic approximation approach to federated machine learning", 2024, and the
    benchmark of its split.
    """
    labels = checked(labels, clients, seed)
    check_concentration(concentration)
    chosen = _groups(groups)
    classes = [label for group in chosen for label in group]
    require(len(set(classes)) == len(classes), "groups", groups, "disjoint")
    outside = np.setdiff1d(labels, classes)
    require(len(outside) == 0, "groups", groups, f"groups that contain every class: {outside[:1]} is in none")
    require(clients >= len(chosen), "clients", clients, f"{len(chosen)} or more: one for each group")
    counts = rounded(np.array([1 + len(group) / len(classes) for group in chosen]), clients)
    parts: list[np.ndarray] = []
    notes: list[str] = []
    for number, (group, count) in enumerate(zip(chosen, counts, strict=True)):
        mine = np.flatnonzero(np.isin(labels, group))
        try:
            check_smallest(mine, int(count), smallest)
        except InvalidInput as error:
            raise FedtideError(f"group {number} of classes {list(group)}: {error}") from None
        rng = np.random.default_rng([seed, number])
        found = split(rng, labels[mine], int(count), concentration, smallest)
        parts += [mine[indices] for indices in found]
        notes += [f"group {number}: {note}" for note in found.notes]
    return Partition(parts, notes)


def _groups(groups: str | Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    if groups == "cifar100":
        raise FedtideError(
            "groups = 'cifar100': the published five groups have 4, 7, 79, 6 and 4 classes, but which ones is not "
            "known; give the groups as lists of classes"
        )
    if isinstance(groups, str):
        if groups not in GROUPS:
            raise InvalidInput("groups", groups, f"lists of classes, or {one_of(groups, GROUPS)}")
        return GROUPS[groups]
    found = tuple(tuple(int(label) for label in group) for group in groups)
    require(len(found) > 0 and all(found), "groups", groups, "one or more lists, each with one class or more")
    return found
