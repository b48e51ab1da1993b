"""How a ledger's database is opened, and how its errors are told in one line."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from fedtide.adapters.ledger import schema
from fedtide.errors import FedtideError, InvalidInput

_WRITES = "fedtide_writes"
_SAVED = "; what it held before is kept"


class Database:
    """A SQLite file or a PostgreSQL database, with the ledger's tables in it."""

    def __init__(self, place: str | os.PathLike[str], readonly: bool, patience: float):
        url = _url(place)
        self.name = url.database or "" if url.drivername == "sqlite" else url.render_as_string(hide_password=True)
        self.readonly = readonly
        if url.drivername == "sqlite":
            self.engine = self._sqlite(Path(self.name), patience)
        else:
            self.engine = self._postgresql(url, patience)
        try:
            self._prepare(patience)
        except BaseException:
            self.engine.dispose()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database throughout."""
        with self._telling("read", ""), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: all that is done in it is written at its end, or none of it."""
        if self.readonly:
            raise FedtideError(f"ledger {self.name}: it was opened for reading only")
        with self._telling("written", _SAVED), self.engine.connect() as connection:
            connection = connection.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    def _sqlite(self, path: Path, patience: float) -> Engine:
        if self.readonly and not path.is_file():
            raise FedtideError(f"ledger {path}: there is no such file")
        if not self.readonly:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FedtideError(f"ledger {path}: its folder cannot be made: {error.strerror}") from error
        uri = f"file:{quote(str(path.absolute()))}?mode={'ro' if self.readonly else 'rwc'}"

        def open_file(uri: str) -> sqlite3.Connection:
            # isolation_level None: transactions begin where `_begin` says, not where the driver guesses
            made = sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)
            try:
                made.execute("pragma foreign_keys = on")
                made.execute("pragma synchronous = full")  # what was committed outlives the machine's power
            except sqlite3.Error:
                made.close()
                raise
            return made

        def connect() -> sqlite3.Connection:
            try:
                return open_file(uri)
            except sqlite3.OperationalError:
                # In a folder that cannot be written to, no shared memory can be made; without a log nobody is writing.
                if not self.readonly or Path(f"{path}-wal").exists():
                    raise
                return open_file(f"{uri}&immutable=1")

        engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
        event.listen(engine, "begin", _begin)
        return engine

    def _postgresql(self, url: URL, patience: float) -> Engine:
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise FedtideError("a ledger in PostgreSQL needs psycopg: pip install 'fedtide[postgres]'") from error
        # A connection that the server closed meanwhile (it was started again) is made anew.
        engine = create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": max(2, round(patience))})

        def wait(connection: Connection) -> None:
            connection.exec_driver_sql(f"set local lock_timeout = {round(1000 * patience)}")

        event.listen(engine, "begin", wait)
        return engine

    def _prepare(self, patience: float) -> None:
        with self.reading() as connection:
            there = self._is_ledger(connection)
        if there:
            return
        if self.readonly:
            raise FedtideError(f"ledger {self.name}: the database is empty")
        if self.engine.dialect.name == "sqlite":
            self._write_ahead(patience)
        with self.writing() as connection:
            if connection.dialect.name == "postgresql":  # one at a time: a second one finds the tables
                connection.execute(text("select pg_advisory_xact_lock(4034150)"))
            if not self._is_ledger(connection):
                schema.create(connection)

    def _is_ledger(self, connection: Connection) -> bool:
        """False where the database is empty; an error where it is of something else, or of another version."""
        names = set(inspect(connection).get_table_names())
        if not names:
            return False
        if schema.ledger.name not in names:
            some = ", ".join(sorted(names)[:3])
            raise FedtideError(f"ledger {self.name}: this database holds something else (its tables: {some})")
        version = connection.execute(select(schema.ledger.c.version)).scalar()
        if version != schema.VERSION:
            known = f"this one knows {schema.VERSION}"
            raise FedtideError(f"ledger {self.name}: it is of another Fedtide (schema {version}; {known})")
        return True

    def _write_ahead(self, patience: float) -> None:
        """Readers do not wait for the writer, nor it for them. Kept in the file, so set only once."""
        until = time.monotonic() + patience
        while True:
            try:
                with self._telling("written", _SAVED), self.engine.connect() as connection:
                    connection.connection.cursor().execute("pragma journal_mode = wal")
                return
            except FedtideError as error:  # another process does the same: this pragma does not wait by itself
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    @contextmanager
    def _telling(self, done: str, then: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise FedtideError(f"ledger {self.name}: cannot be {done}: {_line(error.orig)}{then}") from error
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise FedtideError(f"ledger {self.name}: cannot be {done}: {_line(error)}{then}") from error


def _begin(connection: Connection) -> None:
    """A writer takes its place at once, so that it waits there and not in the middle."""
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _url(place: str | os.PathLike[str]) -> URL:
    allowed = "a file, or postgresql://user@host/database"
    words = os.fspath(place)
    if "://" not in words:
        if not words or "\0" in words:
            raise InvalidInput("ledger", words, allowed)
        return URL.create("sqlite", database=words)
    kind = words.split(":", 1)[0].split("+")[0]
    try:
        url = make_url(words)
    except (ArgumentError, ValueError) as error:
        raise InvalidInput("ledger", f"{kind}://…", allowed) from error  # a password may stand in it
    if kind in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return URL.create("sqlite", database=url.database)
    raise InvalidInput("ledger", url.render_as_string(hide_password=True), allowed)


def _line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
