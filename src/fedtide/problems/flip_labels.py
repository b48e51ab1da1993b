"""Clients with wrong labels."""

import dataclasses

import numpy as np

from fedtide.attackers import Attackers, attacker_mask, check_attackers
from fedtide.errors import require, whole
from fedtide.problems.classification import Classification


def flip_labels(problem: Classification, attackers: Attackers, seed: int = 0) -> Classification:
    """The problem with the label y of every training sample of the attackers replaced by C − 1 − y (C classes).

    An attack on data rather than on updates: attackers then train, report losses and send updates as everyone does.
    Test samples keep their labels, so accuracies measure what honest users see; training losses of attackers, and means
    that include them, are those of the wrong labels. `attackers` are client numbers, or the number of clients drawn by
    `seed`: for equal arguments the clients of `SignFlip`, `RandomUpdate` and `Colluding`.

    Reference: Tolpegin et al., "Data poisoning attacks against federated learning systems", ESORICS 2020.
    """
    require(isinstance(problem, Classification), "problem", type(problem).__name__, "a classification: it has labels")
    sizes, y = np.asarray(problem.sizes), np.array(problem.y)
    who = check_attackers("attackers", attackers)
    poisoned = np.repeat(attacker_mask("attackers", who, len(sizes), whole("seed", seed, 0)), sizes)
    own = y[: len(poisoned)]
    y[: len(poisoned)] = np.where(poisoned, problem.label_counts.shape[1] - 1 - own, own)
    return dataclasses.replace(problem, y=y)
