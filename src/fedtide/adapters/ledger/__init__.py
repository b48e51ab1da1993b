"""The ledger: each run's roster, and the availability of its clients in every round; in SQLite or PostgreSQL.

The server writes it after every round. Estimators, `fedtide deploy status` and, as an availability log,
`fedtide fleet fit` read it. Times are seconds since 1970 (UTC). Tables:

    fedtide_ledger(version)
    runs(run, method, config, started, finished)            config is JSON; finished is NULL until the run is
    clients(client, first_seen, last_seen)                  NULL if never connected
    roster(run, client, number, examples, importance)       number is 0 … N−1
    rounds(run, round, began, ended, deadline)
    metrics(run, round, name, value)
    presence(run, round, client, here, reason, loss, weight, included, update_norm, latency)

A client of the roster without a row in a round was not available. Values that are not finite (or beyond ±1e100) are
NULL. `reason` says why a client was not available or, if it was, why its update was not used: no-reply, error, expired,
late, not-listed or refused, followed by `:why` if more is known.

Views for readers that use only SQL (`end` is a reserved word: quote it):

    availability_log(device, start, "end", run)             available from start to end
    availability_windows(device, start, "end", run)         observed from start to end
    round_windows(run, round, began, until, position, window_number)

A client that was available in a round counts as available until the next round begins. If the next round begins much
later than usual (four times the run's median interval), or the clock was set back, the server was not observing in
between, and the window ends with the earlier round.
"""

try:
    import sqlalchemy as _  # noqa: F401
except ModuleNotFoundError as _missing:
    from fedtide.errors import FedtideError

    raise FedtideError("the ledger needs SQLAlchemy: pip install 'fedtide[flower]'") from _missing

from fedtide.adapters.ledger.book import Ledger
from fedtide.adapters.ledger.opening import NoLedger
from fedtide.adapters.ledger.records import ClientInRound, Enrolled, LedgerRun, check_client
from fedtide.adapters.ledger.replay import estimated
from fedtide.adapters.ledger.status import ClientStatus, RoundStatus, Status

__all__ = [
    "ClientInRound",
    "ClientStatus",
    "Enrolled",
    "Ledger",
    "LedgerRun",
    "NoLedger",
    "RoundStatus",
    "Status",
    "check_client",
    "estimated",
]
