"""Label skew by a Dirichlet law."""

import heapq
from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.partitioners.base import Partition, check_concentration, checked, in_numbers, shares


def dirichlet(
    labels: Any, clients: int, concentration: float, *, smallest: int = 1, equal: bool = False, seed: int = 0
) -> Partition:
    """Splits each class over clients in shares ~ Dirichlet(`concentration`): one index array a client.

    Small concentrations give each class to few clients, large ones to all alike. Every sample goes to exactly one
    client. A client left with less than `smallest` is filled up with random samples of whoever has most at that
    moment: one draw, no retries, so it ends for any concentration. A client's indices are in random order, so that a
    prefix is a fair sample.

    With `equal`, it is clients that draw: each its mix of classes ~ Dirichlet(`concentration`), and all have the same
    number of samples (± 1). Where more of a class is asked for than there is, clients in random order take what they
    asked for while it lasts, and the others take what nobody asked for. Notes say how many samples were moved.

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
    require(clients * smallest <= len(labels), "smallest", smallest, f"at most {len(labels) // clients}: "
            f"{clients} clients share {len(labels)} samples")  # fmt: skip


def split(rng: np.random.Generator, labels: np.ndarray, clients: int, concentration: float, smallest: int) -> Partition:
    """Each class over clients, in shares of its own; nobody below `smallest`."""
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
        return Partition(parts, _empty(parts))
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
        f"filled up with {in_numbers(missing, 'sample')} of those who had most"
    )
    return Partition([np.array(mine, np.int64) for mine in lists], [note])


def mixed(rng: np.random.Generator, labels: np.ndarray, sizes: np.ndarray, concentration: float) -> Partition:
    """Each client of the given size asks for a mix of classes of its own; who comes too late takes what is left.

    As many get what they asked for as can: of a class, the lesser of what is asked for and of what there is.
    """
    classes = np.unique(labels)
    # Rounded sums of shares, so that every client asks for its size exactly.
    ends = np.array([np.rint(np.cumsum(shares(rng, len(classes), concentration)) * size) for size in sizes])
    ends[:, -1] = sizes
    asked = np.diff(ends, axis=1, prepend=0).astype(np.int64)
    parts: list[list[np.ndarray]] = [[] for _ in sizes]
    order, left = rng.permutation(len(sizes)), []
    for column, label in enumerate(classes):
        members = rng.permutation(np.flatnonzero(labels == label))
        *given, rest = np.split(members, np.cumsum(asked[order, column]))
        left.append(rest)
        for client, mine in zip(order, given, strict=True):
            parts[client].append(mine)
    rest = rng.permutation(np.concatenate(left))
    wanting = sizes - np.array([sum(map(len, mine)) for mine in parts], np.int64)
    for mine, more in zip(parts, np.split(rest, np.cumsum(wanting)[:-1]), strict=True):
        mine.append(more)
    whole = [rng.permutation(np.concatenate(mine)) for mine in parts]
    if not wanting.any():
        return Partition(whole, _empty(whole))
    clients = in_numbers(int((wanting > 0).sum()), "client")
    note = f"classes ran out: {clients} got {in_numbers(int(wanting.sum()), 'sample')} of other classes than drawn"
    return Partition(whole, [note, *_empty(whole)])


def _empty(parts: list[np.ndarray]) -> list[str]:
    count = sum(len(mine) == 0 for mine in parts)
    return [f"{count} of {in_numbers(len(parts), 'client')} got nothing"] if count else []
