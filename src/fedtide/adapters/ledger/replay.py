"""What a ledger teaches an estimator."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedtide.adapters.ledger.book import Ledger
from fedtide.errors import require
from fedtide.types import Estimate, Estimator, Population, State


def history(ledger: Ledger, run: str, own: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """(here, observed), both bool [T, N]: rounds of the runs begun before this one, then (where wanted) its own.

    Columns are the clients of this run's roster. In a run on whose roster a client was not, it was not observed.
    """
    clients = [entry.client for entry in ledger.roster(run)]
    names = [one.run for one in ledger.runs()]
    nothing = np.zeros((0, len(clients)), bool)
    here, observed = [nothing], [nothing]
    for name in names[: names.index(run) + own]:
        rounds, listed, matrix = ledger.presence(name)
        column = {client: number for number, client in enumerate(listed)}
        known = np.array([client in column for client in clients])
        if known.any():
            rows = np.zeros((len(rounds), len(clients)), bool)
            rows[:, known] = matrix[:, [column[client] for client in clients if client in column]]
            here.append(rows)
            observed.append(np.broadcast_to(known, rows.shape))
    return np.concatenate(here), np.concatenate(observed)


def estimated(
    ledger: Ledger, run: str, estimator: Estimator, population: Population, own: bool = True
) -> tuple[Estimate | None, State]:
    """(estimate, state) of the estimator after all that the ledger knows of the clients of this run.

    The presence of runs begun earlier counts for those of its clients that were on their rosters, then (where wanted)
    the run's own rounds: exactly as if the estimator had been updated then. The first round of a run counts as
    following the last of the run before. None where there are no rounds. Where clients were observed for different
    numbers of rounds, what the estimator keeps once for all is kept for each (numbers of the state become arrays [N]);
    the estimate of a client never observed is nan.
    """
    here, observed = history(ledger, run, own)
    clients = here.shape[1]
    require(len(population.importance) == clients, "population", len(population.importance), f"of {clients} clients")
    state = estimator.init(population)
    if not len(here):
        return None, state
    if observed.all():
        return _replay(estimator, state, jnp.asarray(here))
    return _replay_each(estimator, population, here, observed)


def _replay(estimator: Estimator, state: State, here: Any) -> tuple[Estimate, State]:
    before, state = estimator.update(state, here[0])

    def a_round(carry: Any, available: Any) -> tuple[Any, None]:
        return estimator.update(carry[1], available), None

    (estimate, state), _ = jax.lax.scan(a_round, (before, state), here[1:])
    return estimate, state


def _replay_each(
    estimator: Estimator, population: Population, here: np.ndarray, observed: np.ndarray
) -> tuple[Estimate, State]:
    """Each client as a population of its own, which sees only the rounds in which it was observed."""
    clients = here.shape[1]

    def axes(tree: Any) -> Any:
        """0 for what is given for each client, None for what all share."""
        return jax.tree.map(lambda leaf: 0 if jnp.ndim(leaf) and jnp.shape(leaf)[0] == clients else None, tree)

    def alone(estimator: Estimator, population: Population, here: Any, observed: Any) -> tuple[Estimate, State]:
        state = estimator.init(jax.tree.map(lambda leaf: leaf[None], population))
        nothing = jnp.full(1, jnp.nan)

        def a_round(carry: Any, seen: Any) -> tuple[Any, None]:
            available, looked = seen
            after = estimator.update(carry[1], available[None])
            return jax.tree.map(lambda new, old: jnp.where(looked, new, old), after, carry), None

        carry, _ = jax.lax.scan(a_round, (Estimate(nothing, nothing), state), (here, observed))
        return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[1:] if leaf.ndim else ()), carry)

    leaves = axes(estimator), axes(population), 1, 1
    return jax.vmap(alone, in_axes=leaves)(estimator, population, jnp.asarray(here), jnp.asarray(observed))
