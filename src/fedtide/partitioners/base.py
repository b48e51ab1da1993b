"""Types and shared code of partitioners."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from fedtide.errors import InvalidInput, require
from fedtide.kinds import kinds_checked_class


@kinds_checked_class
class Partition(list[np.ndarray]):
    """One array of sample numbers per client, no sample twice. `notes` state deviations from the requested split."""

    def __init__(self, parts: Iterable[np.ndarray], notes: Iterable[str] = ()):
        super().__init__(parts)
        self.notes = tuple(notes)


class Partitioner(Protocol):
    """Distributes samples over clients: any such function, such as `functools.partial(dirichlet,
    concentration=0.3)`."""

    def __call__(self, labels: Any, clients: int, /, *, seed: int) -> Partition: ...


def deferred(function: Callable[..., Any], *later: str) -> Callable[..., Callable[..., Any]]:
    """A function of all arguments but `later`; it returns a function of these.

    >>> deferred(round, "number")(ndigits=1)(3.14)
    3.1
    """

    @functools.wraps(function)
    def build(**arguments: Any) -> Callable[..., Any]:
        return functools.partial(function, **arguments)

    known = inspect.signature(function).parameters.items()
    build.__signature__ = inspect.Signature([p for name, p in known if name not in later])  # pyright: ignore
    return build


def checked(labels: Any, clients: int, seed: int) -> np.ndarray:
    """The labels as an array, after checks of these arguments."""
    try:
        labels = np.asarray(labels)
    except ValueError:
        raise InvalidInput("labels", labels, "one label for each sample") from None
    require(labels.ndim == 1 and labels.size > 0, "shape of labels", labels.shape, "(samples,), one or more")
    require(clients >= 1, "clients", clients, "1 or more")
    require(seed >= 0, "seed", seed, "0 or more")
    return labels


def shares(rng: np.random.Generator, count: int, concentration: float) -> np.ndarray:
    """One draw from the symmetric Dirichlet distribution, computed in logarithms, for any small concentration.

    Gamma(a) has the distribution of Gamma(a + 1) U^(1/a), U uniform.
    """
    with np.errstate(over="ignore"):
        logs = np.log(rng.standard_gamma(concentration + 1, count)) + np.log1p(-rng.random(count)) / concentration
    logs = np.maximum(logs, np.finfo(float).min)
    drawn = np.exp(logs - logs.max())
    return drawn / drawn.sum()


def rounded(quotas: np.ndarray, total: int, ties: np.ndarray | None = None) -> np.ndarray:
    """Whole numbers with this total, in proportion to the quotas, by largest remainders.

    Equal remainders are ordered by `ties`, or by position.
    """
    exact = total * np.asarray(quotas, float) / np.sum(quotas)
    counts = np.floor(exact).astype(np.int64)
    order = np.lexsort((np.arange(len(counts)) if ties is None else ties, counts - exact))
    counts[order[: total - counts.sum()]] += 1
    return counts


def check_concentration(concentration: float) -> None:
    require(0 < concentration < np.inf, "concentration", concentration, "positive and finite")


def in_numbers(count: int, what: str) -> str:
    """1 sample, 2 samples.

    >>> in_numbers(1200, "sample")
    '1,200 samples'
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def empty_note(parts: list[np.ndarray]) -> list[str]:
    """A note where clients have no samples."""
    count = sum(len(mine) == 0 for mine in parts)
    return [f"{count} of {in_numbers(len(parts), 'client')} got no samples"] if count else []
