"""A run at a glance, from its ledger."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

_HERE, _INCLUDED = "sum(case when p.here then 1 else 0 end)", "sum(case when p.included then 1 else 0 end)"

_CLIENTS = text(f"""
select p.client, {_HERE}, {_INCLUDED}, avg(case when p.included then p.weight end)
from presence p where p.run = :run group by p.client""")

_RECENT = text(f"""
select p.client, {_HERE} from presence p
where p.run = :run and p.round in (select round from rounds where run = :run order by round desc limit :recent)
group by p.client""")

_REASONS = text("""
select client, here, reason, count(*) from presence where run = :run and reason is not null
group by client, here, reason""")

_LATENCIES = text("""
select client, avg(latency) from (
  select client, latency, row_number() over (partition by client order by latency) as place,
         count(*) over (partition by client) as total
  from presence where run = :run and latency is not null
) ranked where place in ((total + 1) / 2, (total + 2) / 2) group by client""")

_SIGHTS = text("""
select c.client, c.first_seen, c.last_seen, r.number, r.examples, r.importance
from clients c left join roster r on r.client = c.client and r.run = :run
where r.run is not null or c.client in (select client from presence where run = :run)""")

_ROUNDS = text(f"""
select o.round, o.began, o.ended, o.deadline, coalesce({_HERE}, 0), coalesce({_INCLUDED}, 0)
from rounds o
left join roster r on r.run = o.run
left join presence p on p.run = o.run and p.round = o.round and p.client = r.client
where o.run = :run group by o.round, o.began, o.ended, o.deadline order by o.round""")

_METRICS = text("select round, name, value from metrics where run = :run")
_RUN = text("select method, started, finished from runs where run = :run")


class ClientStatus(NamedTuple):
    """A client of the roster; one that is not on it has no number."""

    client: str
    number: int | None
    examples: int | None
    importance: float | None
    first_seen: float | None
    last_seen: float | None
    here: float  # share of all rounds, 0 … 1
    here_recently: float  # … of the last 20
    included: float  # share of all rounds in which its update was used
    weight: float | None  # mean where its update was used
    latency: float | None  # median, seconds
    away: dict[str, int]  # rounds by kind of reason, where it was not here
    turned_down: dict[str, int]  # … where it was, and its update was not used


class RoundStatus(NamedTuple):
    round: int
    began: float
    ended: float
    deadline: float | None
    available: int  # clients of the roster that were here
    included: int
    metrics: dict[str, float | None]


class Status(NamedTuple):
    run: str
    method: str
    started: float
    finished: float | None
    clients: list[ClientStatus]  # by number; then those that are not on the roster, by name
    rounds: list[RoundStatus]  # by round


def read_status(connection: Connection, run: str, recent: int) -> Status:
    of_run = {"run": run}

    def ask(query: Any, **more: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(query, {**of_run, **more})]

    metrics: dict[int, dict[str, float | None]] = defaultdict(dict)
    for number, name, value in sorted(ask(_METRICS)):
        metrics[number][name] = value
    rounds = [RoundStatus(*row[:6], metrics=metrics.get(row[0], {})) for row in ask(_ROUNDS)]
    totals = {client: rest for client, *rest in ask(_CLIENTS)}
    lately = dict(ask(_RECENT, recent=recent))
    latency = dict(ask(_LATENCIES))
    reasons: Mapping[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for client, here, reason, count in ask(_REASONS):
        reasons[client, bool(here)][reason.partition(":")[0]] += count
    clients = []
    for client, first, last, number, examples, importance in ask(_SIGHTS):
        here, included, weight = totals.get(client, (0, 0, None))
        clients.append(
            ClientStatus(
                client=client,
                number=number,
                examples=examples,
                importance=importance,
                first_seen=first,
                last_seen=last,
                here=here / max(len(rounds), 1),
                here_recently=lately.get(client, 0) / max(min(len(rounds), recent), 1),
                included=included / max(len(rounds), 1),
                weight=weight,
                latency=latency.get(client),
                away=dict(sorted(reasons[client, False].items())),
                turned_down=dict(sorted(reasons[client, True].items())),
            )
        )
    clients.sort(key=lambda one: (one.number is None, one.number or 0, one.client))
    method, started, finished = ask(_RUN)[0]
    return Status(run, method, started, finished, clients, rounds)
