"""The ledger: who was on the roster, who was there in each round, and why not; in SQLite, or PostgreSQL by URL.

Written by the server after every round, read by the estimators, by `fedtide deploy status` and, as a log of
availability, by `fedtide fleet fit`. Times are seconds since 1970 (UTC). Tables, all of plain columns:

    fedtide_ledger(version)
    runs(run, method, config, started, finished)            config is JSON; finished is NULL until it is
    clients(client, first_seen, last_seen)                  NULL before the first sight
    roster(run, client, number, examples, importance)       number is 0 … N−1
    rounds(run, round, began, ended, deadline)
    metrics(run, round, name, value)
    presence(run, round, client, here, reason, loss, weight, included, update_norm, latency)

A client of the roster without a row in a round was not there. What is not finite (or beyond ±1e100) is NULL. `reason`
says why a client was away or, where it was here, why its update was not used: no-reply, error, expired, late,
not-listed or refused, each with `:why` behind it where more is known.

Views, for readers that have SQL and nothing else (`end` is a reserved word: quote it):

    availability_log(device, start, "end", run)             there from start to end
    availability_windows(device, start, "end", run)         observed from start to end; outside nothing is known
    round_stretches(run, round, began, until, place, stretch)

A client that was here in a round counts as there until the next round began. Where the next one began much later than
usual (four times the run's median distance), or the clock went back, the server was not looking: the stretch ends
with the round before.
"""

try:
    import sqlalchemy as _  # noqa: F401
except ModuleNotFoundError as _missing:
    from fedtide.errors import FedtideError

    raise FedtideError("the ledger needs SQLAlchemy: pip install 'fedtide[flower]'") from _missing

from fedtide.adapters.ledger.book import Ledger
from fedtide.adapters.ledger.records import Enrolled, Presence, Run, check_client
from fedtide.adapters.ledger.replay import estimated
from fedtide.adapters.ledger.status import ClientStatus, RoundStatus, Status

__all__ = [
    "ClientStatus",
    "Enrolled",
    "Ledger",
    "Presence",
    "RoundStatus",
    "Run",
    "Status",
    "check_client",
    "estimated",
]
