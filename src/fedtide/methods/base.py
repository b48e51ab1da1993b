"""What a method is: five parts, a citation and declared facts."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from fedtide.errors import InvalidInput, check_kind, one_of
from fedtide.types import Aggregation, Estimator, Participation, Server, Solver, part


@part
class Method:
    """A composition of parts: all that a simulation or a deployment needs to know."""

    name: str
    estimator: Estimator
    participation: Participation
    solver: Solver
    aggregation: Aggregation
    server: Server
    replaced: tuple[str, ...] = ()  # parts that `compose` put in place of the method's own

    def __post_init__(self):
        for kind in ("estimator", "participation", "solver", "aggregation", "server"):
            check_kind(kind, getattr(self, kind), kind)
        for misfit in _misfits(self):
            raise misfit


def _misfits(method: Method) -> Iterator[InvalidInput]:
    """Why the parts do not go together, a line each."""
    policy, solver, rule = method.participation, method.solver, method.aggregation
    looked_at = {"availability": (policy.needs_estimates, "π̂"), "correlation": (policy.needs_correlation, "λ̂")}
    for field, (needed, symbol) in looked_at.items():
        if needed and field not in method.estimator.knows:
            wanted = f"one that estimates {symbol}, as Bayesian does: {_name(policy)} looks at it"
            yield InvalidInput("estimator", _name(method.estimator), wanted)
    if solver.sends not in rule.takes:
        taken = " or ".join(_SENT[kind] for kind in rule.takes)
        wanted = f"one that takes {_SENT[solver.sends]}, as {_name(solver)} sends it; this one takes {taken}"
        yield InvalidInput("aggregation", _name(rule), wanted)
    if rule.divides_by_mass and not solver.starts_fresh:
        wanted = f"one that takes updates as they are: {_name(solver)} brings gradients of earlier rounds into them"
        yield InvalidInput("aggregation", _name(rule), wanted)
    needed = _WEIGHING.get(solver.sends)
    if needed and policy.weighing != needed[0]:
        wanted = f"one whose weights {needed[1]}: {_name(solver)} sends {_SENT[solver.sends]}"
        yield InvalidInput("participation", _name(policy), wanted)


_WEIGHING = {
    "model": ("normalised", "sum to 1, as Everyone() gives them"),
    "difference": ("fixed", "do not change from round to round, as Everyone('fixed') gives them"),
}


def _name(part: Any) -> str:
    return type(part).__name__


_SENT = {
    "change": "what training changed in the received model",
    "model": "a model of its own",
    "difference": "the difference to what it sent last",
}


@dataclass(frozen=True)
class Facts:
    """What a method asks for and promises; d is the size of a model, N the number of clients."""

    unbiased: str  # when E[direction] ∝ Σ α_k Δ_k
    needs_estimates: bool = False  # of availability
    needs_correlation: bool = False  # an estimate of it, too
    needs_losses: bool = False  # before the round
    server_models: int = 1  # vectors of the size of a model that the server keeps between rounds
    server_rows: Literal["N", "K", ""] = ""  # and one more for each client, or for each of K clusters
    server_scalars: bool = False  # and some numbers for each client
    client_models: int = 0  # vectors of the size of a model that every client keeps between rounds
    client_scalars: bool = False  # and some numbers
    extra_up: str = "–"  # sent by a client besides its model
    extra_down: str = "–"  # sent to a client besides the model

    @property
    def needs(self) -> str:
        """In symbols: "π̂, λ̂, losses"."""
        wanted = {"π̂": self.needs_estimates, "λ̂": self.needs_correlation, "losses": self.needs_losses}
        return ", ".join(name for name, needed in wanted.items() if needed) or "–"

    @property
    def server_memory(self) -> str:
        """In words: "d + N scalars"."""
        models = f"({self.server_rows} + {self.server_models}) d" if self.server_rows else _times(self.server_models)
        return f"{models} + N scalars" if self.server_scalars else models

    @property
    def client_memory(self) -> str:
        """In words: "2d" for each client."""
        parts = [_times(self.client_models)] if self.client_models else []
        return " + ".join([*parts, "scalars"] if self.client_scalars else parts) or "–"


Purpose = Literal[
    "baselines",
    "weights for the absent",
    "memory for the absent",
    "choosing whom to invite",
    "taking turns",
    "different data",
    "different devices",
    "the worst served",
    "others",
]
"""What a method is there for; lists of methods are in this order."""


def _times(models: int) -> str:
    return "d" if models == 1 else f"{models}d"


@dataclass(frozen=True)
class Entry:
    """A method in the catalogue."""

    name: str
    title: str
    summary: str
    build: Callable[..., Method]
    facts: Facts
    bibtex: str
    purpose: Purpose = "others"

    @property
    def equations(self) -> str:
        """The method's docstring."""
        return inspect.getdoc(self.build) or ""

    @property
    def defaults(self) -> dict[str, Any]:
        """The hyper-parameters and their default values."""
        return {n: p.default for n, p in inspect.signature(self.build).parameters.items()}


CATALOGUE: dict[str, Entry] = {}
"""Every method by name, in the order of definition."""


def by_purpose() -> dict[str, list[Entry]]:
    """The catalogue's methods by what they are there for."""
    groups = {purpose: [e for e in CATALOGUE.values() if e.purpose == purpose] for purpose in get_args(Purpose)}
    return {purpose: entries for purpose, entries in groups.items() if entries}


def method(
    *, title: str, facts: Facts, bibtex: str, purpose: Purpose = "others"
) -> Callable[[Callable[..., Method]], Callable[..., Method]]:
    """Enters a method in the catalogue under its function's name; the docstring's first line is its summary."""

    def enter(build: Callable[..., Method]) -> Callable[..., Method]:
        summary = (inspect.getdoc(build) or "").split("\n")[0]
        name = build.__name__
        CATALOGUE[name] = Entry(name, title, summary, build, facts, inspect.cleandoc(bibtex), purpose)
        return build

    return enter


def title_of(method: Method) -> str:
    """The catalogue's title, with what was replaced in it: "CA-Fed with Proximal"."""
    title = CATALOGUE[method.name].title if method.name in CATALOGUE else method.name
    return f"{title} with {', '.join(method.replaced)}" if method.replaced else title


def find(name: str) -> Entry:
    """The catalogue's entry of that name."""
    if name not in CATALOGUE:
        raise InvalidInput("method", name, one_of(name, CATALOGUE))
    return CATALOGUE[name]


def compose(base: Method, **parts: Any) -> Method:
    """The method `base` with some parts replaced: `compose(ca_fed(), solver=Proximal(mu=0.1))`.

    Parts that make no sense together are refused, with the reason.
    """
    kinds = ("estimator", "participation", "solver", "aggregation", "server")
    for key in parts:
        if key not in ("name", *kinds):
            raise InvalidInput("part", key, one_of(key, ("name", *kinds)))
    other = [kind for kind in kinds if kind in parts and type(parts[kind]) is not type(getattr(base, kind))]
    names = (type(parts[kind]).__name__ for kind in other if kind != "estimator")
    return replace(base, **parts, replaced=(*base.replaced, *names))
