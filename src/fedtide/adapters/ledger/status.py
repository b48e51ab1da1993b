"""Statistics of a run, from its ledger."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from fedtide.adapters.ledger.records import kind_of

_HERE, _INCLUDED = "sum(case when p.here then 1 else 0 end)", "sum(case when p.included then 1 else 0 end)"

_CLIENTS = text(f"""
with counted as (
  select p.client, {_HERE} as here, {_INCLUDED} as included,
         avg(case when p.included then p.weight end) as weight
  from presence p where p.run = :run group by p.client
)
select c.client, r.number, r.examples, r.importance, c.first_seen, c.last_seen,
       coalesce(n.here, 0), coalesce(n.included, 0), n.weight
from clients c left join roster r on r.client = c.client and r.run = :run left join counted n on n.client = c.client
where r.run is not null or n.client is not null""")

_REASONS = text("""
select client, here, reason, count(*) from presence where run = :run and reason is not null
group by client, here, reason""")

_LATENCIES = text("""
select client, avg(latency) from (
  select client, latency, row_number() over (partition by client order by latency) as place,
         count(*) over (partition by client) as total
  from presence where run = :run and latency is not null
) ranked where place in ((total + 1) / 2, (total + 2) / 2) group by client""")

_ROUNDS = text(f"""
select o.round, o.began, o.ended, o.deadline, coalesce({_HERE}, 0), coalesce({_INCLUDED}, 0)
from rounds o
left join roster r on r.run = o.run
left join presence p on p.run = o.run and p.round = o.round and p.client = r.client
where o.run = :run group by o.round, o.began, o.ended, o.deadline order by o.round""")

_METRICS = text("select round, name, value from metrics where run = :run")
_RUN = text("select method, started, finished from runs where run = :run")


class ClientStatus(NamedTuple):
    """A client of the run; one that is not on the roster has no number."""

    client: str
    number: int | None
    examples: int | None
    importance: float | None
    first_seen: float | None
    last_seen: float | None
    available: float  # share of all rounds in which it was available, 0 … 1
    included: float  # share of all rounds in which its update was used
    weight: float | None  # mean where its update was used
    latency: float | None  # median, seconds
    away: dict[str, int]  # rounds in which it was not available, by kind of reason
    turned_down: dict[str, int]  # … in which it was, but its update was not used


class RoundStatus(NamedTuple):
    round: int
    began: float
    ended: float
    deadline: float | None
    available: int  # available clients of the roster
    included: int
    metrics: dict[str, float | None]


class Status(NamedTuple):
    run: str
    method: str
    started: float
    finished: float | None
    clients: list[ClientStatus]  # by number, then clients that are not on the roster by name
    rounds: list[RoundStatus]  # by round


def read_status(connection: Connection, run: str) -> Status:
    def rows_of(query: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(query, {"run": run})]

    metrics: dict[int, dict[str, float | None]] = defaultdict(dict)
    for number, name, value in sorted(rows_of(_METRICS)):
        metrics[number][name] = value
    rounds = [RoundStatus(*row[:6], metrics=metrics.get(row[0], {})) for row in rows_of(_ROUNDS)]
    latency = dict(rows_of(_LATENCIES))
    reasons: Mapping[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for client, here, reason, count in rows_of(_REASONS):
        reasons[client, bool(here)][kind_of(reason)] += count
    clients, every = [], max(len(rounds), 1)
    for client, *entry, here, included, weight in rows_of(_CLIENTS):
        shares = here / every, included / every
        kinds = (dict(sorted(reasons[client, available].items())) for available in (False, True))
        clients.append(ClientStatus._make((client, *entry, *shares, weight, latency.get(client), *kinds)))
    clients.sort(key=lambda one: (one.number is None, one.number or 0, one.client))
    method, started, finished = rows_of(_RUN)[0]
    return Status(run, method, started, finished, clients, rounds)
