"""Values of a `fleet.toml`, asked for by table and key, checked: a person may have edited it."""

import math
from typing import Any

import numpy as np

from fedtide.errors import InvalidInput, one_of
from fedtide.fleet.model import Habits, Lengths

FORMAT = 2
"""Of the tables: files of another are refused. 2: run lengths by shares, devices' own hours."""

TABLES = {
    "rounds": ("seconds", "count", "devices", "start", "zone"),
    "availability": ("beta", "beta_se", "never", "never_se", "negative"),
    "persistence": ("hours", "hours_se", "sigma", "sigma_se"),
    "profile": ("hour", "weekday", "share", "share_se"),
    "habits": Habits._fields,
    "pairs": ("correlation", "null", "with_clock"),
    "stays": Lengths._fields,
    "absences": Lengths._fields,
    "clusters": ("name", "correlation", "null", "coupling", "hours"),
    "account": ("rows", "used", "form", "notes", "issues"),
}


class Written:
    """Values of a TOML file, asked for by table and key, checked."""

    def __init__(self, tables: dict[str, Any]):
        self._tables = tables
        known = {"format", "source", *TABLES}
        written = tables.get("format", FORMAT)
        if written != FORMAT or isinstance(written, bool):
            earlier = isinstance(written, int) and written < FORMAT
            why = (
                "; an earlier fedtide wrote this file: run fedtide fleet fit again" if earlier else ", all that is read"
            )
            raise InvalidInput("format", written, f"{FORMAT}{why}")
        if not isinstance(tables.get("clusters", []), list):
            raise InvalidInput("clusters", "[clusters]", "tables, each headed [[clusters]]")
        for key, value in tables.items():
            if key not in known:
                raise InvalidInput(key, value, one_of(key, known))
            for table in value if key == "clusters" and isinstance(value, list) else [value]:
                if key in TABLES and not isinstance(table, dict):
                    raise InvalidInput(key, table, "a table")
                for inner in table if isinstance(table, dict) else ():
                    if inner not in TABLES[key]:
                        raise InvalidInput(f"{key}.{inner}", table[inner], one_of(inner, TABLES[key]))
        self.source = str(tables.get("source", ""))
        self.account = account_in(dict(tables.get("account", {})))
        self.clusters: list[dict[str, Any]] = list(tables.get("clusters", []))

    def has(self, table: str, key: str) -> bool:
        return key in self._tables.get(table, {})

    def number(self, table: str, key: str, low: float, high: float = math.inf, whole: bool = False) -> Any:
        value = self._tables.get(table, {}).get(key)
        return number_in(f"{table}.{key}", value, low, high, whole)

    def numbers(self, table: str, key: str, count: int, low: float, high: float = math.inf) -> tuple[float, ...]:
        return list_in(f"{table}.{key}", self._tables.get(table, {}).get(key), count, low, high)

    def list(self, table: str, key: str, low: float, high: float = math.inf) -> tuple[float, ...]:
        """Of any length."""
        values = self._tables.get(table, {}).get(key)
        count = len(values) if isinstance(values, list) else 1
        return list_in(f"{table}.{key}", values, count, low, high)

    def shares(self, key: str) -> np.ndarray:
        """By hour; nan where no round begins in an hour."""
        values = self._tables.get("profile", {}).get(key)
        fine = isinstance(values, list) and len(values) == 24 and all(isinstance(v, int | float) for v in values)
        if not fine:
            raise InvalidInput(f"profile.{key}", values, "24 numbers")
        return np.asarray(values, float)

    def text(self, table: str, key: str) -> str:
        value = self._tables.get(table, {}).get(key)
        if not isinstance(value, str):
            raise InvalidInput(f"{table}.{key}", value, "text")
        return value


def number_in(field: str, value: Any, low: float, high: float, whole: bool = False) -> Any:
    kind = int if whole else int | float
    fine = isinstance(value, kind) and not isinstance(value, bool) and low <= value <= high and abs(value) < math.inf
    if not fine:
        span = f"of {low:g} or more" if high == math.inf else f"in [{low:g}, {high:g}]"
        raise InvalidInput(
            field, value, f"a {'whole ' if whole else ''}number {span if low > -math.inf else ''}".strip()
        )
    return value


def account_in(table: dict[str, Any]) -> dict[str, Any]:
    """What became of the log's rows, as a page tells it."""
    for key in ("rows", "used"):
        if key in table:
            number_in(f"account.{key}", table[key], 0, math.inf, whole=True)
    if not isinstance(table.get("form", ""), str):
        raise InvalidInput("account.form", table["form"], "text")
    texts_in("account.notes", table.get("notes", []))
    issues = table.get("issues", [])
    if not isinstance(issues, list) or not all(isinstance(issue, dict) for issue in issues):
        raise InvalidInput("account.issues", issues, "tables, each headed [[account.issues]]")
    for i, issue in enumerate(issues):
        field = f"account.issues[{i}]"
        number_in(f"{field}.count", issue.get("count"), 0, math.inf, whole=True)
        for key in ("kind", "done"):
            if not isinstance(issue.get(key), str):
                raise InvalidInput(f"{field}.{key}", issue.get(key), "text")
        texts_in(f"{field}.examples", issue.get("examples", []))
    return table


def texts_in(field: str, values: Any) -> None:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidInput(field, values, "a list of texts")


def list_in(field: str, values: Any, count: int, low: float, high: float) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) != count:
        raise InvalidInput(field, values, f"{count} numbers" if count > 1 else "a list of numbers")
    return tuple(float(number_in(f"{field}[{i}]", v, low, high)) for i, v in enumerate(values))
