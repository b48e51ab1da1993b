"""A made-up but realistic result: clients that come and go, six methods that treat them differently."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from fedtide.report import write

METHODS = ("FedAvg", "Unbiased", "MostAvailable", "AdaFed", "F3AST", "CA-Fed")
CLASSES = ("π = 0.9, persistent", "π = 0.9, weakly correlated", "π = 0.1, persistent", "π = 0.1, weakly correlated")
LEVEL = {"FedAvg": 0.755, "Unbiased": 0.772, "MostAvailable": 0.741, "AdaFed": 0.778, "F3AST": 0.769, "CA-Fed": 0.789}
NOISE = {"FedAvg": 0.006, "Unbiased": 0.02, "MostAvailable": 0.005, "AdaFed": 0.012, "F3AST": 0.014, "CA-Fed": 0.006}
BIBTEX = """@article{{{name},
  title = {{A Method Called {name}}},
  author = {{Someone, A. and Other, B.}},
  journal = {{Transactions on Networking}}, year = {{2024}}
}}"""
CONFIG = """rounds = 200
seeds = 10

[problem]
name = "synthetic_leaf"
clients = 100

[availability]
name = "paper"
spread = 0.4       # π = ½ ± spread
correlation = 0.9
"""


class Fake(NamedTuple):
    rounds: pl.DataFrame
    clients: pl.DataFrame
    about: dict[str, Any]


def chain(rng: np.random.Generator, pi: np.ndarray, lam: np.ndarray, rounds: int) -> np.ndarray:
    """bool[rounds, clients] of two-state chains."""
    on = np.empty((rounds, len(pi)), bool)
    now = rng.random(len(pi)) < pi
    for t in range(rounds):
        on[t] = now
        now = rng.random(len(pi)) < (1 - lam) * pi + lam * now
    return on


def decide(method: str, on: np.ndarray, pi: np.ndarray, lam: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights [rounds, clients] in the manner of the method."""
    rounds, n = on.shape
    inverse = on / n / pi
    if method == "FedAvg":
        return on / np.maximum(on.sum(1, keepdims=True), 1)
    if method == "MostAvailable":
        return on * (pi > 0.5) / n
    if method == "AdaFed":
        return inverse / np.maximum(inverse.sum(1, keepdims=True), 1e-9)
    if method == "F3AST":
        key = np.where(on, rng.random(on.shape) / pi, -1)
        return inverse * (key >= np.sort(key, 1)[:, [-max(1, int(0.45 * n))]])
    if method == "CA-Fed":
        late = np.arange(rounds)[:, None] > rounds * (0.1 + 0.2 * rng.random(n))
        return inverse * ~(late & (pi < 0.5) & (lam > 0.5) & (rng.random(n) < 0.8))
    return inverse


