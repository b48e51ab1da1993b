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


class Updates(NamedTuple):
    """What the cohort sends back, one row a client; rows that are not present are 0."""

    delta: Array  # [C, d] w_t − w_k, a descent direction
    loss: Array  # [C] mean minibatch loss over the local steps
    steps: Array  # [C] local steps τ_k


class Task(NamedTuple):
    """One client's local work in one round, as a solver sees it."""

    steps: Array | int  # τ_k; a Python int where all clients do the same
    gradient: Callable[[Array, Array | int], tuple[Array, Array]]  # (w [d], step) -> (loss, gradient [d])
    unroll: bool = False  # whether the loop over steps is better written out (the engine knows the device)


class Estimator(Protocol):
    """Learns π̂ and λ̂ from who was there."""

    def init(self, population: Population) -> State: ...
    def update(self, state: State, available: Array) -> tuple[Estimate, State]: ...


class Participation(Protocol):
    """Decides whom to invite, with what weight."""

    @property
    def needs_estimates(self) -> bool:
        """Whether it looks at π̂ or λ̂."""
        ...

    @property
    def needs_losses(self) -> bool:
        """Whether the available clients are asked for their loss before the decision."""
        ...

    @property
    def needs_optimum(self) -> bool:
        """Whether each client's smallest loss F*_k must be known."""
        ...

    def init(self, population: Population) -> State: ...
    def decide(self, state: State, seen: Observation) -> tuple[Decision, State]: ...
    def capacity(self, available: int) -> int:
        """The most clients that can be invited when at most `available` are there."""
        ...


class Work(Protocol):
    """How much a client computes: its number of steps and the samples of each."""

    def check(self, sizes: np.ndarray) -> None:
        """Raises where clients of these sizes cannot do this work."""
        ...

    def steps(self, sizes: Array) -> Array | int:
        """τ_k for clients of these sizes; a Python int where all do the same."""
        ...

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        """(positions [b] in the client's samples, mask [b]) of one step."""
        ...


class Memory(NamedTuple):
    """What a solver remembers between rounds: a row for each client, and what all share. () where nothing."""

    client: Any = ()  # pytree of [N, …]
    shared: Any = ()


class Solver(Protocol):
    """What a client does with the model it receives. `work` is how much of it."""

    @property
    def work(self) -> Work: ...
    def init(self, population: Population, parameters: int) -> Memory: ...
    def train(self, w: Array, task: Task, row: Any, shared: Any) -> tuple[Array, Array, Any]:
        """(w_k [d] after the local steps, mean minibatch loss, the client's new row)."""
        ...

    def share(self, shared: Any, cohort: Cohort, before: Any, after: Any) -> Any:
        """What all share next round, from the cohort's rows before and after training [C, …]."""
        ...


class Aggregation(Protocol):
    """Turns the cohort's updates into one direction."""

    @property
    def moves_when_empty(self) -> bool:
        """Whether a round without updates has a direction all the same (from memory); else nothing moves in it."""
        ...

    def init(self, population: Population, parameters: int) -> State: ...
    def combine(self, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]: ...


class Server(Protocol):
    """Takes one step of the model along the direction."""

    def init(self, w: Array) -> State: ...
    def step(self, state: State, w: Array, direction: Array) -> tuple[Array, State]: ...


class Evaluation(NamedTuple):
    """A model's quality, client by client."""

    train_loss: Array  # [N] F_k(w), the penalty included
    tested: Array  # [N] bool: has test samples, and accuracy means something
    test_loss: Array  # [N] counts where tested
    test_accuracy: Array  # [N] counts where tested; nan for a model that diverged


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
