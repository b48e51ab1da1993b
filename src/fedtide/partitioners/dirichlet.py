"""Label skew by a Dirichlet distribution."""

import heapq
from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.base import Partition, check_concentration, checked, empty_note, in_numbers, shares


@kinds_checked
def dirichlet(
    labels: Any, clients: int, concentration: float, *, smallest: int = 1, equal: bool = False, seed: int = 0
) -> Partition:
    """Splits each class over clients in shares ~ Dirichlet(`concentration`): one index array per client.

    Small concentrations give each class to few clients, large ones to all equally. Every sample goes to exactly one
    client. A client with fewer than `smallest` samples gets random samples of the client that currently has most: one
    draw without retries, so that it ends for any concentration. A client's indices are in random order, so that a
    prefix is a random sample.

    With `equal`, each client draws its mix of classes ~ Dirichlet(`concentration`), and all have the same number of
    samples (± 1). Where more samples of a class are requested than exist, clients in random order get what they
    requested until it runs out, and the others get the remaining samples of other classes. Notes say how many samples
    were moved.

    Reference: Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual
    classification", 2019; Yurochkin et al., ICML 2019.
    """
    labels = checked(labels, clients, seed)
    check_concentration(concentration)
    rng = np.random.default_rng([seed])
    check_smallest(labels, clients, smallest)
    if equal:
        sizes = np.full(clients, len(labels) // clients)
        sizes[: len(labels) % clients] += 1
        return mixed(rng, labels, sizes, concentration)
    return split(rng, labels, clients, concentration, smallest)


def check_smallest(labels: np.ndarray, clients: int, smallest: int) -> None:
    require(smallest >= 0, "smallest", smallest, "0 or more")
    each = f"{len(labels)} samples, {smallest} or more for each client (smallest)"
    require(clients * smallest <= len(labels), "clients", clients, f"at most {len(labels) // max(smallest, 1)}: {each}")


def split(rng: np.random.Generator, labels: np.ndarray, clients: int, concentration: float, smallest: int) -> Partition:
    """Splits each class over clients in its own shares; no client has fewer than `smallest` samples."""
    owner = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        ends = np.rint(np.cumsum(shares(rng, clients, concentration)) * len(members)).astype(np.int64)
        owner[members] = np.minimum(np.searchsorted(ends, np.arange(len(members)), side="right"), clients - 1)
    order = rng.permutation(len(labels))
    order = order[np.argsort(owner[order], kind="stable")]
    parts = np.split(order, np.cumsum(np.bincount(owner, minlength=clients))[:-1])
    return filled(rng, parts, smallest)


def filled(rng: np.random.Generator, parts: list[np.ndarray], smallest: int) -> Partition:
    """Moves samples from the largest clients to those below `smallest`; each part is in random order."""
    poor = [k for k, mine in enumerate(parts) if len(mine) < smallest]
    if not poor:
        return Partition(parts, empty_note(parts))
    missing = sum(smallest - len(parts[k]) for k in poor)
    lists = [list(mine) for mine in parts]
    largest = [(-len(mine), k) for k, mine in enumerate(lists)]
    heapq.heapify(largest)
    for k in poor:
        while len(lists[k]) < smallest:
            size, donor = heapq.heappop(largest)
            lists[k].append(lists[donor].pop())
            heapq.heappush(largest, (size + 1, donor))
        rng.shuffle(lists[k])
    note = (
        f"{len(poor)} of {in_numbers(len(parts), 'client')} drew fewer than {smallest}: "
        f"topped up with {in_numbers(missing, 'sample')} of the largest clients"
    )
    return Partition([np.array(mine, np.int64) for mine in lists], [note])


def mixed(rng: np.random.Generator, labels: np.ndarray, sizes: np.ndarray, concentration: float) -> Partition:
    """Each client of the given size requests its own mix of classes; where a class has run out, it gets other samples.

    Requests are met as far as possible: of each class, the smaller of the number requested and the number available.
    """
    classes = np.unique(labels)
    # Rounded sums of shares, so that every client requests exactly its size.
    ends = np.array([np.rint(np.cumsum(shares(rng, len(classes), concentration)) * size) for size in sizes])
    ends[:, -1] = sizes
    requested = np.diff(ends, axis=1, prepend=0).astype(np.int64)
    parts: list[list[np.ndarray]] = [[] for _ in sizes]
    order, left = rng.permutation(len(sizes)), []
    for column, label in enumerate(classes):
        members = rng.permutation(np.flatnonzero(labels == label))
        *given, rest = np.split(members, np.cumsum(requested[order, column]))
        left.append(rest)
        for client, mine in zip(order, given, strict=True):
            parts[client].append(mine)
    rest = rng.permutation(np.concatenate(left))
    missing_samples = sizes - np.array([sum(map(len, mine)) for mine in parts], np.int64)
    for mine, more in zip(parts, np.split(rest, np.cumsum(missing_samples)[:-1]), strict=True):
        mine.append(more)
    whole = [rng.permutation(np.concatenate(mine)) for mine in parts]
    if not missing_samples.any():
        return Partition(whole, empty_note(whole))
    clients = in_numbers(int((missing_samples > 0).sum()), "client")
    note = (
        f"classes ran out: {clients} got {in_numbers(int(missing_samples.sum()), 'sample')} of other classes than drawn"
    )
    return Partition(whole, [note, *empty_note(whole)])