def fake(
    methods: tuple[str, ...] = METHODS,
    seeds: int = 2,
    rounds: int = 20,
    clients: int = 12,
    evaluate_every: int = 5,
    accuracy: bool = True,
) -> Fake:
    pi = np.repeat([0.9, 0.9, 0.1, 0.1], -(-clients // 4))[:clients]
    lam = np.repeat([0.9, 0.0, 0.9, 0.0], -(-clients // 4))[:clients]
    kind = np.repeat(np.arange(4), -(-clients // 4))[:clients]
    evaluated = sorted({0, rounds, *range(0, rounds + 1, evaluate_every)})
    round_rows, client_rows = [], []
    for seed in range(seeds):
        on = chain(np.random.default_rng([seed, 0]), pi, lam, rounds)
        shift = 0.01 * np.random.default_rng([seed, 1]).standard_normal()
        skill = 0.05 * np.random.default_rng([seed, 2]).standard_normal(clients)
        for m, method in enumerate(methods):
            rng = np.random.default_rng([seed, 3, m])
            weight = decide(method, on, pi, lam, rng)
            invited = weight > 0
            progress = 1 - np.exp(-np.arange(rounds + 1) / (0.12 * rounds))
            wander = np.convolve(rng.standard_normal(rounds + 5), np.ones(5) / 5, "valid")
            mean = (
                0.1 + (LEVEL.get(method, 0.76) + shift - 0.1) * progress + NOISE.get(method, 0.01) * wander * progress
            )
            mass = np.array([weight[:, kind == c].sum() for c in range(4)]) / weight.sum()
            gain = (0.12 * np.log(np.maximum(mass * 4, 0.2)))[kind] + skill
            own = np.clip(mean[:, None] + gain - gain.mean(), 0, 1)
            objective = 0.55 + 1.75 * np.exp(-np.arange(rounds + 1) / (0.15 * rounds)) + 2 * (0.79 - mean) ** 2
            at = np.isin(np.arange(rounds + 1), evaluated)
            at_or_nan = np.where(at, 1.0, np.nan)
            seen = at_or_nan if accuracy else np.nan * at_or_nan
            worst = np.sort(own, 1)[:, : max(1, clients // 10)].mean(1)
            round_rows.append(
                pl.DataFrame(
                    {
                        "method": [method] * (rounds + 1),
                        "seed": np.full(rounds + 1, seed),
                        "round": np.arange(rounds + 1),
                        "available": np.concatenate([[0], on.sum(1)]),
                        "invited": np.concatenate([[0], invited.sum(1)]),
                        "weight": np.concatenate([[0], weight.sum(1)]).astype(np.float32),
                        "loss": (objective * (1 + 0.05 * rng.standard_normal(rounds + 1))).astype(np.float32),
                        "step": np.exp(-np.arange(rounds + 1) / rounds).astype(np.float32),
                        "objective": (objective * at_or_nan).astype(np.float32),
                        "test_loss": (1.05 * objective * seen).astype(np.float32),
                        "test_accuracy": (own.mean(1) * seen).astype(np.float32),
                        "worst_decile": (worst * seen).astype(np.float32),
                    }
                ).with_columns(pl.col("objective", "test_loss", "test_accuracy", "worst_decile").fill_nan(None))
            )
            each = (rounds, clients)
            client_rows.append(
                pl.DataFrame(
                    {
                        "method": [method] * (rounds * clients),
                        "seed": np.full(rounds * clients, seed),
                        "round": np.broadcast_to(np.arange(1, rounds + 1)[:, None], each).ravel(),
                        "client": np.broadcast_to(np.arange(clients), each).ravel(),
                        "active": on.ravel(),
                        "invited": invited.ravel(),
                        "weight": weight.ravel().astype(np.float32),
                        "loss": np.where(invited, objective[1:, None], np.nan).ravel().astype(np.float32),
                        "test_loss": (objective[1:, None] * seen[1:, None] * np.ones(clients))
                        .ravel()
                        .astype(np.float32),
                        "test_accuracy": (own[1:] * seen[1:, None]).ravel().astype(np.float32),
                    }
                ).with_columns(pl.col("loss", "test_loss", "test_accuracy").fill_nan(None))
            )
    about = {
        "title": "Six methods, one federation",
        "command": "fedtide demo",
        "config": CONFIG,
        "versions": {"fedtide": "0.1.0", "jax": "0.8.1", "numpy": "2.4.6", "python": "3.11.2"},
        "hardware": "2 × CPU (x86_64), 8 GiB",
        "seconds": 41.3,
        "seeds": list(range(seeds)),
        "rounds": rounds,
        "evaluate_every": evaluate_every,
        "problem": {"name": "synthetic_leaf", "clients": clients, "parameters": 610},
        "availability": {
            "name": "markov",
            "classes": [CLASSES[c] for c in kind],
            "availability": pi.tolist(),
            "correlation": lam.tolist(),
        },
        "importance": [1 / clients] * clients,
        "methods": [
            {
                "label": name,
                "name": name.lower().replace("-", "_"),
                "title": name,
                "summary": "Average the updates of whoever is there, by importance.",
                "settings": {"solver": "Sgd", "solver.rate": 0.1, "solver.work": "Steps", "solver.work.count": 5},
                "facts": {"unbiased": "all clients equally available", "needs_estimates": False, "server_memory": "d"},
                "bibtex": BIBTEX.format(name=name),
            }
            for name in methods
        ],
        "warnings": [],
    }
    return Fake(pl.concat(round_rows), pl.concat(client_rows), about)


@pytest.fixture(scope="session")
def make() -> Callable[..., Fake]:
    return fake


@pytest.fixture(scope="session")
def small() -> Fake:
    """Three methods, two seeds, 20 rounds, 12 clients."""
    return fake(methods=("FedAvg", "F3AST", "CA-Fed"))


@pytest.fixture(scope="session")
def demo() -> Fake:
    """The size of `fedtide demo`: six methods, ten seeds, 200 rounds, 100 clients."""
    return fake(seeds=10, rounds=200, clients=100)


@pytest.fixture(scope="session")
def demo_page(demo: Fake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("page") / "report.html", *demo)
