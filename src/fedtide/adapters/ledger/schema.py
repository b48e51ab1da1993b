"""Tables and views of a ledger, the same in SQLite and PostgreSQL."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    text,
)

from fedtide.adapters.ledger.records import LONGEST, LONGEST_REASON

VERSION = 1
UNUSUAL = 4  # a round that begins so many times the median distance after the one before: nobody looked in between

tables = MetaData()


def _run() -> Column:
    return Column("run", String(LONGEST), ForeignKey("runs.run"), primary_key=True)


def _client() -> Column:
    return Column("client", String(LONGEST), ForeignKey("clients.client"), primary_key=True)


def _of_round() -> tuple[Column, Column, ForeignKeyConstraint]:
    names = ["run", "round"]
    key = ForeignKeyConstraint(names, ["rounds.run", "rounds.round"], ondelete="CASCADE")
    run = Column("run", String(LONGEST), primary_key=True)
    return run, Column("round", BigInteger, primary_key=True, autoincrement=False), key


ledger = Table("fedtide_ledger", tables, Column("version", Integer, nullable=False))

runs = Table(
    "runs",
    tables,
    Column("run", String(LONGEST), primary_key=True),
    Column("method", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("finished", Double),
)

clients = Table(
    "clients",
    tables,
    Column("client", String(LONGEST), primary_key=True),
    Column("first_seen", Double),
    Column("last_seen", Double),
)

roster = Table(
    "roster",
    tables,
    _run(),
    _client(),
    Column("number", BigInteger, nullable=False),
    Column("examples", BigInteger, nullable=False),
    Column("importance", Double, nullable=False),
    UniqueConstraint("run", "number"),
)

rounds = Table(
    "rounds",
    tables,
    _run(),
    Column("round", BigInteger, primary_key=True, autoincrement=False),
    Column("began", Double, nullable=False),
    Column("ended", Double, nullable=False),
    Column("deadline", Double),
)

metrics = Table(
    "metrics",
    tables,
    *_of_round(),
    Column("name", String(LONGEST), primary_key=True),
    Column("value", Double),
)

presence = Table(
    "presence",
    tables,
    *_of_round(),
    _client(),
    Column("here", Boolean, nullable=False),
    Column("reason", String(LONGEST_REASON)),
    Column("loss", Double),
    Column("weight", Double),
    Column("included", Boolean, nullable=False),
    Column("update_norm", Double),
    Column("latency", Double),
    sqlite_with_rowid=False,  # rows lie in the order of the key: half the size
)

_VIEWS = (
    f"""
create view round_stretches as
with spaced as (
  select run, round, began, ended, lead(began) over (partition by run order by round) as next_began from rounds
), ranked as (
  select run, next_began - began as distance,
         row_number() over (partition by run order by next_began - began) as place,
         count(*) over (partition by run) as total
  from spaced where next_began > began
), usual as (
  select run, distance from ranked where place = (total + 1) / 2
), judged as (
  select s.run, s.round, s.began, s.ended, s.next_began,
         case when s.next_began > s.began and s.next_began - s.began <= {UNUSUAL} * u.distance
              then 1 else 0 end as goes_on
  from spaced s left join usual u on u.run = s.run
)
select run, round, began,
       case when goes_on = 1 then next_began else ended end as until,
       row_number() over (partition by run order by round) as place,
       coalesce(sum(1 - goes_on) over (
         partition by run order by round rows between unbounded preceding and 1 preceding), 0) as stretch
from judged
""",
    """
create view availability_log as
with here as (
  select p.run, p.client, s.began, s.until, s.stretch,
         s.place - row_number() over (partition by p.run, p.client order by p.round) as island
  from presence p
  join round_stretches s on s.run = p.run and s.round = p.round
  join roster r on r.run = p.run and r.client = p.client
  where p.here
)
select client as device, min(began) as start, max(until) as "end", run
from here group by run, client, stretch, island
""",
    """
create view availability_windows as
with stretches as (
  select run, min(began) as start, max(until) as "end" from round_stretches group by run, stretch
)
select r.client as device, s.start, s."end", s.run from stretches s join roster r on r.run = s.run
""",
)


def create(connection: Connection) -> None:
    """All of it, in the transaction of the connection."""
    tables.create_all(connection)
    for view in _VIEWS:
        connection.execute(text(view))
    connection.execute(insert(ledger).values(version=VERSION))
