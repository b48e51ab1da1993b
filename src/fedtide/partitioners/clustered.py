"""Clusters of clients with similar data."""

from typing import Any

import numpy as np

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.base import Partition, check_concentration, checked
from fedtide.partitioners.dirichlet import mixed


@kinds_checked
def clustered(
    labels: Any,
    clients: int,
    clusters: int = 10,
    concentration: float | None = None,
    within: float | None = None,
    *,
    seed: int = 0,
) -> Partition:
    """Gives each cluster of clients its own mix of classes, shared by its clients; all sizes are equal (± 1).

    A cluster's mix is drawn ~ Dirichlet(`concentration`); where classes run out, clusters get the remaining samples (a
    note says how many). Without a concentration all clusters have the same mix, up to chance: homogeneous clusters.
    With `within`, each client draws its own mix ~ Dirichlet(`within`) from the samples of its cluster; otherwise the
    clients of a cluster are alike. The clients of a cluster are consecutive, as in `spatial_population`, where a
    cluster is available as a whole.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability", IEEE/ACM ToN
    2024, Sec. V-B, paragraph e.
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
        split = Partition(np.split(rng.permutation(len(labels)), np.cumsum(whole)[:-1]))
    else:
        check_concentration(concentration)
        split = mixed(rng, labels, whole, concentration)
    notes = [note.replace("client", "cluster") for note in split.notes]
    if within is not None:
        check_concentration(within)
    parts: list[np.ndarray] = []
    for number, (mine, end, count) in enumerate(zip(split, ends, members, strict=True)):
        own = np.array(sizes[end - count : end])
        if within is None:
            parts += np.split(mine, np.cumsum(own)[:-1])
        else:
            clients_of = mixed(rng, labels[mine], own, within)
            parts += [mine[indices] for indices in clients_of]
            notes += [f"cluster {number}: {note}" for note in clients_of.notes]
    return Partition(parts, notes)
