"""The values that parts exchange, and what makes a class a part.

Shapes stand in brackets: N clients, C cohort rows, S training samples, d model parameters.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, dataclass_transform

import jax
import numpy as np
from jax import Array

from fedtide.streams import Stream

State = Any
"""A part's state: a NamedTuple of arrays, or () for a part without one."""

Params = Any
"""A model's parameters as the model keeps them: any pytree of arrays."""

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
def part(cls: type[T]) -> type[T]:
    """Makes a class a part: a frozen dataclass whose plain numbers are a batch axis.

    Fields typed `float`, `Array` or as another part are leaves of a pytree: they may be traced, so a grid of
    learning rates is one compilation. Fields typed `int`, `bool`, `str`, `Literal`, `tuple` or a callable are
    structure: another value is another program. `__post_init__` checks what a user passes; it does not run again
    when JAX rebuilds the part from its leaves.
    """
    data = dataclasses.dataclass(frozen=True, eq=False)(cls)
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(data)]  # pyright: ignore[reportArgumentType]
    leaves = tuple(n for n in names if not _is_structure(hints[n]))
    structure = tuple(n for n in names if n not in leaves)

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        keyed = [(jax.tree_util.GetAttrKey(n), getattr(obj, n)) for n in leaves]
        return keyed, tuple(getattr(obj, n) for n in structure)

    def unflatten(aux: tuple[Any, ...], children: Any) -> Any:
        obj = object.__new__(data)
        for name, value in (*zip(structure, aux, strict=True), *zip(leaves, children, strict=True)):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(data, flatten_with_keys, unflatten)
    return data


