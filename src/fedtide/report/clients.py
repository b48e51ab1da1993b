"""Clients in the order in which figures show them: by class, the most available class first."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl


class RecordedClients(NamedTuple):
    """The recorded clients, ordered."""

    client: np.ndarray  # [n] client numbers: by class, then by availability
    kind: np.ndarray  # [n] index into names
    names: list[str]  # classes, the most available first
    target: np.ndarray  # [classes] target importance among the recorded clients, sums to 1

    def with_kind(self, clients: pl.DataFrame) -> pl.DataFrame:
        """The table of clients with a column for the class of each."""
        schema = {"client": clients["client"].dtype, "kind": pl.Int64}
        return clients.join(pl.DataFrame({"client": self.client, "kind": self.kind}, schema), on="client")


def fleet(clients: pl.DataFrame, about: dict[str, Any]) -> RecordedClients:
    """Orders the recorded clients by the classes that the run names (one class, where it names none)."""
    observed = clients.group_by("client").agg(pl.col("active").mean()).sort("client")
    number, available = observed["client"].to_numpy(), observed["active"].to_numpy()
    process = about.get("availability") or {}
    named = few(_lookup(process.get("classes"), number, "all clients"))
    expected = np.array(_lookup(process.get("availability"), number, np.nan), np.float64)
    expected = np.where(np.isfinite(expected), expected, available)
    weight = np.array(_lookup(about.get("importance"), number, np.nan), np.float64)
    if not np.isfinite(weight).all() or weight.sum() <= 0:
        weight = np.ones(len(number))
    label = np.array(named)
    names = sorted(set(named), key=lambda c: (-expected[label == c].mean().round(6), c))
    kind = np.array([names.index(c) for c in named])
    order = np.lexsort((number, -available, kind))
    target = np.bincount(kind, weights=weight, minlength=len(names)) / weight.sum()
    return RecordedClients(number[order], kind[order], names, target)


def _lookup(values: Any, number: np.ndarray, missing: Any) -> list[Any]:
    values = [] if values is None else list(values)
    return [values[k] if 0 <= k < len(values) and values[k] is not None else missing for k in number]


def few(named: Sequence[Any], most: int = 8) -> list[str]:
    """The names; the rarest become "other" if there are more than `most`."""
    named = [str(name) for name in named]
    counts = Counter(named)
    kept = {name for name, _ in counts.most_common(most if len(counts) <= most else most - 1)}
    return [name if name in kept else "other" for name in named]
