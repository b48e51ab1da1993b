"""Tables and views of a ledger, the same in SQLite and PostgreSQL."""

from importlib.resources import files

import sqlalchemy as sql
from sqlalchemy import BigInteger, Column, Double, String, Table, Text

from fedtide.adapters.ledger.records import LONGEST, LONGEST_REASON

VERSION = 1

tables = sql.MetaData()


def _id(name: str, owner: str = "") -> Column:
    """An id in the primary key; with `owner`, a foreign key to that table."""
    return Column(name, String(LONGEST), *([sql.ForeignKey(f"{owner}.{name}")] if owner else []), primary_key=True)


def _of_round() -> tuple[Column, Column, sql.ForeignKeyConstraint]:
    names = ["run", "round"]
    return _id("run"), _round(), sql.ForeignKeyConstraint(names, [f"rounds.{n}" for n in names], ondelete="CASCADE")


def _round() -> Column:
    return Column("round", BigInteger, primary_key=True, autoincrement=False)


ledger = Table("fedtide_ledger", tables, Column("version", sql.Integer, nullable=False))

runs = Table(
    "runs",
    tables,
    _id("run"),
    Column("method", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("finished", Double),
)

clients = Table("clients", tables, _id("client"), Column("first_seen", Double), Column("last_seen", Double))

roster = Table(
    "roster",
    tables,
    _id("run", "runs"),
    _id("client", "clients"),
    Column("number", BigInteger, nullable=False),
    Column("examples", BigInteger, nullable=False),
    Column("importance", Double, nullable=False),
    sql.UniqueConstraint("run", "number"),
)

rounds = Table(
    "rounds",
    tables,
    _id("run", "runs"),
    _round(),
    Column("began", Double, nullable=False),
    Column("ended", Double, nullable=False),
    Column("deadline", Double),
)

metrics = Table("metrics", tables, *_of_round(), _id("name"), Column("value", Double))

presence = Table(
    "presence",
    tables,
    *_of_round(),
    _id("client", "clients"),
    Column("here", sql.Boolean, nullable=False),
    Column("reason", String(LONGEST_REASON)),
    Column("loss", Double),
    Column("weight", Double),
    Column("included", sql.Boolean, nullable=False),
    Column("update_norm", Double),
    Column("latency", Double),
    sqlite_with_rowid=False,  # rows are stored in the order of the key, in half the space
)


def create(connection: sql.Connection) -> None:
    """Creates tables and views, in the transaction of the connection."""
    tables.create_all(connection)
    for view in files("fedtide.adapters.ledger").joinpath("views.sql").read_text("utf-8").split(";\n")[:-1]:
        connection.execute(sql.text(view))
    connection.execute(sql.insert(ledger).values(version=VERSION))
