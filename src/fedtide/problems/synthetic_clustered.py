"""The synthetic data of the CA-Fed code, in two clusters."""

import numpy as np

from fedtide.errors import require, whole
from fedtide.kinds import kinds_checked
from fedtide.problems.classification import Classification, classification
from fedtide.problems.importance import Importance
from fedtide.problems.limits import MOST_CLIENTS, refuse_large
from fedtide.problems.models import softmax_regression


@kinds_checked
def synthetic_clustered(
    clients: int = 24,
    heterogeneity: float = 0.2,
    seed: int = 0,
    *,
    ridge: float = 1e-2,
    importance: Importance = "uniform",
    inputs: int = 10,
    samples: int = 50,
    test_samples: int = 150,
) -> Classification:
    """Two classes by a noisy linear rule, with more noise at every second client: the clustered set of the CA-Fed code.

    θ ~ N(0, I), x ~ N(0, I), P(y = 1 | x) = σ(x·θ) for clients 0, 2, …, and (1 − h) σ(x·θ) + h (1 − σ(x·θ)) for
    clients 1, 3, …, with h the `heterogeneity`. Each client has `samples` training and `test_samples` test samples.

    The two clusters alternate, so that availability, which `paper_population` assigns by client number, is independent
    of the cluster, as in the authors' code.

    A client's data depend on the seed and its number only: adding clients does not change the others' samples.

    Reference: the code of Rodio et al., "Federated learning under heterogeneous and correlated client availability",
    IEEE/ACM ToN 2024.
    """
    clients = whole("clients", clients, 1, MOST_CLIENTS)
    require(0 <= heterogeneity <= 1, "heterogeneity", heterogeneity, "in [0, 1]")
    require(seed >= 0, "seed", seed, "0 or more")
    require(inputs >= 1, "inputs", inputs, "1 or more")
    require(samples >= 1, "samples", samples, "1 or more for each client")
    require(test_samples >= 0, "test_samples", test_samples, "0 or more for each client")
    refuse_large(clients=clients, inputs=inputs, samples=samples)
    refuse_large(clients=clients, inputs=inputs, test_samples=test_samples)
    theta = np.random.default_rng([seed, 0]).standard_normal(inputs)
    train, test = [], []
    for client in range(clients):
        rng = np.random.default_rng([seed, 1, client])
        flip = heterogeneity if client % 2 else 0.0
        for split, count in ((train, samples), (test, test_samples)):
            x = rng.standard_normal((count, inputs))
            first = 1 / (1 + np.exp(-x @ theta))
            y = rng.random(count) < (1 - flip) * first + flip * (1 - first)
            split.append((x.astype(np.float32), y.astype(int)))
    return classification(softmax_regression(inputs, 2), train, test, ridge=ridge, importance=importance)
