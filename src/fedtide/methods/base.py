"""What a method is: five parts, a citation and declared facts."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fedtide.errors import InvalidInput, one_of
from fedtide.estimators import Bayesian, Blind, Discounted, Oracle
from fedtide.participation import Everyone, UniformSample
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

    def __post_init__(self):
        if self.participation.needs_estimates and isinstance(self.estimator, Blind):
            policy = type(self.participation).__name__
            raise InvalidInput("estimator", "Blind", f"one that estimates (Bayesian, …): {policy} looks at π̂")


@dataclass(frozen=True)
class Facts:
    """What a method asks for and promises. Memory and messages are in models (d floats) unless they say scalars."""

    unbiased: str  # when E[direction] ∝ Σ α_k Δ_k
    needs_estimates: bool = False
    needs_losses: bool = False
    server_memory: str = "d"
    client_memory: str = "–"
    extra_messages: str = "–"


@dataclass(frozen=True)
class Entry:
    """A method in the catalogue."""

    name: str
    title: str
    summary: str
    build: Callable[..., Method]
    facts: Facts
    bibtex: str

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


def method(*, title: str, facts: Facts, bibtex: str) -> Callable[[Callable[..., Method]], Callable[..., Method]]:
    """Enters a method in the catalogue under its function's name; the docstring's first line is its summary."""

    def enter(build: Callable[..., Method]) -> Callable[..., Method]:
        summary = (inspect.getdoc(build) or "").split("\n")[0]
        name = build.__name__
        CATALOGUE[name] = Entry(name, title, summary, build, facts, inspect.cleandoc(bibtex))
        return build

    return enter


def title_of(method: Method) -> str:
    """The catalogue's title, with what was replaced in it: "CA-Fed with Proximal"."""
    if method.name not in CATALOGUE:
        return method.name
    entry = CATALOGUE[method.name]
    usual = entry.build()
    kinds = ("estimator", "participation", "solver", "aggregation", "server")
    chosen = [type(getattr(method, kind)) for kind in kinds]
    other = [new.__name__ for new, kind in zip(chosen, kinds, strict=True) if new not in _usual(usual, kind)]
    return f"{entry.title} with {', '.join(other)}" if other else entry.title


def _usual(method: Method, kind: str) -> tuple[type, ...]:
    """What a method's own arguments can put there, too: any estimator, and a uniform sample of everyone."""
    if kind == "estimator":
        return (Bayesian, Discounted, Oracle, Blind)
    own = type(getattr(method, kind))
    return (own, UniformSample) if own is Everyone else (own,)


def find(name: str) -> Entry:
    """The catalogue's entry of that name."""
    if name not in CATALOGUE:
        raise InvalidInput("method", name, one_of(name, CATALOGUE))
    return CATALOGUE[name]


def compose(base: Method, **parts: Any) -> Method:
    """The method `base` with some parts replaced: `compose(ca_fed(), solver=Proximal(mu=0.1))`."""
    allowed = ("name", "estimator", "participation", "solver", "aggregation", "server")
    for key in parts:
        if key not in allowed:
            raise InvalidInput("part", key, one_of(key, allowed))
    return replace(base, **parts)
