"""A few classes per client."""

from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.base import Partition, checked, empty_note, in_numbers


@kinds_checked
def label_skew(labels: Any, clients: int, classes: int = 2, *, seed: int = 0) -> Partition:
    """Gives each client samples of `classes` classes only, each class split evenly among the clients that have it.

    Each client in turn gets the classes that the fewest clients have so far, at random among equals: all classes have
    the same number of clients (± 1). Where clients × classes is less than the number of classes, some classes belong to
    no client, and their samples are left out (a note says so).

    Reference: McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS
    2017, whose shards give a client about two classes.
    """
    labels = checked(labels, clients, seed)
    known = np.unique(labels)
    require(1 <= classes <= len(known), "classes", classes, f"in 1 … {len(known)}: the labels' classes")
    rng = np.random.default_rng([seed])
    owners: list[list[int]] = [[] for _ in known]
    for client in range(clients):
        fewest = np.lexsort((rng.random(len(known)), np.array([len(mine) for mine in owners])))
        for column in fewest[:classes]:
            owners[column].append(client)
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label, mine in zip(known, owners, strict=True):
        if mine:
            samples = rng.permutation(np.flatnonzero(labels == label))
            for client, share in zip(rng.permutation(mine), np.array_split(samples, len(mine)), strict=True):
                parts[client].append(share)
    whole = [rng.permutation(np.concatenate(mine)) for mine in parts]
    return Partition(whole, [*_notes(parts, owners, labels, known), *empty_note(whole)])


def _notes(parts: list[list[np.ndarray]], owners: list[list[int]], labels: np.ndarray, known: np.ndarray) -> list[str]:
    notes = []
    missing = [label for label, mine in zip(known, owners, strict=True) if not mine]
    if missing:
        left_out = int(np.isin(labels, missing).sum())
        listed = ", ".join(str(label) for label in missing)
        notes.append(f"no client has classes {listed}: {in_numbers(left_out, 'sample')} left out")
    short = sum(any(len(share) == 0 for share in mine) for mine in parts)
    if short:
        notes.append(f"{in_numbers(short, 'client')} got fewer classes: they have too few samples")
    return notes
