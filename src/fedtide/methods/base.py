"""Methods: five parts, a citation and declared facts."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from fedtide.catalogue import Catalogue, Entry
from fedtide.errors import InvalidInput, check_kind, check_one_of
from fedtide.kinds import kinds_checked
from fedtide.types import Aggregation, Estimator, Participation, Server, Solver, part

KINDS = ("estimator", "participation", "solver", "aggregation", "server")


@part
class Method:
    """A composition of parts, for simulation and deployment."""

    name: str
    estimator: Estimator
    participation: Participation
    solver: Solver
    aggregation: Aggregation
    server: Server
    replaced: tuple[str, ...] = ()  # parts that `compose` replaced

    def __post_init__(self):
        for kind in KINDS:
            check_kind(kind, getattr(self, kind), kind)
        for misfit in _misfits(self):
            raise misfit


def _misfits(method: Method) -> Iterator[InvalidInput]:
    """The reasons why the parts cannot be combined, one line each."""
    policy, solver, rule = method.participation, method.solver, method.aggregation
    looked_at = {"availability": (policy.needs_estimates, "π̂"), "correlation": (policy.needs_correlation, "λ̂")}
    for field, (needed, symbol) in looked_at.items():
        if needed and field not in method.estimator.knows:
            wanted = f"one that estimates {symbol}, such as Bayesian: {_name(policy)} uses it"
            yield InvalidInput("estimator", _name(method.estimator), wanted)
    if solver.sends not in rule.takes:
        taken = " or ".join(_SENT[kind] for kind in rule.takes)
        wanted = f"one that takes {_SENT[solver.sends]}, which {_name(solver)} sends; this one takes {taken}"
        yield InvalidInput("aggregation", _name(rule), wanted)
    if rule.divides_by_mass and not solver.starts_fresh:
        wanted = f"one that does not normalise updates: those of {_name(solver)} contain gradients of earlier rounds"
        yield InvalidInput("aggregation", _name(rule), wanted)
    needed = _WEIGHING.get(solver.sends)
    if needed and policy.weighing != needed[0]:
        wanted = f"one whose weights {needed[1]}: {_name(solver)} sends {_SENT[solver.sends]}"
        yield InvalidInput("participation", _name(policy), wanted)


_WEIGHING = {
    "model": ("normalised", "sum to 1, such as Everyone()"),
    "difference": ("fixed", "do not change from round to round, such as Everyone('fixed')"),
}


def _name(part: Any) -> str:
    return type(part).__name__


_SENT = {
    "change": "the change made by training",
    "model": "the client's own model",
    "difference": "the change since the client's last upload",
}


@dataclass(frozen=True)
class Facts:
    """What a method requires and guarantees; d is the size of a model, N the number of clients."""

    unbiased: str  # when E[direction] ∝ Σ α_k Δ_k
    needs_estimates: bool = False  # of availability; this and the next two are those of its participation
    needs_correlation: bool = False  # and of its correlation
    needs_losses: bool = False  # before the round
    server_models: int = 1  # vectors of the size of a model that the server keeps between rounds
    server_rows: Literal["N", "K", ""] = ""  # one more such vector for each client, or for each of K clusters
    server_scalars: bool = False  # whether it also keeps numbers for each client
    client_models: int = 0  # vectors of the size of a model that every client keeps between rounds
    client_scalars: bool = False  # whether it also keeps numbers
    extra_up: str = "–"  # sent by a client besides its model
    extra_down: str = "–"  # sent to a client besides the model

    def required_by(self, method: Method) -> "Facts":
        """These facts, with the requirements of the method's participation."""
        policy = method.participation
        return replace(
            self,
            needs_estimates=policy.needs_estimates,
            needs_correlation=policy.needs_correlation,
            needs_losses=policy.needs_losses is not None,
        )

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
    "weights for unavailable clients",
    "memory for unavailable clients",
    "client selection",
    "cyclic participation",
    "heterogeneous data",
    "heterogeneous devices",
    "asynchronous training",
    "worst-served clients",
    "adversarial clients",
    "others",
]
"""The purpose of a method; lists of methods are in this order."""


def _times(models: int) -> str:
    return "d" if models == 1 else f"{models}d"


