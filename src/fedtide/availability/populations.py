"""The populations of the papers."""

import numpy as np

from fedtide.availability.base import count_clients
from fedtide.availability.clusters import Clusters
from fedtide.availability.markov import Markov, lowest_correlation
from fedtide.errors import flag, require, whole
from fedtide.kinds import kinds_checked


@kinds_checked
def paper_population(
    clients: int = 100,
    gap: float = 0.4,
    correlation: float = 0.9,
    spread: float = 0.01,
    seed: int = 0,
    often_persistent: bool = True,
) -> Markov:
    """The population of the CA-Fed paper: half often available, half rarely, and half of each with high correlation.

    The first half of the clients has π = ½ + gap, the second ½ − gap. The first half of each has λ = `correlation`,
    the others λ ~ N(0, spread²), drawn from `seed` and clipped to the values that their π admits. With an odd number
    of clients the first half has one more. Without `often_persistent` no often available client is persistent, as in
    the authors' code, and all of the first half has λ ~ N(0, spread²).

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, Sec. V-A.
    """
    clients = count_clients(clients) or 0
    require(0 <= gap <= 0.5, "gap", gap, "in [0, 0.5]")
    require(spread >= 0, "spread", spread, "0 or more")
    require(seed >= 0, "seed", seed, "0 or more")
    flag("often_persistent", often_persistent)
    half = -(-clients // 2)
    place = np.arange(clients)
    often = place < half
    pi = np.where(often, 0.5 + gap, 0.5 - gap)
    place = np.where(often, place, place - half)
    persistent = place < np.where(often, -(-half // 2), -(-(clients - half) // 2))
    persistent &= often_persistent | ~often
    weak = spread * np.random.default_rng([seed, 0xCAFED]).standard_normal(clients)
    weak = np.clip(weak, lowest_correlation(pi), 0.999)
    return Markov(pi, np.where(persistent, correlation, weak))


@kinds_checked
def spatial_population(clusters: int = 10, clients_per_cluster: int = 10) -> Clusters:
    """The clustered population of the CA-Fed paper: clients of a cluster are always available together.

    Of C clusters the first half has π = 0.9, λ = 0, the others π = 0.1 and λ = c/C for cluster c. Clients of a cluster
    are consecutive and share one chain.

    Reference: Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024, Sec. V-B, paragraph e.
    """
    clusters = whole("clusters", clusters, 2, 1_000_000)
    clients_per_cluster = whole("clients_per_cluster", clients_per_cluster, 1, 100_000_000 // clusters)
    cluster = np.arange(clusters)
    often = cluster < clusters / 2
    chains = Markov(np.where(often, 0.9, 0.1), np.where(often, 0.0, cluster / clusters))
    return Clusters(chains, np.repeat(cluster, clients_per_cluster))
