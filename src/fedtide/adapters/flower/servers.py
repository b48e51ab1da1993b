"""The server app: any method over whoever is there."""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from fedtide.adapters.coordinator import Coordinator
from fedtide.adapters.flower.deadlines import Deadlines
from fedtide.adapters.flower.exchange import Exchange
from fedtide.adapters.flower.identity import read_identities
from fedtide.adapters.flower.roster import Nodes, enrol
from fedtide.adapters.flower.session import Evaluate, Session
from fedtide.adapters.flower.settings import PLACE, Settings, method_of, settings_of, tables
from fedtide.adapters.flower.state import ServerState
from fedtide.adapters.ledger import Enrolled, Ledger, estimated
from fedtide.adapters.problem import initial_model
from fedtide.errors import FedtideError, require
from fedtide.experiments.build import named_problem
from fedtide.files import atomic
from fedtide.methods.base import Method
from fedtide.simulation.cache import use_persistent_cache
from fedtide.simulation.checkpoint import fingerprint
from fedtide.simulation.setup import fitted
from fedtide.types import Population, Problem

log = logging.getLogger("fedtide")

Config = Mapping[str, Any]
Initial = Sequence[np.ndarray] | Callable[[Config], Sequence[np.ndarray]]


def server(initial: Initial, evaluate: Evaluate | None = None) -> ServerApp:
    """A server app that runs the method of the app's configuration.

    Args:
      initial: the initial model's arrays, or `(config) -> arrays`.
      evaluate: `(arrays, round) -> {name: number}` on data of the server's, every `evaluate-every` rounds.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        arrays = initial(context.run_config) if callable(initial) else initial
        serve(grid, context.run_config, arrays, evaluate)

    return app


def server_of(problem: Problem | None = None) -> ServerApp:
    """A server app for a Fedtide problem (`problem.*` of the configuration where none is given)."""

    def initial(config: Config) -> list[np.ndarray]:
        chosen = problem if problem is not None else named_problem(tables(config).problem, PLACE)
        return [initial_model(chosen, settings_of(config).seed)]

    return server(initial)


def serve(
    grid: Any,
    config: Config,
    initial: Sequence[np.ndarray],
    evaluate: Evaluate | None = None,
    **timing: Callable[..., Any],
) -> Session:
    """Runs what is left of the run. `timing`: another `clock` and `sleep`."""
    _show_log()
    use_persistent_cache()
    settings = settings_of(config)
    refuse_password(settings)
    exchange = Exchange(grid, Deadlines(settings.deadline), settings.poll_seconds, **timing)
    nodes = Nodes(exchange, read_identities(settings.keys))
    with Ledger(settings.ledger_url) as ledger:
        roster = enrol(settings, nodes, ledger)
        session = prepare(settings, config, initial, roster, exchange, nodes, ledger, evaluate)
        if session.done:
            log.info("run %s goes on after round %d", settings.run, session.done)
        for t in range(session.done, settings.rounds):
            session.round(t)
        save_model(settings, session)
        ledger.finish_run(settings.run)  # last: a run is finished only once its model is there
    return session


def refuse_password(settings: Settings) -> None:
    """Refuses a ledger's URL with a password: Flower hands the app's configuration to every client."""
    if "://" not in settings.ledger:
        return
    try:
        url = make_url(settings.ledger)
    except (ArgumentError, ValueError):
        return  # opening it says what is wrong, without the URL
    if url.password is not None or any("password" in key.lower() for key in url.query):
        raise PLACE.key("ledger").error(
            "a password, which every client could read; write the URL without one, and the password in ~/.pgpass of "
            "the server (or the file that PGPASSFILE names)"
        )


def prepare(
    settings: Settings,
    config: Config,
    initial: Sequence[np.ndarray],
    roster: list[Enrolled],
    exchange: Exchange,
    nodes: Nodes,
    ledger: Ledger,
    evaluate: Evaluate | None = None,
) -> Session:
    """The session of a run, where its checkpoint says it is."""
    w, shapes = _vector(initial)
    sizes = np.array([max(entry.examples, 1) for entry in roster], np.int32)
    method = fitted(method_of(config, sizes), SimpleNamespace(sizes=sizes))
    importance = jnp.asarray(np.array([entry.importance for entry in roster]), w.dtype)
    population = Population(importance, jnp.asarray(sizes))
    coordinator = Coordinator(method, population, w, settings.seed, [entry.client for entry in roster])
    ledger.begin_run(settings.run, method.name, config, roster)
    if settings.history == "ledger":
        # Not the run's own rounds: those are in its checkpoint, but for one that will be repeated.
        _, learned = estimated(ledger, settings.run, coordinator.method.estimator, coordinator.population, own=False)
        coordinator.carry = coordinator.carry._replace(estimator=learned)
    state = ServerState(settings.folder, _identity(settings, method, roster, shapes))
    return Session(settings, coordinator, roster, shapes, exchange, nodes, state, ledger, evaluate)


def save_model(settings: Settings, session: Session) -> None:
    """Writes the final model's arrays beside the checkpoint, as `model.safetensors`: "0", "1", …"""
    from safetensors.numpy import save_file

    arrays = session.arrays(session.coordinator.served)
    with atomic(settings.folder / "model.safetensors") as temporary:
        save_file({str(i): np.ascontiguousarray(a).reshape(a.shape) for i, a in enumerate(arrays)}, temporary)


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
    """What may not change between the parts of a run."""
    said = repr((fingerprint(method), settings.seed, [tuple(entry) for entry in roster], shapes))
    return hashlib.sha256(said.encode()).hexdigest()


def _show_log() -> None:
    """What happens goes to standard error, which Flower keeps as the run's log."""
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