def _is_structure(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return all(_is_structure(member) for member in typing.get_args(hint))
    return (
        origin in (Literal, tuple, Callable)
        or hint in (int, bool, str, type(None), Callable)
        or (isinstance(hint, type) and issubclass(hint, tuple))
    )


class Population(NamedTuple):
    """What there is to know about the clients. The truth (π, λ, F*) is None where the run does not provide it."""

    importance: Array  # [N] target importance α, sums to 1
    sizes: Array  # [N] training samples n_k
    availability: Array | None = None  # [N] stationary availability π
    correlation: Array | None = None  # [N] lag-1 correlation λ
    optimum: Array | None = None  # [N] each client's own smallest training loss F*_k
    labels: Array | None = None  # [N, classes] training samples of each class


class Estimate(NamedTuple):
    """What the server believes about availability."""

    availability: Array  # [N] π̂
    correlation: Array  # [N] λ̂


class Observation(NamedTuple):
    """What a participation policy may look at in a round."""

    available: Array  # [N] bool
    estimate: Estimate
    loss: Array  # [N] minibatch loss at the current model of those who were asked; 0 elsewhere
    asked: Array  # [N] bool: whose loss was asked for (nobody's, unless the policy needs losses)
    round: Array  # [] rounds done before this one
    stream: Stream  # random numbers of this round


class Decision(NamedTuple):
    """Whom to invite and with what weight."""

    invited: Array  # [N] bool, a subset of the available
    weight: Array  # [N] aggregation weight q, 0 for those not invited


class Cohort(NamedTuple):
    """The invited clients as rows of a fixed capacity; rows beyond them are masked."""

    client: Array  # [C] client of each row
    present: Array  # [C] bool
    weight: Array  # [C] aggregation weight, 0 where not present


class Trained(NamedTuple):
    """What one client's local training gives."""

    w: Array  # [d] the model after the local steps
    loss: Array  # [] mean minibatch loss over them
    steps: Array | int  # τ_k, those it took
    mass: Array  # [] or [d] η‖a‖₁: the sum of the coefficients with which its gradients enter the change
    rate: Array | float  # [] η, the learning rate of its first step
    row: Any = ()  # what it remembers
    message: Any = ()  # what it sends besides the model, for `Solver.close`


class Updates(NamedTuple):
    """What the cohort sends back, one row a client; rows that are not present are 0."""

    delta: Array  # [C, d] w_t − w_k, a descent direction
    loss: Array  # [C] mean minibatch loss over the local steps
    steps: Array  # [C] local steps τ_k
    mass: Array  # [C] or [C, d] η‖a_k‖₁, so that delta / mass is a mean gradient
    rate: Array  # [C] η of the first local step
    message: Any = ()  # [C, …] further messages
    round_rate: Array | tuple[()] = ()  # [] η of the round, for an aggregation that moves when it is empty


class Task(NamedTuple):
    """One client's local work in one round, as a solver sees it."""

    steps: Array | int  # τ_k; a Python int where all clients do the same
    gradient: Callable[[Array, Array | int], tuple[Array, Array]]  # (w [d], step) -> (loss, gradient [d])
    round: Array | int = 0  # rounds done before this one
    a_pass: Array | int = 1  # steps of one pass over the client's samples
    unroll: bool = False  # whether the loop over steps is better written out (the engine knows the device)

    def elapsed(self, unit: Literal["steps", "epochs", "rounds"], step: Array | int) -> Array | int:
        """Local steps (or passes, or rounds) before this step, for a client that takes part in every round."""
        if unit == "rounds":
            return self.round
        steps = self.round * self.steps + step
        return steps if unit == "steps" else steps // self.a_pass


class Estimator(Protocol):
    """Learns π̂ and λ̂ from who was there."""

    @property
    def knows(self) -> tuple[str, ...]:
        """Which fields of `Estimate` it fills: "availability", "correlation"; the others are nan."""
        ...

    def init(self, population: Population) -> State: ...
    def update(self, state: State, available: Array) -> tuple[Estimate, State]: ...


class Participation(Protocol):
    """Decides whom to invite, with what weight."""

    @property
    def needs_estimates(self) -> bool:
        """Whether it looks at π̂."""
        ...

    @property
    def needs_correlation(self) -> bool:
        """Whether it looks at λ̂."""
        ...

    @property
    def needs_losses(self) -> Literal["minibatch", "all"] | None:
        """Whether candidates are asked for their loss before the decision, and on which of their samples."""
        ...

    @property
    def needs_optimum(self) -> bool:
        """Whether it can use each client's smallest loss F*_k."""
        ...

    @property
    def selects_by_loss(self) -> bool:
        """Whether it prefers clients by their loss: the engine then records the skew of the selection."""
        ...

    @property
    def weighing(self) -> Literal["fixed", "normalised", "free"]:
        """Whether a client's weight is α_k whenever it is invited, weights sum to 1 in every round, or neither."""
        ...

    @property
    def counts_invitations(self) -> bool:
        """Whether whom it invited before decides whom it invites: all of them must then take part."""
        ...

    def init(self, population: Population) -> State: ...
    def candidates(self, state: State, seen: Observation) -> Array:
        """Mask [N] of the available clients whose loss is asked for."""
        ...

    def decide(self, state: State, seen: Observation) -> tuple[Decision, State]: ...
    def learn(self, state: State, cohort: Cohort, updates: Updates) -> State:
        """The state after the cohort's answers."""
        ...

    def query_capacity(self, available: int) -> int:
        """The most clients that can be asked for a loss when at most `available` are there."""
        ...

    def capacity(self, available: int) -> int:
        """The most clients that can be invited when at most `available` are there."""
        ...


class Work(Protocol):
    """How much a client computes: its number of steps and the samples of each."""

    def fit(self, sizes: np.ndarray) -> "Work":
        """This work for clients of these sizes; raises where they cannot do it."""
        ...

    def steps(self, stream: Stream, client: Array, size: Array) -> Array | int:
        """τ_k of these clients [C] of these sizes [C] this round; a Python int where all do the same."""
        ...

    def most(self, size: Array) -> Array | int:
        """The most steps that clients of these sizes [N] can be asked for in a round."""
        ...

    def a_pass(self, size: Array) -> Array | int:
        """Steps of one pass over so many samples."""
        ...

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        """(positions [b] in the client's samples, mask [b]) of one step."""
        ...


class Schedule(Protocol):
    """How a learning rate changes over time."""

    def factor(self, task: Task, step: Array | int) -> Array | float:
        """What the rate is multiplied by at this local step; for many clients at once where `task` has [N] of them."""
        ...


class Memory(NamedTuple):
    """What a solver remembers between rounds: a row for each client, and what all share. () where nothing."""

    client: Any = ()  # pytree of [N, …]
    shared: Any = ()


class Solver(Protocol):
    """What a client does with the model it receives. `work` is how much of it."""

    @property
    def work(self) -> Work: ...
    @property
    def sends(self) -> Literal["change", "model", "difference"]:
        """What w_t − w_k is: the change by training from w_t, the way to a model of its own, or the difference to
        what the client sent last."""
        ...

    @property
    def starts_fresh(self) -> bool:
        """Whether all that training changes comes from this round's gradients: then delta / mass is their mean."""
        ...

    @property
    def trains_absent(self) -> bool:
        """Whether clients that are not there train, too (and keep the result)."""
        ...

    def init(self, population: Population, w: Array) -> Memory:
        """What is remembered before round 0, of which w [d] is the initial model."""
        ...

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> Trained: ...
    def first_rate(self, task: Task, shared: Any) -> Array | float:
        """`Trained.rate` of the task; for many clients at once where it has [N] of them."""
        ...

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, Any]:
        """(what all share next round, the rows to keep [C, …]) once the server has made the new model [d].

        `before` and `after` are the rows [C, …] before and after training.
        """
        ...


