"""Estimators that start from the availability in a ledger."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedtide.adapters.ledger.book import Ledger
from fedtide.errors import require
from fedtide.types import Estimate, Estimator, Population, State


def history(ledger: Ledger, run: str, own: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """(available, observed), both bool [T, N]: the rounds of earlier runs, then (if `own`) those of this run.

    Columns are the clients of this run's roster. A client is observed in the runs on whose roster it is.
    """
    clients = [entry.client for entry in ledger.roster(run)]
    names = [one.run for one in ledger.runs()]
    empty = np.zeros((0, len(clients)), bool)
    available, observed = [empty], [empty]
    for name in names[: names.index(run) + own]:
        rounds, listed, matrix = ledger.presence(name)
        column = {client: number for number, client in enumerate(listed)}
        known = np.array([client in column for client in clients])
        if known.any():
            rows = np.zeros((len(rounds), len(clients)), bool)
            rows[:, known] = matrix[:, [column[client] for client in clients if client in column]]
            available.append(rows)
            observed.append(np.broadcast_to(known, rows.shape))
    return np.concatenate(available), np.concatenate(observed)


def estimated(
    ledger: Ledger, run: str, estimator: Estimator, population: Population, own: bool = True
) -> tuple[Estimate | None, State]:
    """(estimate, state) of the estimator after the recorded rounds of the clients of this run.

    The estimator is updated with the rounds of earlier runs, for clients that were on their rosters, then (if `own`)
    with the run's own rounds. The first round of a run is treated as following the last round of the run before. The
    estimate is None if there are no rounds. If clients were observed for different numbers of rounds, the shared
    numbers of the estimator's state are kept per client (arrays [N]). The estimate of an unobserved client is nan.
    """
    available, observed = history(ledger, run, own)
    clients = available.shape[1]
    require(len(population.importance) == clients, "population", len(population.importance), f"of {clients} clients")
    state = estimator.init(population)
    if not len(available):
        return None, state
    if observed.all():
        return _replay(estimator, state, jnp.asarray(available))
    return _replay_each(estimator, population, available, observed)


def _replay(estimator: Estimator, state: State, available: Any) -> tuple[Estimate, State]:
    before, state = estimator.update(state, available[0])

    def one_round(carry: Any, available: Any) -> tuple[Any, None]:
        return estimator.update(carry[1], available), None

    (estimate, state), _ = jax.lax.scan(one_round, (before, state), available[1:])
    return estimate, state


def _replay_each(
    estimator: Estimator, population: Population, available: np.ndarray, observed: np.ndarray
) -> tuple[Estimate, State]:
    """Each client as a separate population, which is updated only in rounds in which the client was observed."""
    clients = available.shape[1]

    def axes(tree: Any) -> Any:
        """0 for leaves with one entry per client, None for shared ones."""
        return jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) and jnp.shape(leaf)[0] == clients else None, tree)

    def alone(estimator: Estimator, population: Population, available: Any, observed: Any) -> tuple[Estimate, State]:
        state = estimator.init(jax.tree.map(lambda leaf: leaf[None], population))
        unknown = jnp.full(1, jnp.nan)

        def one_round(carry: Any, row: Any) -> tuple[Any, None]:
            available, observed = row
            after = estimator.update(carry[1], available[None])
            return jax.tree.map(lambda new, old: jnp.where(observed, new, old), after, carry), None

        carry, _ = jax.lax.scan(one_round, (Estimate(unknown, unknown), state), (available, observed))
        return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[1:] if leaf.ndim else ()), carry)

    leaves = axes(estimator), axes(population), 1, 1
    return jax.vmap(alone, in_axes=leaves)(estimator, population, jnp.asarray(available), jnp.asarray(observed))
