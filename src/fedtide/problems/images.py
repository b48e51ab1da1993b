"""Real images over clients, split by any partitioner."""

import logging
from pathlib import Path

import numpy as np

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.base import Partitioner, rounded
from fedtide.partitioners.dirichlet import dirichlet
from fedtide.problems.classification import Classification, ModelBuilder, classification, taken
from fedtide.problems.importance import Importance
from fedtide.problems.models import softmax_regression

log = logging.getLogger("fedtide")


@kinds_checked
def images(
    data: str = "digits",
    clients: int = 20,
    partition: Partitioner | None = None,
    model: ModelBuilder | None = None,
    seed: int = 0,
    *,
    ridge: float = 0.0,
    importance: Importance = "uniform",
    samples: int | None = None,
    test_samples: int | None = None,
    data_dir: Path | None = None,
) -> Classification:
    """Images of a data set (MNIST, CIFAR-10 …) over clients, with any partition and any model.

    `data` is a name of `fedtide.data` or an .npz file, which is searched in `data_dir` first. The partition is
    Dirichlet(0.3) unless given, the model softmax regression. `samples` and `test_samples` take a random subset of the
    training and the test set. The seed determines subsets and partition: another seed is another draw of the data.

    Test samples of a class are given to clients in proportion to their training samples of it, each to exactly one
    client (by size where no client has any): the mean accuracy, weighted by test samples, is that on the whole test
    set. Pixels are stored as bytes; models scale them to [0, 1].
    """
    from fedtide.data import load

    require(seed >= 0, "seed", seed, "0 or more")
    loaded = load(data, data_dir)
    x, y = _subset("samples", loaded.x, loaded.y, samples, [seed, 1])
    test_x, test_y = _subset("test_samples", loaded.test_x, loaded.test_y, test_samples, [seed, 2])
    split = dirichlet(y, clients, 0.3, seed=seed) if partition is None else partition(y, clients, seed=seed)
    for note in split.notes:
        log.info("%s: %s", data, note)
    train = taken(x, y, split)
    test = taken(test_x, test_y, dealt(test_y, [y[mine] for mine in split], [seed, 3]))
    built = (model or softmax_regression)(x.shape[1:], loaded.classes)
    return classification(built, train, test, ridge=ridge, importance=importance)


def dealt(test_labels: np.ndarray, labels: list[np.ndarray], seed: list[int]) -> list[np.ndarray]:
    """Test samples for each client, in proportion to its training labels; each sample for exactly one client.

    For each class by largest remainders, at random among equal ones.
    """
    rng = np.random.default_rng(seed)
    sizes = np.array([len(mine) for mine in labels])
    parts: list[list[np.ndarray]] = [[] for _ in labels]
    for label in np.unique(test_labels):
        members = rng.permutation(np.flatnonzero(test_labels == label))
        quotas = np.array([(mine == label).sum() for mine in labels])
        counts = rounded(quotas if quotas.any() else sizes, len(members), ties=rng.permutation(len(labels)))
        for mine, share in zip(parts, np.split(members, np.cumsum(counts)[:-1]), strict=True):
            mine.append(share)
    return [np.concatenate(mine) if mine else np.zeros(0, np.int64) for mine in parts]


def _subset(
    field: str, x: np.ndarray, y: np.ndarray, count: int | None, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    if count is None:
        return x, y
    require(1 <= count <= len(y), field, count, f"in 1 … {len(y)}, the number of samples")
    chosen = np.random.default_rng(seed).permutation(len(y))[:count]
    return x[chosen], y[chosen]
