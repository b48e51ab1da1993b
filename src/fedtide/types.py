"""The values that parts exchange, and what makes a class a part.

Shapes are in brackets: N clients, C cohort rows, S training samples, d model parameters.
"""

import dataclasses
import reprlib
import types
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, dataclass_transform

import jax
import numpy as np
from jax import Array
from jax.core import Tracer

from fedtide.declared import Combination, Descent, LocalWork, Weighting
from fedtide.errors import whole
from fedtide.kinds import kinds_checked_class
from fedtide.streams import Purpose, Stream

State = Any
"""A part's state, with what changes from round to round: any pytree of arrays, or () for a part without state."""

Params = Any
"""A model's parameters as the model keeps them: any pytree of arrays."""

Weighing = Literal["fixed", "normalised", "free"]
"""A client's weight: α_k whenever it is invited; such that weights sum to 1 in every round; neither."""

QueriedLosses = Literal["minibatch", "all"] | None
"""The samples over which candidates report their loss before the decision; None where they are not asked."""

Sends = Literal["change", "model", "difference"]
"""What w_t − w_k is: the change by training from w_t, the way to a model of its own, or the change since the client's
last upload."""

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
def part(cls: type[T]) -> type[T]:
    """Makes a class a part: a frozen dataclass whose plain numbers may have batch axes.

    Fields typed `float`, `Array` or as another part are leaves of a pytree: they may be traced, so a grid of
    learning rates needs one compilation. Fields typed `int`, `bool`, `str`, `Literal`, `tuple` or a callable are
    structure: another value compiles another program. `__post_init__` checks what a user passes; it does not run again
    when JAX rebuilds the part from its leaves.
    """
    data = dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
    if cls.__repr__ is object.__repr__:
        data.__repr__ = _described  # pyright: ignore[reportAttributeAccessIssue]
    kinds_checked_class(data)
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


def _described(self: Any) -> str:
    """The part with the fields that are not at their defaults; arrays by type and shape."""
    fields = [(f, getattr(self, f.name)) for f in dataclasses.fields(self)]
    shown = [f"{f.name}={_shown(value)}" for f, value in fields if f.repr and not _is_default(f, value)]
    return f"{type(self).__name__}({', '.join(shown)})"


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    made = field.default_factory is not dataclasses.MISSING
    default: Any = field.default_factory() if made else field.default  # pyright: ignore[reportCallIssue]
    if isinstance(value, dict | tuple) and isinstance(default, dict | tuple):
        return dict(value) == dict(default) if isinstance(value, dict) else value == default
    return type(value) is type(default) and not isinstance(value, np.ndarray | Array) and repr(value) == repr(default)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic | Array):
        few = value.size <= 4 and not isinstance(value, Tracer)
        return repr(np.asarray(value).tolist()) if few else f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return f"{type(value).__name__}({', '.join(map(_shown, value))})"
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__.replace(".<locals>", "")
    return _BRIEF.repr(value) if isinstance(value, tuple | list | dict) else repr(value)


_BRIEF = reprlib.Repr()
_BRIEF.maxother = _BRIEF.maxstring = 80


def derived(fact: Callable[[Any], T]) -> T:
    """A declared fact that depends on the part's fields, in place of a constant."""
    return property(fact)  # pyright: ignore[reportReturnType]


