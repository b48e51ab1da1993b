"""Catalogues: whatever a configuration can name, by its name."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fedtide.errors import check_one_of

Built = TypeVar("Built")


@dataclass(frozen=True)
class Entry(Generic[Built]):
    """A function that builds something from arguments, with its name."""

    name: str
    build: Callable[..., Built]

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.build) or "").split("\n")[0]


AnyEntry = TypeVar("AnyEntry", bound=Entry[Any])


class Catalogue(dict[str, AnyEntry]):
    """Entries by name; `kind` is what errors call one of them."""

    def __init__(self, kind: str, *entries: AnyEntry) -> None:
        super().__init__((entry.name, entry) for entry in entries)
        self.kind = kind

    def add(self, entry: AnyEntry) -> AnyEntry:
        self[entry.name] = entry
        return entry

    def find(self, name: str) -> AnyEntry:
        """The entry of that name; `FedtideError` with the nearest names if there is none."""
        check_one_of(self.kind, name, self)
        return self[name]
