"""The client app: what a device does when the server asks."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import jax
import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedtide.adapters.coordinator import refuse_unheard, sends_rows, shapes
from fedtide.adapters.flower.memory import ClientMemory, MemoryLost
from fedtide.adapters.flower.messages import Order, Reply, read_order, reply_message
from fedtide.adapters.flower.settings import PLACE, method_of, settings_of, tables
from fedtide.adapters.problem import ProblemTrainer
from fedtide.adapters.rounds import Round
from fedtide.adapters.training import Answer, Arrays, Evaluate, Examples, Functions, Gradients, Trainer
from fedtide.adapters.trees import named, tree_of, zeros
from fedtide.errors import FedtideError, require
from fedtide.experiments.build import named_problem
from fedtide.simulation.cache import use_persistent_cache
from fedtide.simulation.setup import fitted
from fedtide.types import Population, Problem

Config = Mapping[str, Any]


def client(
    train: Callable[[Arrays, Round], Answer] | None = None,
    evaluate: Evaluate | None = None,
    *,
    gradient: Callable[[Arrays, np.ndarray, Round], tuple[float, Sequence[np.ndarray]]] | None = None,
    loss: Callable[[Arrays, np.ndarray, Round], float] | None = None,
    examples: Examples | None = None,
) -> ClientApp:
    """A client app around functions in any framework. Models are lists of arrays, in the server's order.

    Args:
      train: `(arrays, round) -> Answer(arrays, examples, steps, loss)`: your own loop, with the helpers of `round`.
      evaluate: `(arrays, round) -> {"loss": …, "accuracy": …}` on the client's own samples.
      gradient: in place of train, `(arrays, samples, round) -> (loss, gradients)` of a minibatch: Fedtide takes the
        steps, so that every solver works. Samples are numbered 0 … examples − 1.
      loss: `(arrays, samples, round) -> loss`, where that is cheaper than a gradient.
      examples: how many samples the client has, or `(round) -> number`. `round.node` is the node configuration.
    """
    require((train is None) != (gradient is None), "client", "train and gradient", "given one of the two")
    if gradient is None:
        assert train is not None
        require(loss is None, "loss", loss, "left out: it goes with gradient=")
        trainer: Trainer = Functions(train, evaluate, examples)
    else:
        if examples is None:
            raise FedtideError("examples = None: must be given with gradient=")
        trainer = Gradients(gradient, loss, evaluate, examples)
    return app_of(lambda config: trainer)


def client_of(problem: Problem | None = None) -> ClientApp:
    """A client of a Fedtide problem (`problem.*` of the configuration where none is given): it trains on the same
    minibatches as in the simulator. Which client it is, `partition-id` in the node configuration says."""
    known: dict[str, Problem] = {}

    def trainer(config: Config) -> Trainer:
        if problem is not None:
            return ProblemTrainer(problem)
        key = repr(sorted(tables(config).problem.items(), key=str))
        if key not in known:
            known[key] = named_problem(tables(config).problem, PLACE)
        return ProblemTrainer(known[key])

    return app_of(trainer)


def app_of(trainer: Callable[[Config], Trainer]) -> ClientApp:
    """The Flower app of a client that works so."""
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        _keep_compiled()
        order, config = read_order(message), context.run_config
        said = (order.kind, order.round, order.nonce)
        name = ""
        try:
            name = client_id(context.node_config)
            reply = _work(trainer(config), order, name, config, context.node_config)
            return reply_message(reply._replace(client=name), message)
        except FedtideError as error:
            return reply_message(Reply(*said, name, refusal=" ".join(str(error).split())[:400]), message)

    for action in ("hello", "here", "loss"):
        app.query(action)(handle)
    app.train()(handle)
    app.evaluate()(handle)
    return app


def _keep_compiled() -> None:
    """What is compiled once must last: where there is a process for each message, also what is small."""
    own = jax.config.values["jax_compilation_cache_dir"] is not None
    use_persistent_cache()
    if not own and Path(sys.argv[0]).name == "flwr-clientapp":
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def client_id(node: Config) -> str:
    """The client's stable id: `client-id` of its node configuration, else `partition-id`."""
    found = node.get("client-id", node.get("partition-id"))
    if found is None or str(found).strip() == "":
        raise FedtideError("client-id: missing in the node configuration (flower-supernode --node-config)")
    return str(found).strip()


def memory_folder(node: Config, run: str, client: str) -> Path:
    """Where a client's memory lies: below `state` of its node configuration, else below Flower's home."""
    home = Path(os.environ.get("FLWR_HOME", "~/.flwr")) / "fedtide"
    return Path(str(node.get("state", home))).expanduser() / quote(run, safe="") / quote(client, safe="")


def _work(trainer: Trainer, order: Order, name: str, config: Config, node: Config) -> Reply:
    settings = settings_of(config)
    method = method_of(config, np.ones(1, int))
    arrays: Any = order.arrays
    shapes_of_model = [array.shape for array in arrays]
    about = (order.round, name, order.number, shapes_of_model, node, config, settings.seed)
    examples = trainer.examples(Round(method, *about))
    said = Reply(order.kind, order.round, order.nonce, name)
    if order.kind in ("hello", "here"):
        return said._replace(numbers={"examples": examples})
    if order.client != name:
        raise FedtideError(f"an order for client {order.client!r}")
    refuse_unheard(method)
    method = fitted(method, SimpleNamespace(sizes=np.array([max(examples, 1)])))
    w = np.concatenate([np.asarray(array).ravel() for array in arrays])
    round = Round(method, *about).opened(w, (), ())
    if order.kind == "loss":
        return said._replace(numbers={"loss": trainer.loss(w, round), "examples": examples})
    if order.kind == "evaluate":
        return said._replace(numbers={"examples": examples, **trainer.evaluate(w, round)})
    return _trained(trainer, order, said, round, w, examples, memory_folder(node, settings.run, name))


def _trained(
    trainer: Trainer, order: Order, said: Reply, round: Round, w: np.ndarray, examples: int, folder: Path
) -> Reply:
    anybody = Population(np.full(order.clients, 1 / order.clients), np.ones(order.clients, np.int32))  # pyright: ignore
    exchanged = shapes(round.method, anybody, len(w))
    row, shared, memory = (), tree_of(exchanged.shared, order.shared), ClientMemory(folder, order.series)
    first = zeros(exchanged.row)
    if first:
        try:
            found = memory.recall(order.round, order.acknowledged, order.owed, first)
        except MemoryLost:
            memory.forget()
            raise
        row = tree_of(exchanged.row, found)
    trained = trainer.train(w, round.opened(w, row, shared), row, shared)
    if first:
        memory.hold(named(trained.row), order.round)
    numbers = {
        "examples": examples,
        "steps": int(trained.steps),
        "loss": float(trained.loss),
        "rate": float(trained.rate),
    }
    mass = np.asarray(trained.mass, w.dtype)
    parts = {"message": named(trained.message), "mass": named(mass)}
    if sends_rows(round.method):
        parts |= {"before": named(row), "after": named(trained.row)}
    return said._replace(numbers=numbers, arrays=round.split(np.asarray(trained.w)), parts=parts)
