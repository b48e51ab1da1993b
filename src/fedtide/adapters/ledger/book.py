"""Writing and reading a ledger."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, case, delete, func, insert, or_, select, text, update

from fedtide.adapters.ledger import schema
from fedtide.adapters.ledger.opening import Database
from fedtide.adapters.ledger.records import (
    Enrolled,
    Presence,
    Run,
    check_client,
    checked_roster,
    checked_rows,
    finite,
    moment,
    round_number,
)
from fedtide.adapters.ledger.status import Status, read_status
from fedtide.errors import FedtideError

_NEW_CLIENT = text("insert into clients (client) values (:client) on conflict do nothing")


class Ledger:
    """The ledger at a path (SQLite) or URL (PostgreSQL, or sqlite:///path); made where there is none.

    Every call is one transaction: it is written whole or not at all, also when the process is killed in it. Several
    processes may read while one writes. `patience`: seconds to wait for a lock before giving up. What goes wrong (disk
    full, locked, no database) is a one-line `FedtideError` that names the file; call again once it is put right.
    """

    def __init__(self, url: str | os.PathLike[str], *, readonly: bool = False, patience: float = 30.0):
        self.database = Database(url, readonly, patience)

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.database.engine.dispose()

    def begin_run(
        self,
        run: str,
        method: str,
        config: Mapping[str, Any],
        roster: Sequence[Enrolled],
        at: float | None = None,
    ) -> None:
        """Enters a run and its roster. Again with the same roster: the run goes on, with this configuration."""
        check_client(run, "run")
        rows = checked_roster(roster)
        settings = json.dumps(dict(config), sort_keys=True, default=str)
        with self.database.writing() as connection:
            known = connection.execute(select(schema.runs.c.method).where(schema.runs.c.run == run)).scalar()
            if known is not None:
                self._same(connection, run, known, method, rows)
                values = {"config": settings, "finished": None}
                connection.execute(update(schema.runs).where(schema.runs.c.run == run).values(**values))
                return
            began = moment("at", time.time() if at is None else at)
            connection.execute(insert(schema.runs).values(run=run, method=method, config=settings, started=began))
            connection.execute(_NEW_CLIENT, sorted(({"client": row["client"]} for row in rows), key=str))
            connection.execute(insert(schema.roster), [{"run": run, **row} for row in rows])

    def finish_run(self, run: str, at: float | None = None) -> None:
        ended = moment("at", time.time() if at is None else at)
        with self.database.writing() as connection:
            self._must_know(connection, run)
            connection.execute(update(schema.runs).where(schema.runs.c.run == run).values(finished=ended))

    def seen(self, client: str, at: float) -> None:
        """A sign of life of a client, on a roster or not."""
        check_client(client)
        at = moment("at", at)
        with self.database.writing() as connection:
            connection.execute(_NEW_CLIENT, {"client": client})
            connection.execute(_sighted(at).where(schema.clients.c.client == client))

    def write_round(
        self,
        run: str,
        round: int,
        began: float,
        ended: float,
        deadline: float | None,
        rows: Sequence[Presence],
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Enters a round; an earlier entry of the same round is replaced. Who was here is also `seen` at its end."""
        began, ended = moment("began", began), moment("ended", ended)
        checked = checked_rows(rows)
        key = {"run": run, "round": round_number(round)}
        # A clock that was set back in the round may not stop the training.
        times = {"began": began, "ended": max(began, ended), "deadline": finite(deadline)}
        measured = [
            {**key, "name": check_client(name, "metrics"), "value": finite(value)}
            for name, value in (metrics or {}).items()
        ]
        with self.database.writing() as connection:
            self._must_know(connection, run)
            for table in (schema.presence, schema.metrics, schema.rounds):
                connection.execute(delete(table).where(*_is(table, key)))
            connection.execute(insert(schema.rounds).values(**key, **times))
            if checked:
                connection.execute(_NEW_CLIENT, [{"client": row["client"]} for row in checked])
                connection.execute(insert(schema.presence), [{**key, **row} for row in checked])
            if measured:
                connection.execute(insert(schema.metrics), measured)
            here = select(schema.presence.c.client).where(*_is(schema.presence, key), schema.presence.c.here)
            connection.execute(_sighted(times["ended"]).where(schema.clients.c.client.in_(here)))

    def presence(self, run: str) -> tuple[np.ndarray, list[str], np.ndarray]:
        """(round numbers [T], clients of the roster by number, who was here: bool [T, N])."""
        roster, rows = schema.roster.c, schema.presence.c
        on_roster = (rows.run == roster.run) & (rows.client == roster.client)
        query = select(rows.round, roster.number).join_from(schema.presence, schema.roster, on_roster)
        with self.database.reading() as connection:
            clients = [entry.client for entry in self._roster(connection, run)]
            order = select(schema.rounds.c.round).where(schema.rounds.c.run == run).order_by(schema.rounds.c.round)
            rounds = np.array(connection.execute(order).scalars().all(), np.int64)
            pairs = connection.execute(query.where(rows.run == run, rows.here)).all()
        where = np.array([tuple(pair) for pair in pairs], np.int64).reshape(-1, 2)
        matrix = np.zeros((len(rounds), len(clients)), bool)
        matrix[np.searchsorted(rounds, where[:, 0]), where[:, 1]] = True
        return rounds, clients, matrix

    def roster(self, run: str) -> list[Enrolled]:
        """The run's clients, by number."""
        with self.database.reading() as connection:
            return self._roster(connection, run)

    def last_round(self, run: str) -> int | None:
        """The highest round that is written; None where there is none yet."""
        with self.database.reading() as connection:
            self._must_know(connection, run)
            return connection.execute(
                select(func.max(schema.rounds.c.round)).where(schema.rounds.c.run == run)
            ).scalar()

    def runs(self) -> list[Run]:
        """All runs, the first begun first."""
        columns = schema.runs.c
        counted = select(func.count()).where(schema.rounds.c.run == columns.run).scalar_subquery()
        query = select(columns.run, columns.method, columns.config, columns.started, columns.finished, counted)
        with self.database.reading() as connection:
            found = connection.execute(query).all()
        made = [Run(row[0], row[1], json.loads(row[2]), row[3], row[4], row[5]) for row in found]
        return sorted(made, key=lambda one: (one.started, one.run))

    def status(self, run: str, recent: int = 20) -> Status:
        """The run as tables of plain values: per client, and per round."""
        with self.database.reading() as connection:
            self._must_know(connection, run)
            return read_status(connection, run, recent)

    def _roster(self, connection: Connection, run: str) -> list[Enrolled]:
        self._must_know(connection, run)
        columns = schema.roster.c
        query = select(columns.client, columns.number, columns.examples, columns.importance)
        rows = connection.execute(query.where(columns.run == run).order_by(columns.number))
        return [Enrolled(*row) for row in rows]

    def _must_know(self, connection: Connection, run: str) -> None:
        if connection.execute(select(schema.runs.c.run).where(schema.runs.c.run == run)).first() is None:
            known = sorted(connection.execute(select(schema.runs.c.run)).scalars())
            some = ", ".join(map(repr, known[:5])) + (", …" if len(known) > 5 else "") or "none"
            raise FedtideError(f"ledger {self.database.name}: there is no run {run!r} (its runs: {some})")

    def _same(self, connection: Connection, run: str, known: str, method: str, rows: list[dict[str, Any]]) -> None:
        """Raises unless method and roster are those that the run began with."""
        what = f"ledger {self.database.name}: run {run!r}"
        if known != method:
            raise FedtideError(f"{what} is of method {known}, not {method}: choose another name")
        before = [entry._asdict() for entry in self._roster(connection, run)]
        if len(before) != len(rows):
            raise FedtideError(f"{what} began with {len(before)} clients, not {len(rows)}: choose another name")
        for old, new in zip(before, rows, strict=True):
            for field, value in old.items():
                if value != new[field]:
                    differ = f"{field} of client {old['number']} was {value!r}, not {new[field]!r}"
                    raise FedtideError(f"{what} began with another roster ({differ}): choose another name")


def _is(table: Table, key: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(table.c[name] == value for name, value in key.items())


def _sighted(at: float) -> Any:
    """The first and last sight, widened to a time."""
    first, last = schema.clients.c.first_seen, schema.clients.c.last_seen
    return update(schema.clients).values(
        first_seen=case((or_(first.is_(None), first > at), at), else_=first),
        last_seen=case((or_(last.is_(None), last < at), at), else_=last),
    )