class Aggregation(Protocol):
    """Turns the cohort's updates into one direction."""

    @property
    def moves_when_empty(self) -> bool:
        """Whether a round without updates has a direction all the same (from memory); else nothing moves in it."""
        ...

    @property
    def takes(self) -> tuple[str, ...]:
        """Which kinds of updates (`Solver.sends`) it can combine."""
        ...

    @property
    def divides_by_mass(self) -> bool:
        """Whether it takes delta / mass for a mean gradient."""
        ...

    def init(self, population: Population, parameters: int) -> State: ...
    def combine(self, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]: ...


class Server(Protocol):
    """Takes one step of the model along the direction."""

    def init(self, w: Array) -> State: ...
    def step(self, state: State, w: Array, direction: Array) -> tuple[Array, State]: ...
    def end_round(self, state: State, w: Array, round: Array) -> tuple[Array, State]:
        """What happens when round number `round` (from 0) is over, whether or not anybody took part in it."""
        ...

    def serve(self, state: State, w: Array) -> Array:
        """The model to evaluate and to hand out, where it is not the one that trains."""
        ...


class Evaluation(NamedTuple):
    """A model's quality, client by client."""

    train_loss: Array  # [N] F_k(w), the penalty included
    tested: Array  # [N] bool: has test samples, and accuracy means something
    test_loss: Array  # [N] counts where tested
    test_accuracy: Array  # [N] counts where tested; nan for a model that diverged
    class_accuracy: Array | tuple[()] = ()  # [classes] over all test samples of a class; () without classes


class Problem(Protocol):
    """Clients' data, a model and a loss: F_k(w) = mean over client k's samples of ℓ(w, sample) + penalty(w).

    Samples are numbered 0 … S−1, client after client, so that a minibatch is a vector of numbers.
    """

    @property
    def sizes(self) -> Array: ...  # [N] training samples n_k
    @property
    def importance(self) -> Array: ...  # [N] target importance α
    def init(self, key: Array) -> Params: ...
    def losses(self, params: Params, samples: Array) -> Array:
        """ℓ(w, sample) for each of the samples [b] -> [b]."""
        ...

    def penalty(self, params: Params) -> Array: ...
    def evaluate(self, params: Params) -> Evaluation: ...
    def client_optima(self) -> Any:
        """F*_k [N], NumPy."""
        ...
