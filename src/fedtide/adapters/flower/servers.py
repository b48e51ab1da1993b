"""The server app: runs any method with the available clients."""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedtide.adapters.coordinator import Coordinator
from fedtide.adapters.flower.exchange import Deadlines, Exchange
from fedtide.adapters.flower.roster import Nodes, enrol, read_identities
from fedtide.adapters.flower.session import Evaluate, Session
from fedtide.adapters.flower.settings import PLACE, Settings, method_of, settings_of
from fedtide.adapters.flower.state import ServerState
from fedtide.adapters.ledger import Enrolled, Ledger, estimated
from fedtide.adapters.problem import initial_model
from fedtide.errors import FedtideError, require
from fedtide.experiments.build import named_problem
from fedtide.files import alone
from fedtide.methods.base import Method
from fedtide.simulation.checkpoint import fingerprint
from fedtide.simulation.cores import use_persistent_cache
from fedtide.simulation.setup import fitted
from fedtide.simulation.trees import write_arrays
from fedtide.types import Population, Problem

log = logging.getLogger("fedtide")

_PREDECESSOR = 60.0  # seconds: Flower's server apps send a heartbeat every 20 s; their requests last at most as long

Config = Mapping[str, Any]
Initial = Sequence[np.ndarray] | Callable[[Config], Sequence[np.ndarray]]


def server(initial: Initial, evaluate: Evaluate | None = None) -> ServerApp:
    """A server app that runs the method of the app's configuration.

    Args:
      initial: the initial model's arrays, or `(config) -> arrays`.
      evaluate: `(arrays, round) -> {name: number}` on the server's data, every `evaluate-every` rounds.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        arrays = initial(context.run_config) if callable(initial) else initial
        serve(grid, context.run_config, arrays, evaluate)

    return app


def server_of(problem: Problem | None = None) -> ServerApp:
    """A server app for a Fedtide problem (`problem.*` of the configuration if none is given)."""

    def initial(config: Config) -> list[np.ndarray]:
        settings = settings_of(config)
        chosen = problem if problem is not None else named_problem(settings.problem, PLACE)
        return [initial_model(chosen, settings.seed)]

    return server(initial)


def serve(
    grid: Any,
    config: Config,
    initial: Sequence[np.ndarray],
    evaluate: Evaluate | None = None,
    **timing: Callable[..., Any],
) -> Session:
    """Runs the remaining rounds. `timing`: replacements of `clock` and `sleep`."""
    _show_log()
    use_persistent_cache()
    settings = settings_of(config)
    exchange = Exchange(grid, Deadlines(settings.deadline), settings.poll_seconds, **timing)
    nodes = Nodes(exchange, read_identities(settings.keys))
    with _locked(settings.folder, exchange), Ledger(settings.ledger_url) as ledger:
        roster = enrol(settings, nodes, ledger)
        session = _session(settings, config, initial, roster, nodes, ledger, evaluate)
        if session.done:
            log.info("run %s resumes after round %d", settings.run, session.done)
        for t in range(session.done, settings.rounds):
            session.round(t)
        save_model(settings, session)
        ledger.finish_run(settings.run)  # last: a finished run has its model
    return session


@contextmanager
def _locked(folder: Path, exchange: Exchange) -> Iterator[None]:
    """Locks the run's folder. An earlier server app that SuperLink has lost ends at its next heartbeat."""
    end = exchange.clock() + _PREDECESSOR
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(alone(folder, "another server app is already executing this run"))
                break
            except FedtideError:
                if exchange.clock() >= end:
                    raise
                exchange.sleep(1.0)
        yield


def _session(
    settings: Settings, config: Config, initial: Sequence[np.ndarray], roster: list[Enrolled], nodes: Nodes,
    ledger: Ledger, evaluate: Evaluate | None,
) -> Session:  # fmt: skip
    """The session of a run, restored from its checkpoint."""
    w, shapes = _vector(initial)
    sizes = np.array([max(entry.examples, 1) for entry in roster], np.int32)
    method = fitted(method_of(settings, sizes), SimpleNamespace(sizes=sizes))
    importance = jnp.asarray(np.array([entry.importance for entry in roster]), w.dtype)
    population = Population(importance, jnp.asarray(sizes))
    coordinator = Coordinator(method, population, w, settings.seed, [entry.client for entry in roster])
    ledger.begin_run(settings.run, method.name, config, roster)
    if settings.history == "ledger":
        # Not the run's own rounds, which are in its checkpoint, except one that is repeated.
        _, learned = estimated(ledger, settings.run, coordinator.method.estimator, coordinator.population, own=False)
        coordinator.carry = coordinator.carry._replace(estimator=learned)
    state = ServerState(settings.folder, _identity(settings, method, roster, shapes))
    return Session(settings, coordinator, roster, shapes, nodes, state, ledger, evaluate)


def save_model(settings: Settings, session: Session) -> None:
    """Writes the final model's arrays beside the checkpoint, as `model.safetensors`: "0", "1", …"""
    arrays = session.arrays(session.coordinator.served)
    write_arrays(settings.folder / "model.safetensors", {str(i): array for i, array in enumerate(arrays)})


def _vector(initial: Sequence[np.ndarray]) -> tuple[np.ndarray, tuple[tuple[int, ...], ...]]:
    arrays = [np.asarray(array) for array in initial]
    require(len(arrays) > 0, "initial", "no arrays", "the initial model's arrays")
    if any(array.dtype.kind != "f" for array in arrays):
        types = sorted({str(array.dtype) for array in arrays})
        raise FedtideError(f"initial: arrays of types {', '.join(types)}; all must be floating (leave counters out)")
    w = np.concatenate([array.ravel() for array in arrays]).astype(jnp.result_type(float))
    require(bool(np.isfinite(w).all()), "initial", "numbers that are not finite", "finite")
    return w, tuple(array.shape for array in arrays)


def _identity(settings: Settings, method: Method, roster: list[Enrolled], shapes: Any) -> str:
    """A digest of what must not change when a run is resumed."""
    facts = repr((fingerprint(method), settings.seed, [tuple(entry) for entry in roster], shapes))
    return hashlib.sha256(facts.encode()).hexdigest()


def _show_log() -> None:
    """Logs to standard error, which Flower stores as the run's log."""
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
