"""Writing and reading a ledger."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, case, delete, func, insert, or_, select, text, update

from fedtide.adapters.ledger import records, schema
from fedtide.adapters.ledger.opening import Database
from fedtide.adapters.ledger.status import Status, read_status
from fedtide.errors import FedtideError, whole

_NEW_CLIENT = text("insert into clients (client) values (:client) on conflict do nothing")


class Ledger:
    """The ledger at a path (SQLite) or URL (PostgreSQL, or sqlite:///path), which is created if it does not exist.

    Every call is one transaction, written completely or not at all, even if the process is killed. Several processes
    may read while one writes. `patience`: seconds to wait for a lock. Failures (disk full, locked, no database) are
    `FedtideError`s of one line that name the file; the call can then be repeated.
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
        roster: Sequence[records.Enrolled],
        at: float | None = None,
    ) -> None:
        """Records a run and its roster. If it exists with the same roster, it resumes with this configuration."""
        records.check_client(run, "run")
        rows = records.checked_roster(roster)
        settings = json.dumps(dict(config), sort_keys=True, default=str)
        with self.database.writing() as connection:
            known = connection.scalar(select(schema.runs.c.method).filter_by(run=run))
            if known is not None:
                self._check_unchanged(connection, run, known, method, rows)
                connection.execute(update(schema.runs).filter_by(run=run).values(config=settings, finished=None))
                return
            began = records.moment("at", time.time() if at is None else at)
            connection.execute(insert(schema.runs).values(run=run, method=method, config=settings, started=began))
            connection.execute(_NEW_CLIENT, [{"client": client} for client in sorted(row.client for row in rows)])
            connection.execute(insert(schema.roster), [{"run": run, **row._asdict()} for row in rows])

    def finish_run(self, run: str, at: float | None = None) -> None:
        ended = records.moment("at", time.time() if at is None else at)
        with self.database.writing() as connection:
            self._check_run(connection, run)
            connection.execute(update(schema.runs).filter_by(run=run).values(finished=ended))

    def seen(self, client: str, at: float) -> None:
        """Records that a client, on a roster or not, was connected at this time."""
        records.check_client(client)
        at = records.moment("at", at)
        with self.database.writing() as connection:
            connection.execute(_NEW_CLIENT, {"client": client})
            connection.execute(_extend_seen(at).filter_by(client=client))

    def write_round(
        self,
        run: str,
        round: int,
        began: float,
        ended: float,
        deadline: float | None,
        rows: Sequence[records.ClientInRound],
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Records a round, or replaces it; available clients are also `seen` at its end."""
        began, ended = records.moment("began", began), records.moment("ended", ended)
        checked = records.checked_rows(rows)
        key = {"run": run, "round": whole("round", round, 0, records.LARGEST)}
        # A clock that was set back during the round must not stop the training.
        times = {"began": began, "ended": max(began, ended), "deadline": records.finite(deadline)}
        named = {
            records.check_client(name, "metrics"): records.finite(value) for name, value in (metrics or {}).items()
        }
        measured = [{**key, "name": name, "value": value} for name, value in named.items()]
        with self.database.writing() as connection:
            self._check_run(connection, run)
            for table in (schema.presence, schema.metrics, schema.rounds):
                connection.execute(delete(table).filter_by(**key))
            connection.execute(insert(schema.rounds).values(**key, **times))
            if checked:
                connection.execute(_NEW_CLIENT, [{"client": row.client} for row in checked])
                connection.execute(insert(schema.presence), [{**key, **row._asdict()} for row in checked])
            if measured:
                connection.execute(insert(schema.metrics), measured)
            here = select(schema.presence.c.client).filter_by(**key, here=True)
            connection.execute(_extend_seen(times["ended"]).where(schema.clients.c.client.in_(here)))

    def presence(self, run: str) -> tuple[np.ndarray, list[str], np.ndarray]:
        """(round numbers [T], clients of the roster by number, their availability: bool [T, N])."""
        roster, rows = schema.roster.c, schema.presence.c
        on_roster = (rows.run == roster.run) & (rows.client == roster.client)
        query = select(rows.round, roster.number).join_from(schema.presence, schema.roster, on_roster)
        with self.database.reading() as connection:
            clients = [entry.client for entry in self._roster(connection, run)]
            order = select(schema.rounds.c.round).filter_by(run=run).order_by("round")
            rounds = np.array(connection.execute(order).scalars().all(), np.int64)
            pairs = connection.execute(query.where(rows.run == run, rows.here)).all()
        where = np.array([tuple(pair) for pair in pairs], np.int64).reshape(-1, 2)
        matrix = np.zeros((len(rounds), len(clients)), bool)
        matrix[np.searchsorted(rounds, where[:, 0]), where[:, 1]] = True
        return rounds, clients, matrix

    def roster(self, run: str) -> list[records.Enrolled]:
        """The run's clients, by number."""
        with self.database.reading() as connection:
            return self._roster(connection, run)

    def rows(self, run: str, first: int = 0) -> dict[int, dict[str, records.ClientInRound]]:
        """The rows of this and later rounds, by round and client."""
        columns = schema.presence.c
        query = select(columns.round, *(columns[name] for name in records.ClientInRound._fields)).filter_by(run=run)
        rows: dict[int, dict[str, records.ClientInRound]] = {}
        with self.database.reading() as connection:
            for number, *row in connection.execute(query.where(columns.round >= first).order_by("round", "client")):
                rows.setdefault(number, {})[row[0]] = records.ClientInRound(*row)
        return rows

    def last_round(self, run: str) -> int | None:
        """The last recorded round; None if there is none."""
        with self.database.reading() as connection:
            self._check_run(connection, run)
            return connection.scalar(select(func.max(schema.rounds.c.round)).where(schema.rounds.c.run == run))

    def runs(self) -> list[records.LedgerRun]:
        """All runs, by the time of their beginning."""
        columns = schema.runs.c
        counted = select(func.count()).where(schema.rounds.c.run == columns.run).scalar_subquery()
        query = select(columns.run, columns.method, columns.config, columns.started, columns.finished, counted)
        with self.database.reading() as connection:
            rows = connection.execute(query).all()
        made = [records.LedgerRun(name, method, json.loads(config), *rest) for name, method, config, *rest in rows]
        return sorted(made, key=lambda one: (one.started, one.run))

    def status(self, run: str) -> Status:
        """Statistics of the run, per client and per round."""
        with self.database.reading() as connection:
            self._check_run(connection, run)
            return read_status(connection, run)

    def _roster(self, connection: Connection, run: str) -> list[records.Enrolled]:
        self._check_run(connection, run)
        query = select(*(schema.roster.c[name] for name in records.Enrolled._fields)).filter_by(run=run)
        return [records.Enrolled(*row) for row in connection.execute(query.order_by("number"))]

    def _check_run(self, connection: Connection, run: str) -> None:
        if connection.scalar(select(schema.runs.c.run).filter_by(run=run)) is None:
            known = sorted(connection.execute(select(schema.runs.c.run)).scalars())
            some = ", ".join(map(repr, known[:5])) + (", …" if len(known) > 5 else "") or "none"
            raise FedtideError(f"ledger {self.database.name}: there is no run {run!r} (its runs: {some})")

    def _check_unchanged(
        self, connection: Connection, run: str, known: str, method: str, roster: list[records.Enrolled]
    ) -> None:
        """Raises if the method or the roster differs from the beginning of the run."""
        what = f"ledger {self.database.name}: run {run!r}"
        if known != method:
            raise FedtideError(f"{what} is of method {known}, not {method}: choose another name")
        before = self._roster(connection, run)
        if len(before) != len(roster):
            raise FedtideError(f"{what} began with {len(before)} clients, not {len(roster)}: choose another name")
        for old, new in zip(before, roster, strict=True):
            for field, was, now in zip(records.Enrolled._fields, old, new, strict=True):
                if was != now:
                    differ = f"{field} of client {old.number} was {was!r}, not {now!r}"
                    raise FedtideError(f"{what} began with another roster ({differ}): choose another name")


def _extend_seen(at: float) -> Any:
    """Extends the times between first_seen and last_seen to include a time."""
    first, last = schema.clients.c.first_seen, schema.clients.c.last_seen
    return update(schema.clients).values(
        first_seen=case((or_(first.is_(None), first > at), at), else_=first),
        last_seen=case((or_(last.is_(None), last < at), at), else_=last),
    )
