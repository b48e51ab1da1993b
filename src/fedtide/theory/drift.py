"""Average drift at optimum: how far local training moves a model that is already optimal."""

from typing import Any

import numpy as np

from fedtide.errors import number, whole
from fedtide.kinds import kinds_checked
from fedtide.theory.checks import weights
from fedtide.theory.families import Family


@kinds_checked
def average_drift(family: Family, importance: Any, rate: float, local_steps: int) -> float:
    """ρ = ‖Σ α_k (w* − w_k)‖ / (ηE): the mean update of clients that take E full gradient steps from the optimum w*.

    0 if E = 1, and for quadratics with equal Hessians: clients then drift in directions that cancel, although their
    gradients at w* may be large. This measures heterogeneity by what it does to FedAvg, which bounded gradient
    dissimilarity overestimates.

    Reference: Wang, Das, Joshi, Kale, Xu and Zhang, "On the unreasonable effectiveness of federated averaging with
    heterogeneous data", arXiv 2206.04723, 2022.
    """
    alpha = weights("importance", importance, family.clients)
    number("rate", rate, above=0)
    steps = whole("local_steps", local_steps, 1)
    optimum = family.minimise(alpha)
    models = np.tile(optimum, (family.clients, 1))
    for _ in range(steps):
        # A family gives the gradients of all clients at one model; of these, each client takes its own.
        models = models - rate * np.array([family.gradients(w)[k] for k, w in enumerate(models)])
    return float(np.linalg.norm(alpha @ (optimum - models)) / (rate * steps))
