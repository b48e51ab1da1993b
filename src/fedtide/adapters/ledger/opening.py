"""Opens a ledger's database, and turns its errors into one line."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select
from sqlalchemy import text as sql_text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from fedtide.adapters.ledger import schema
from fedtide.errors import FedtideError, InvalidInput

_WRITES = "fedtide_writes"
_SAVED = "; its earlier content is unchanged"


class NoLedger(FedtideError):
    """There is no ledger yet: no file, or an empty database."""


class Database:
    """A SQLite file or a PostgreSQL database with the ledger's tables."""

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
        """A connection with a consistent view of the database."""
        with self._explained("read", ""), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, which is committed completely or not at all."""
        if self.readonly:
            raise FedtideError(f"ledger {self.name}: it was opened for reading only")
        with self._explained("written", _SAVED), self.engine.connect() as connection:
            connection = connection.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    def _sqlite(self, path: Path, patience: float) -> Engine:
        if self.readonly and not path.is_file():
            raise NoLedger(f"ledger {path}: there is no such file")
        if not self.readonly:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FedtideError(f"ledger {path}: its folder cannot be created: {error.strerror}") from error
        uri = f"file:{quote(str(path.absolute()))}?mode={'ro' if self.readonly else 'rwc'}"

        def open_file(uri: str) -> sqlite3.Connection:
            # isolation_level None: `_begin` begins transactions, not the driver
            connection = sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("pragma foreign_keys = on")
                connection.execute("pragma synchronous = full")  # committed data survive a power failure
            except sqlite3.Error:
                connection.close()
                raise
            return connection

        def connect() -> sqlite3.Connection:
            try:
                return open_file(uri)
            except sqlite3.OperationalError:
                # SQLite cannot create its shared memory in a read-only folder. Without a log there is no writer.
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
        # pool_pre_ping reconnects if the server was restarted.
        engine = create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": max(2, round(patience))})

        def wait(connection: Connection) -> None:
            connection.exec_driver_sql(f"set local lock_timeout = {round(1000 * patience)}")

        event.listen(engine, "begin", wait)
        return engine

    def _prepare(self, patience: float) -> None:
        with self.reading() as connection:
            exists = self._is_ledger(connection)
        if exists:
            return
        if self.readonly:
            raise NoLedger(f"ledger {self.name}: the database is empty")
        if self.engine.dialect.name == "sqlite":
            self._write_ahead(patience)
        with self.writing() as connection:
            if connection.dialect.name == "postgresql":  # only one process creates the tables
                connection.execute(sql_text("select pg_advisory_xact_lock(4034150)"))
            if not self._is_ledger(connection):
                schema.create(connection)

    def _is_ledger(self, connection: Connection) -> bool:
        """False if the database is empty; raises if it contains something else, or another version."""
        names = set(inspect(connection).get_table_names())
        if not names:
            return False
        if schema.ledger.name not in names:
            some = ", ".join(sorted(names)[:3])
            raise FedtideError(f"ledger {self.name}: this database holds something else (its tables: {some})")
        version = connection.execute(select(schema.ledger.c.version)).scalar()
        if version != schema.VERSION:
            known = f"supported: {schema.VERSION}"
            raise FedtideError(f"ledger {self.name}: written by another version of Fedtide (schema {version}; {known})")
        return True

    def _write_ahead(self, patience: float) -> None:
        """Enables write-ahead logging: readers and the writer do not block each other. The file stores the setting."""
        until = time.monotonic() + patience
        while True:
            try:
                with self._explained("written", _SAVED), self.engine.connect() as connection:
                    connection.connection.cursor().execute("pragma journal_mode = wal")
                return
            except FedtideError as error:  # by another process that does the same; this pragma does not wait
                reason = getattr(error.__cause__, "orig", error.__cause__)
                code = getattr(reason, "sqlite_errorcode", 0) & 0xFF  # the primary code
                if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    @contextmanager
    def _explained(self, done: str, then: str) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            reason = error.orig if isinstance(error, DBAPIError) else error
            raise FedtideError(f"ledger {self.name}: cannot be {done}: {_line(reason)}{then}") from error


def _begin(connection: Connection) -> None:
    """A writer locks the database at the beginning of its transaction, so that it does not have to wait later."""
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _url(place: str | os.PathLike[str]) -> URL:
    allowed = "a file, or postgresql://user@host/database"
    text = os.fspath(place)
    if "://" not in text:
        if not text or "\0" in text:
            raise InvalidInput("ledger", text, allowed)
        return URL.create("sqlite", database=text)
    kind = text.split(":", 1)[0].split("+")[0]
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise InvalidInput("ledger", f"{kind}://…", allowed) from error  # it may contain a password
    if kind in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return URL.create("sqlite", database=url.database)
    raise InvalidInput("ledger", url.render_as_string(hide_password=True), allowed)


def _line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
