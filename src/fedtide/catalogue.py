"""Catalogues: whatever a configuration can name, by its name."""

import inspect
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
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


class Catalogue(MutableMapping[str, AnyEntry]):
    """Entries by name; `kind` is what errors call one of them.

    `later` is a module, of a package that imports this one, that adds further entries when it is imported: this happens
    when an entry is first asked for.
    """

    def __init__(self, kind: str, *entries: AnyEntry, later: str = "") -> None:
        self.kind = kind
        self._entries = {entry.name: entry for entry in entries}
        self._later = later

    @property
    def _all(self) -> dict[str, AnyEntry]:
        module, self._later = self._later, ""
        if module:
            import_module(module)
        return self._entries

    def __getitem__(self, name: str) -> AnyEntry:
        return self._all[name]

    def __setitem__(self, name: str, entry: AnyEntry) -> None:
        self._all[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, entry: AnyEntry) -> AnyEntry:
        self[entry.name] = entry
        return entry

    def find(self, name: str) -> AnyEntry:
        """The entry of that name; `FedtideError` with the nearest names if there is none."""
        check_one_of(self.kind, name, self)
        return self[name]
