"""Label skew by a Dirichlet law."""

import heapq
from typing import Any

import numpy as np

from fedtide.errors import require


def dirichlet(labels: Any, clients: int, concentration: float, *, smallest: int = 1, seed: int = 0) -> list[np.ndarray]:
    """Splits each class over clients in shares ~ Dirichlet(`concentration`): one index array a client.

    Small concentrations give each class to few clients, large ones to all alike. Every sample goes to exactly one
    client. A client left with less than `smallest` is filled up with random samples of whoever has most at that
    moment: one draw, no retries, so it ends for any concentration. A client's indices are in random order, so that a
    prefix is a fair sample.

    Reference: Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution for federated visual
    classification", 2019; Yurochkin et al., ICML 2019.
    """
    labels = np.asarray(labels)
    require(labels.ndim == 1, "shape of labels", labels.shape, "(samples,)")
    require(clients >= 1, "clients", clients, "1 or more")
    require(0 < concentration < np.inf, "concentration", concentration, "positive and finite")
    require(smallest >= 0, "smallest", smallest, "0 or more")
    require(clients * smallest <= len(labels), "smallest", smallest, f"at most {len(labels) // clients}: "
            f"{clients} clients share {len(labels)} samples")  # fmt: skip
    require(seed >= 0, "seed", seed, "0 or more")
    rng = np.random.default_rng([seed])
    owner = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        ends = np.rint(np.cumsum(_shares(rng, clients, concentration)) * len(members)).astype(np.int64)
        owner[members] = np.minimum(np.searchsorted(ends, np.arange(len(members)), side="right"), clients - 1)
    order = rng.permutation(len(labels))
    order = order[np.argsort(owner[order], kind="stable")]
    parts = np.split(order, np.cumsum(np.bincount(owner, minlength=clients))[:-1])
    return _filled(rng, parts, smallest)


def _shares(rng: np.random.Generator, clients: int, concentration: float) -> np.ndarray:
    """One draw of the symmetric Dirichlet law, in logarithms: no concentration is too small for it.

    Gamma(a) has the law of Gamma(a + 1) U^(1/a), U uniform.
    """
    with np.errstate(over="ignore"):
        logs = np.log(rng.standard_gamma(concentration + 1, clients)) + np.log1p(-rng.random(clients)) / concentration
    logs = np.maximum(logs, np.finfo(float).min)
    shares = np.exp(logs - logs.max())
    return shares / shares.sum()


def _filled(rng: np.random.Generator, parts: list[np.ndarray], smallest: int) -> list[np.ndarray]:
    """Moves samples from the largest clients to those below `smallest`; each part is in random order."""
    poor = [k for k, mine in enumerate(parts) if len(mine) < smallest]
    if not poor:
        return parts
    lists = [list(mine) for mine in parts]
    largest = [(-len(mine), k) for k, mine in enumerate(lists)]
    heapq.heapify(largest)
    for k in poor:
        while len(lists[k]) < smallest:
            size, donor = heapq.heappop(largest)
            lists[k].append(lists[donor].pop())
            heapq.heappush(largest, (size + 1, donor))
        rng.shuffle(lists[k])
    return [np.array(mine, np.int64) for mine in lists]