@dataclass(frozen=True)
class MethodEntry(Entry[Method]):
    """A method in the catalogue."""

    title: str
    declared: Facts
    bibtex: str
    purpose: Purpose = "others"

    @functools.cached_property
    def facts(self) -> Facts:
        """The declared facts, with the requirements of the method as built by default."""
        return self.declared.required_by(self.build())

    @property
    def equations(self) -> str:
        """The method's docstring, without its arguments."""
        return _docstring(self.build)[0]

    @property
    def explained(self) -> dict[str, str]:
        """The meaning of each argument, from the docstring's `Args:`."""
        items = re.split(r"\n    (?=\w+: )", _docstring(self.build)[1])[1:]
        return {name: " ".join(text.split()) for name, _, text in (item.partition(": ") for item in items)}

    @property
    def defaults(self) -> dict[str, Any]:
        """The hyper-parameters and their default values."""
        return {n: p.default for n, p in inspect.signature(self.build).parameters.items()}


_OF_ALL = {
    "rate": "η, the clients' learning rate",
    "server_rate": "η_s, the server's learning rate",
    "work": "a client's local work in a round",
    "schedule": "how η changes over time",
    "estimator": "how π̂ (and λ̂) are estimated from past availability",
}


def _docstring(build: Callable[..., Any]) -> tuple[str, str]:
    """Its text, and its part under `Args:`."""
    text, _, arguments = (inspect.getdoc(build) or "").partition("\n\nArgs:")
    return text, arguments


CATALOGUE: Catalogue[MethodEntry] = Catalogue("method")
"""Every method by name, in the order of definition."""
find = CATALOGUE.find


def by_purpose() -> dict[str, list[MethodEntry]]:
    """The catalogue's methods by purpose."""
    groups = {purpose: [e for e in CATALOGUE.values() if e.purpose == purpose] for purpose in get_args(Purpose)}
    return {purpose: entries for purpose, entries in groups.items() if entries}


P = ParamSpec("P")
Builder = TypeVar("Builder", bound=Callable[..., Method])


def method(*, title: str, facts: Facts, bibtex: str, purpose: Purpose = "others") -> Callable[[Builder], Builder]:
    """Adds a method to the catalogue under its function's name; the docstring's first line is its summary.

    Arguments with the same meaning in all methods are added to the docstring's `Args:` where it does not explain them.
    """

    def enter(written: Builder) -> Builder:
        build: Any = kinds_checked(written)
        entry = CATALOGUE.add(MethodEntry(build.__name__, build, title, facts, inspect.cleandoc(bibtex), purpose))
        known = _OF_ALL | entry.explained
        own = {argument: text for argument, text in entry.explained.items() if argument not in entry.defaults}
        _explain(build, {argument: known[argument] for argument in entry.defaults if argument in known} | own)
        return build

    return enter


def arguments_of(other: Callable[P, Method]) -> Callable[[Callable[..., Method]], Callable[P, Method]]:
    """For a variant of another method: it takes that method's arguments, with their meanings."""

    def take(build: Any) -> Callable[P, Method]:
        build.__signature__, build.__annotations__ = inspect.signature(other), other.__annotations__
        meanings = {name: CATALOGUE[other.__name__].explained[name] for name in build.__signature__.parameters}
        _explain(build, meanings)
        return build

    return take


def _explain(build: Callable[..., Any], meanings: dict[str, str]) -> None:
    lines = "".join(f"\n    {name}: {meaning}" for name, meaning in meanings.items())
    build.__doc__ = f"{_docstring(build)[0]}\n\nArgs:{lines}\n"


def title_of(method: Method) -> str:
    """The catalogue's title, with the replaced parts: "CA-Fed with Proximal"."""
    title = CATALOGUE[method.name].title if method.name in CATALOGUE else method.name
    return f"{title} with {', '.join(method.replaced)}" if method.replaced else title


@kinds_checked
def compose(base: Method, **parts: Any) -> Method:
    """The method `base` with some parts replaced: `compose(ca_fed(), solver=Proximal(mu=0.1))`.

    Parts that cannot be combined are refused, with the reason.
    """
    for key in parts:
        check_one_of("part", key, ("name", *KINDS))
    other = [kind for kind in KINDS if kind in parts and type(parts[kind]) is not type(getattr(base, kind))]
    names = (type(parts[kind]).__name__ for kind in other if kind != "estimator")
    return replace(base, **parts, replaced=(*base.replaced, *names))