def _is_structure(hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return all(_is_structure(member) for member in typing.get_args(hint))
    return (
        origin in (Literal, tuple, Callable)
        or hint in (int, bool, str, type(None), Callable)
        or (isinstance(hint, type) and issubclass(hint, tuple))
    )


def check_whole(part: Any, kind: str, **lowest: int) -> None:
    """Checks a part's fields that hold whole numbers, each with the smallest that is allowed, and keeps them as Python
    ints. None passes where it is the default."""
    for name, low in lowest.items():
        value = getattr(part, name)
        if value is not None or part.__dataclass_fields__[name].default is not None:
            object.__setattr__(part, name, whole(f"{kind}.{name}", value, low))


class Population(NamedTuple):
    """What is known about the clients. The true π, λ and F* are None where a run does not provide them."""

    importance: Array  # [N] target importance α, sums to 1
    sizes: Array  # [N] training samples n_k
    availability: Array | None = None  # [N] stationary availability π
    correlation: Array | None = None  # [N] lag-1 correlation λ
    optimum: Array | None = None  # [N] each client's own smallest training loss F*_k
    labels: Array | None = None  # [N, classes] training samples of each class


class Estimate(NamedTuple):
    """The server's estimates of availability."""

    availability: Array  # [N] π̂
    correlation: Array  # [N] λ̂


class Observation(NamedTuple):
    """The information that a participation policy gets in a round."""

    available: Array  # [N] bool
    estimate: Estimate
    loss: Array  # [N] loss at the current model of the clients that were asked for it; 0 for the others
    asked: Array  # [N] bool: was asked for its loss (none was, unless the policy needs losses)
    round: Array  # [] rounds completed before this one
    stream: Stream  # random numbers of this round
    population: Population


class Decision(NamedTuple):
    """The invited clients and their weights."""

    invited: Array  # [N] bool, a subset of the available
    weight: Array  # [N] aggregation weight q, 0 for those not invited


class Cohort(NamedTuple):
    """The invited clients as rows of a fixed capacity; the remaining rows are masked."""

    client: Array  # [C] client of each row
    present: Array  # [C] bool
    weight: Array  # [C] aggregation weight, 0 where not present
    importance: Array  # [C] target importance α of each row's client, whether or not it is present
    age: Array | tuple[()] = ()  # [C] server steps since the row's client received its model; () without a clock


class Trained(NamedTuple):
    """The result of one client's local training."""

    w: Array  # [d] the model after the local steps
    loss: Array  # [] mean minibatch loss over them
    steps: Array | int  # τ_k, the number of steps taken
    mass: Array  # [] or [d] η‖a‖₁: the sum of the coefficients with which its gradients enter the change
    rate: Array | float  # [] η, the learning rate of its first step, without a factor of the client's own
    row: Any = ()  # the client's state for the next round
    message: Any = ()  # what it sends besides the model, for `Solver.close`


class Updates(NamedTuple):
    """What the cohort sends back, one row per client; rows that are not present are 0."""

    delta: Array  # [C, d] w_t − w_k, a descent direction
    loss: Array  # [C] mean minibatch loss over the local steps
    steps: Array  # [C] local steps τ_k
    mass: Array  # [C] or [C, d] η‖a_k‖₁, so that delta / mass is a mean gradient
    rate: Array  # [C] η of the first local step, without factors of the clients' own
    message: Any = ()  # [C, …] further messages
    round_rate: Array | tuple[()] = ()  # [] η of the round, for an aggregation that also moves in empty rounds


_FIRST_OF_SOLVER = 2**20  # the counter from which on numbers are the solver's, not the work's


class Task(NamedTuple):
    """One client's local work in one round, as a solver sees it."""

    steps: Array | int  # τ_k; a Python int where it is the same for all clients
    gradient: Callable[[Array, Array | int], tuple[Array, Array]]  # (w [d], step) -> (loss, gradient [d])
    round: Array | int = 0  # rounds completed before this one
    steps_per_epoch: Array | int = 1  # steps of one pass over the client's samples
    unroll: bool = False  # whether to unroll the loop over steps (the engine knows the device)
    client: Array | int | None = None  # its number; None for the rate that all clients have in common
    stream: Stream = Stream(0, Purpose.WORK)  # random numbers of the round; the first ones decide on the steps

    def uniform(self, count: int) -> Array:
        """`count` uniform numbers in [0, 1) of this client and round, for solvers that draw."""
        return self.stream.uniform(0 if self.client is None else self.client, count, start=_FIRST_OF_SOLVER)

    def elapsed(self, unit: Literal["steps", "epochs", "rounds"], step: Array | int) -> Array | int:
        """Local steps (or epochs, or rounds) before this step, for a client that takes part in every round."""
        if unit == "rounds":
            return self.round
        steps = self.round * self.steps + step
        return steps if unit == "steps" else steps // self.steps_per_epoch


class Estimator(Protocol):
    """Estimates π̂ and λ̂ from past availability."""

    knows: ClassVar[tuple[str, ...]]  # the fields of `Estimate` that it fills; the others are nan

    def init(self, population: Population) -> State: ...
    def update(self, state: State, available: Array) -> tuple[Estimate, State]: ...


class Participation(Protocol):
    """Decides which clients to invite, and with what weights."""

    needs_estimates: ClassVar[bool]  # whether it uses π̂
    needs_correlation: ClassVar[bool]  # whether it uses λ̂
    needs_losses: ClassVar[QueriedLosses]
    needs_optimum: ClassVar[bool]  # whether it can use each client's smallest loss F*_k
    selects_by_loss: ClassVar[bool]  # whether it selects clients by their loss: the engine then records the skew
    weighing: ClassVar[Weighing]
    counts_invitations: ClassVar[bool]  # whether decisions depend on past invitations, which must then all be followed

    def in_theory(self, importance: np.ndarray, availability: np.ndarray, inverse: np.ndarray) -> Weighting:
        """Its weights for predictions, from α, π and α/π̂ [N], where π̂ is the estimator's limit."""
        ...

    def init(self, population: Population) -> State: ...
    def candidates(self, state: State, observation: Observation) -> Array:
        """Mask [N] of the available clients that are asked for their loss."""
        ...

    def decide(self, state: State, observation: Observation) -> tuple[Decision, State]: ...
    def learn(self, state: State, cohort: Cohort, updates: Updates) -> State:
        """The state after the cohort's answers."""
        ...

    def query_capacity(self, available: int) -> int:
        """The most clients that can be asked for a loss when at most `available` are available."""
        ...

    def capacity(self, available: int) -> int:
        """The most clients that can be invited when at most `available` are available."""
        ...


class Work(Protocol):
    """How much a client computes: its number of steps and the samples of each."""

    def fit(self, sizes: np.ndarray) -> "Work":
        """The work, fitted to clients of these sizes; raises where they cannot do it."""
        ...

    def in_theory(self, sizes: np.ndarray) -> LocalWork:
        """Its steps for predictions."""
        ...

    def steps(self, stream: Stream, client: Array, size: Array) -> Array | int:
        """τ_k of these clients [C] of these sizes [C] this round; a Python int where it is the same for all."""
        ...

    def most(self, size: Array) -> Array | int:
        """The most steps that clients of these sizes [N] can be asked for in a round."""
        ...

    def steps_per_epoch(self, size: Array) -> Array | int:
        """The steps of one pass over this many samples."""
        ...

    def minibatch(self, stream: Stream, client: Array, size: Array, step: Array | int) -> tuple[Array, Array]:
        """(positions [b] in the client's samples, mask [b]) of one step."""
        ...


class Schedule(Protocol):
    """How learning rates change over time and differ between clients. A schedule with a value for each client may have
    a method `fit(sizes)`, as local work does, to check their number."""

    def factor(self, task: Task, step: Array | int) -> Array | float:
        """The factor of the rate at this local step; for many clients at once where `task` holds [N] of them."""
        ...


class Staleness(Protocol):
    """The weight of an update by its age."""

    def discount(self, age: Array) -> Array:
        """Factors in (0, 1], 1 at age 0; `age` counts server steps."""
        ...


class Memory(NamedTuple):
    """A solver's state between rounds: a row for each client, and a part that all share. () where there is none."""

    client: Any = ()  # pytree of [N, …]
    shared: Any = ()


class Solver(Protocol):
    """What a client does with the model it receives; `work` says how many steps it takes, and on which samples."""

    sends: ClassVar[Sends]
    starts_fresh: ClassVar[bool]  # whether only this round's gradients enter delta: delta / mass is then their mean
    trains_absent: ClassVar[bool]  # whether unavailable clients train, too (and keep the result)

    @property
    def work(self) -> Work: ...
    def in_theory(self) -> Descent:
        """Its steps for predictions."""
        ...

    def init(self, population: Population, w: Array) -> Memory:
        """The state before round 0; w [d] is the initial model."""
        ...

    def train(self, w: Array, task: Task, row: Any, shared: Any) -> Trained: ...
    def first_rate(self, task: Task, shared: Any) -> Array | float:
        """`Trained.rate` of the task; for many clients at once where it holds [N] of them."""
        ...

    def close(
        self, shared: Any, cohort: Cohort, updates: Updates, before: Any, after: Any, model: Array
    ) -> tuple[Any, Any]:
        """(the next shared state, the rows to keep [C, …]), once the server has computed the new model [d].

        `before` and `after` are the rows [C, …] before and after training.
        """
        ...


class Aggregation(Protocol):
    """Turns the cohort's updates into one direction."""

    moves_when_empty: ClassVar[bool]  # whether a round without updates has a direction, from memory; else nothing moves
    takes: ClassVar[tuple[Sends, ...]]  # the kinds of updates that it can combine
    divides_by_mass: ClassVar[bool]  # whether it takes delta / mass for a mean gradient

    def in_theory(self) -> Combination:
        """Its direction for predictions."""
        ...

    def init(self, population: Population, parameters: int) -> State: ...
    def combine(self, state: State, cohort: Cohort, updates: Updates) -> tuple[Array, State]: ...


class Server(Protocol):
    """Takes one step of the model along the direction."""

    def in_theory(self) -> Descent:
        """Its steps for predictions."""
        ...

    def init(self, w: Array) -> State: ...
    def step(self, state: State, w: Array, direction: Array) -> tuple[Array, State]: ...
    def end_round(self, state: State, w: Array, round: Array) -> tuple[Array, State]:
        """Called at the end of every round, including rounds without updates; `round` counts from 0."""
        ...

    def serve(self, state: State, w: Array) -> Array:
        """The model to evaluate and return, where it differs from the one that clients train from."""
        ...


class Evaluation(NamedTuple):
    """A model's quality, client by client."""

    train_loss: Array  # [N] F_k(w), the penalty included
    tested: Array  # [N] bool: has test samples, and accuracy is defined
    test_loss: Array  # [N] meaningful where tested
    test_accuracy: Array  # [N] meaningful where tested; nan for a model that diverged
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
