"""The client app: how a device answers the server's orders."""

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import jax
import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedtide.adapters.coordinator import refuse_training_while_absent, sends_rows, shapes
from fedtide.adapters.flower.memory import ClientMemory, MemoryLost
from fedtide.adapters.flower.messages import Order, Reply, read_order, reply_message
from fedtide.adapters.flower.settings import PLACE, method_of, settings_of
from fedtide.adapters.problem import ProblemTrainer
from fedtide.adapters.rounds import Round
from fedtide.adapters.training import Evaluate, Examples, Functions, Gradient, Gradients, Loss, Train, Trainer
from fedtide.errors import FedtideError, require
from fedtide.experiments.build import named_problem
from fedtide.simulation.cores import use_persistent_cache
from fedtide.simulation.setup import fitted
from fedtide.simulation.trees import named, tree_of, zeros
from fedtide.types import Population, Problem

Config = Mapping[str, Any]


def client(
    train: Train | None = None,
    evaluate: Evaluate | None = None,
    *,
    gradient: Gradient | None = None,
    loss: Loss | None = None,
    examples: Examples | None = None,
) -> ClientApp:
    """A client app around functions in any framework. Models are lists of arrays, in the server's order.

    Args:
      train: `(arrays, round) -> Answer(arrays, examples, steps, loss)`: your own loop, with the helpers of `round`.
      evaluate: `(arrays, round) -> {"loss": …, "accuracy": …}` on the client's own samples.
      gradient: instead of train, `(arrays, samples, round) -> (loss, gradients)` of a minibatch. Fedtide takes the
        steps, so every solver works. Samples are numbered 0 … examples − 1.
      loss: `(arrays, samples, round) -> loss`, if that is cheaper than a gradient.
      examples: the client's number of samples, or `(round) -> number`. `round.node` is the node configuration.
    """
    require((train is None) != (gradient is None), "client", "train and gradient", "exactly one of the two")
    if gradient is None:
        assert train is not None
        require(loss is None, "loss", loss, "omitted: it requires gradient=")
        trainer = Functions(train, evaluate, examples)
    else:
        require(examples is not None, "examples", examples, "given with gradient=")
        trainer = Gradients(gradient, loss, evaluate, examples)
    return app_of(lambda config: trainer)


def client_of(problem: Problem | None = None) -> ClientApp:
    """A client of a Fedtide problem (`problem.*` of the configuration if none is given), which trains on the same
    minibatches as in the simulator. `partition-id` in the node configuration is the number of the client."""

    @functools.cache
    def configured(written: str) -> ProblemTrainer:
        return ProblemTrainer(named_problem(json.loads(written), PLACE))

    def trainer(config: Config) -> Trainer:
        return ProblemTrainer(problem) if problem is not None else configured(json.dumps(settings_of(config).problem))

    return app_of(trainer)


def app_of(trainer: Callable[[Config], Trainer]) -> ClientApp:
    """The Flower app of a client with this trainer."""
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        _use_cache()
        order, config, name = read_order(message), context.run_config, ""
        try:
            name = client_id(context.node_config)
            reply = _work(trainer(config), order, name, config, context.node_config)
            return reply_message(reply._replace(client=name), message)
        except FedtideError as error:
            why, lost = " ".join(str(error).split())[:400], isinstance(error, MemoryLost)
            reply = Reply(order.kind, order.round, order.nonce, name, refusal=why, memory_lost=lost)
            return reply_message(reply, message)

    for action in ("hello", "here", "loss"):
        app.query(action)(handle)
    app.train()(handle)
    app.evaluate()(handle)
    return app


def _use_cache() -> None:
    """Enables the compilation cache; with one process per message, for fast compilations as well."""
    own = jax.config.values["jax_compilation_cache_dir"] is not None
    use_persistent_cache()
    if not own and Path(sys.argv[0]).name == "flwr-clientapp":
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def client_id(node: Config) -> str:
    """The client's stable id: `client-id` of its node configuration, else `partition-id`."""
    client = node.get("client-id", node.get("partition-id"))
    if client is None or str(client).strip() == "":
        raise FedtideError("client-id: missing in the node configuration (flower-supernode --node-config)")
    return str(client).strip()


def _work(trainer: Trainer, order: Order, name: str, config: Config, node: Config) -> Reply:
    settings, shapes_of_model = settings_of(config), [np.shape(array) for array in order.arrays]
    method = method_of(settings, np.ones(1, int))
    about = (order.round, name, order.number, shapes_of_model, node, config, settings.seed)
    examples = trainer.examples(Round(method, *about))
    reply = Reply(order.kind, order.round, order.nonce, name, {"examples": examples})
    if order.kind in ("hello", "here"):
        return reply
    if order.client != name:
        raise FedtideError(f"a request for another client, {order.client!r}")
    refuse_training_while_absent(method)
    method = fitted(method, SimpleNamespace(sizes=np.full(order.clients, max(examples, 1))))
    w = np.concatenate([np.asarray(array).ravel() for array in order.arrays])
    round = Round(method, *about).opened(w, (), ())
    if order.kind == "loss":
        return reply._replace(numbers={"examples": examples, "loss": trainer.loss(w, round)})
    if order.kind == "evaluate":
        return reply._replace(numbers={"examples": examples, **trainer.evaluate(w, round)})
    # The client's state is below `state` of its node configuration, else below Flower's home.
    home = node.get("state", Path(os.environ.get("FLWR_HOME", "~/.flwr")) / "fedtide")
    folder = Path(str(home)).expanduser() / quote(settings.run, safe="") / quote(name, safe="")
    return _trained(trainer, order, reply, round, w, folder)


def _trained(trainer: Trainer, order: Order, reply: Reply, round: Round, w: np.ndarray, folder: Path) -> Reply:
    anybody = Population(np.full(order.clients, 1 / order.clients), np.ones(order.clients, np.int32))  # pyright: ignore
    exchanged = shapes(round.method, anybody, len(w))
    row, shared, memory = (), tree_of(exchanged.shared, order.shared), ClientMemory(folder, order.series)
    first = zeros(exchanged.row)
    if first:
        try:
            leaves = memory.recall(order.round, order.acknowledged, order.owed, first)
        except MemoryLost:
            memory.forget()
            raise
        row = tree_of(exchanged.row, leaves)
    trained = trainer.train(w, round.opened(w, row, shared), row, shared)
    if first:
        memory.hold(named(trained.row), order.round)
    measured = {"steps": int(trained.steps), "loss": float(trained.loss), "rate": float(trained.rate)}
    parts = {"message": named(trained.message), "mass": named(np.asarray(trained.mass, w.dtype))}
    if sends_rows(round.method):
        parts |= {"before": named(row), "after": named(trained.row)}
    return reply._replace(numbers={**reply.numbers, **measured}, arrays=round.split(np.asarray(trained.w)), parts=parts)
