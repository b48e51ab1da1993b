"""Clients of a place that resemble each other."""

from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.partitioners.base import Partition, check_concentration, checked
from fedtide.partitioners.dirichlet import mixed


def clustered(
    labels: Any, clients: int, clusters: int = 10, concentration: float | None = None, *, seed: int = 0
) -> Partition:
    """Gives every cluster of clients a mix of classes of its own, which its clients share; all sizes are equal (± 1).

    A cluster's mix is drawn ~ Dirichlet(`concentration`); where classes run out, clusters take what is left (a note
    says how much). Without a concentration all clusters have the same mix, up to chance: the homogeneous setting. The
    clients of a cluster are consecutive, as in `spatial_population`, whose clusters come and go together.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability", IEEE/ACM ToN
    2024, the study of spatial correlation.
    """
    labels = checked(labels, clients, seed)
    require(1 <= clusters <= clients, "clusters", clusters, f"in 1 … {clients}: one client or more in each")
    require(len(labels) >= clients, "labels", f"{len(labels)} samples", f"at least {clients}: one for each client")
    rng = np.random.default_rng([seed])
    members = [len(mine) for mine in np.array_split(np.arange(clients), clusters)]
    sizes = [len(mine) for mine in np.array_split(np.arange(len(labels)), clients)]
    ends = np.cumsum(members)
    whole = np.array([sum(sizes[end - count : end]) for end, count in zip(ends, members, strict=True)])
    if concentration is None:
        found = Partition(np.split(rng.permutation(len(labels)), np.cumsum(whole)[:-1]))
    else:
        check_concentration(concentration)
        found = mixed(rng, labels, whole, concentration)
    parts: list[np.ndarray] = []
    for mine, end, count in zip(found, ends, members, strict=True):
        parts += np.split(mine, np.cumsum(sizes[end - count : end])[:-1])
    return Partition(parts, [note.replace("client", "cluster") for note in found.notes])
