"""Random quadratic federations, and a small simulator that knows nothing of the engine."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from fedtide.theory import QuadraticFamily


class Runs(NamedTuple):
    models: np.ndarray  # [rounds + 1, runs, d]

    def average(self, steps: np.ndarray) -> np.ndarray:
        """[runs, d]: w_1 … w_T weighted by the steps η_1 … η_T that follow each."""
        return np.einsum("t,tri->ri", steps, self.models[: len(steps)]) / steps.sum()


def simulate(
    family: QuadraticFamily,
    q: Any,
    availability: Any,
    correlation: Any,
    steps: np.ndarray,
    *,
    local_steps: int = 1,
    sigma: float = 0.0,
    radius: float = np.inf,
    start: Any = None,
    runs: int = 200,
    seed: int = 0,
    normalised: bool = False,
) -> Runs:
    """Federated SGD on quadratics under two-state availability, many runs at once; gradient noise has variance σ²."""
    random = np.random.default_rng(seed)
    clients, d = family.centres.shape
    pi, lam = np.broadcast_to(availability, clients), np.broadcast_to(correlation, clients)
    w = np.tile(np.zeros(d) if start is None else start, (runs, 1))
    here = random.random((runs, clients)) < pi
    models = [w]
    for eta in steps:
        local = np.repeat(w[:, None], clients, axis=1)
        for _ in range(local_steps):
            noise = sigma / np.sqrt(d) * random.standard_normal(local.shape)
            local = local - eta * (np.einsum("kij,rkj->rki", family.hessians, local - family.centres) + noise)
        a = here * np.asarray(q)
        if normalised:
            a = a / np.maximum(a.sum(1, keepdims=True), 1e-300)
        w = w - np.einsum("rk,rki->ri", a, w[:, None] - local)
        w = w * np.minimum(1, radius / np.maximum(np.linalg.norm(w, axis=1, keepdims=True), 1e-300))
        models.append(w)
        here = random.random((runs, clients)) < (1 - lam) * pi + lam * here
    return Runs(np.array(models))


def quadratics(clients: int, dimension: int, seed: int, condition: float = 5.0, spread: float = 1.0) -> QuadraticFamily:
    """Random H_k with eigenvalues in [1/condition, 1] and random centres."""
    random = np.random.default_rng(seed)
    axes = np.linalg.qr(random.normal(size=(clients, dimension, dimension)))[0]
    values = condition ** -random.random((clients, dimension))
    hessians = np.einsum("kij,kj,klj->kil", axes, values, axes)
    return QuadraticFamily((hessians + hessians.swapaxes(1, 2)) / 2, spread * random.normal(size=(clients, dimension)))


@pytest.fixture(scope="session", name="simulate")
def _simulate():
    return simulate


@pytest.fixture(scope="session", name="quadratics")
def _quadratics():
    return quadratics
