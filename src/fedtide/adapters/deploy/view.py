"""A deployment at a glance: who is here, who was counted with what weight, how good the model is."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from sqlalchemy import text

from fedtide.adapters.ledger import Ledger, Presence, RoundStatus, Status
from fedtide.errors import FedtideError

_LAST = text(
    "select round, client, here, reason, loss, weight, included, update_norm, latency from presence "
    "where run = :run and round >= :first"
)
_ROUNDS = 10  # whose lines are read: more than can be written between two looks
_LINES = 6  # of what happened, below the table


class Snapshot(NamedTuple):
    """A run as its ledger has it."""

    status: Status
    lines: dict[int, dict[str, Presence]]  # of the last rounds, by client

    @property
    def round(self) -> RoundStatus | None:
        """The last that is written."""
        return self.status.rounds[-1] if self.status.rounds else None

    @property
    def last(self) -> dict[str, Presence]:
        return self.lines.get(self.round.round, {}) if self.round else {}


class Book:
    """The ledger of a run that may not have begun yet."""

    def __init__(self, url: str, run: str):
        self.url, self.run = url, run
        self._ledger: Ledger | None = None

    def __enter__(self) -> "Book":
        return self

    def __exit__(self, *_: object) -> None:
        if self._ledger is not None:
            self._ledger.close()

    def open(self) -> Ledger | None:
        """The ledger; None before there is one."""
        if self._ledger is None:
            try:
                self._ledger = Ledger(self.url, readonly=True, patience=5.0)
            except FedtideError as error:
                if "no such file" in str(error) or "is empty" in str(error):
                    return None
                raise
        return self._ledger

    def look(self) -> Snapshot | None:
        """The run at this moment; None before it begins."""
        ledger = self.open()
        if ledger is None or self.run not in [one.run for one in ledger.runs()]:
            return None
        return snapshot(ledger, self.run)


def snapshot(ledger: Ledger, run: str) -> Snapshot:
    status = ledger.status(run)
    if not status.rounds:
        return Snapshot(status, {})
    with ledger.database.reading() as connection:
        rows = connection.execute(_LAST, {"run": run, "first": status.rounds[-1].round - _ROUNDS + 1}).all()
    lines: dict[int, dict[str, Presence]] = {}
    for number, client, here, reason, loss, weight, included, *rest in sorted(rows, key=lambda row: row[:2]):
        found = Presence(client, bool(here), reason, loss, weight, bool(included), *rest)
        lines.setdefault(number, {})[client] = found
    return Snapshot(status, lines)


def headline(seen: Snapshot | None, rounds: int | None = None) -> str:
    """The run in one line."""
    if seen is None:
        return "clients enrol"
    status, last = seen.status, seen.round
    of = f" of {rounds}" if rounds else ""
    parts = [f"run {status.run}", status.method, f"round {last.round + 1 if last else 0}{of}"]
    if last is not None:
        clients = sum(one.number is not None for one in status.clients)
        parts.append(f"{last.available} of {clients} here, {last.included} counted")
        parts += _measured(status.rounds)
        if last.deadline is not None:
            parts.append(f"deadline {last.deadline:.0f} s")
    if status.finished is not None:
        parts.append("finished")
    return " · ".join(parts)


def round_line(seen: Snapshot, one: RoundStatus, rounds: int) -> str:
    """A round in one line: who was counted with what weight, and why others were not."""
    lines = seen.lines.get(one.round, {})
    counted = [f"{client} ({_number(row.weight, 3)})" for client, row in lines.items() if row.included]
    others = [f"{client}: {row.reason or 'not chosen'}" for client, row in lines.items() if not row.included]
    losses = [row.loss for row in lines.values() if row.loss is not None]
    told = f"loss told by clients {sum(losses) / len(losses):.3f}" if losses else "no losses"
    parts = [f"counted {', '.join(counted) or 'nobody'}", *(_measured([one]) or [told])]
    parts.append(f"{one.ended - one.began:.1f} s")
    here = f"round {one.round + 1} of {rounds}: {one.available} here; "
    return here + "; ".join(parts) + (f"; not: {', '.join(others)}" if others else "")


def client_table(seen: Snapshot, alive: Sequence[bool] | None = None) -> Table:
    """A line for each client. `alive`: which processes run at this moment."""
    now = ("now",) if alive is not None else ()
    shares = ("here", "counted", "seconds", "away or turned down")
    table = _columns("client", *now, "last round", "weight", "loss", *shares)
    for place, one in enumerate(seen.status.clients):
        row = seen.last.get(one.client)
        running = _now(alive, place) if now and one.number is not None else ""
        cells = [
            _outcome(row),
            _number(row.weight, 3) if row and row.included else "–",
            _number(row.loss if row else None, 3),
            f"{one.here:.0%}",
            f"{one.included:.0%}",
            _number(one.latency, 1),
            _reasons(one.away, one.turned_down, row.reason if row else None),
        ]
        table.add_row(escape(one.client), *([running] if now else []), *cells)
    return table


def round_table(seen: Snapshot, most: int = 10) -> Table:
    """The last rounds."""
    table = _columns("round", "here", "counted", "loss", "accuracy", "deadline", "took", "ended")
    for one in seen.status.rounds[-most:]:
        ended = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.ended))
        table.add_row(
            str(one.round + 1),
            str(one.available),
            str(one.included),
            _number(one.metrics.get("loss"), 4),
            _number(one.metrics.get("accuracy"), 4),
            "–" if one.deadline is None else f"{one.deadline:.1f} s",
            f"{one.ended - one.began:.1f} s",
            ended,
        )
    return table


class Plain:
    """What happens as lines, for files and pipes."""

    def __init__(self, rounds: int, evaluate_every: int, done: int = 0):
        self.rounds, self.every = rounds, evaluate_every
        self.console = Console(highlight=False, soft_wrap=True, markup=False)
        self._told = done - 1  # the last round that was told
        self._before: Snapshot | None = None

    def __enter__(self) -> "Plain":
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self._tell(self._before, all_of_them=True)

    def say(self, line: str) -> None:
        self.console.print(line)

    def show(self, seen: Snapshot | None, alive: Sequence[bool]) -> None:
        if seen is None:
            return
        self._before = seen
        self._tell(seen)

    def _tell(self, seen: Snapshot, all_of_them: bool = False) -> None:
        """Rounds that were not told yet; one that is about to be evaluated waits for its numbers."""
        for one in seen.status.rounds:
            last = one is seen.status.rounds[-1] and not all_of_them
            due = self.every and ((one.round + 1) % self.every == 0 or one.round + 1 == self.rounds)
            if one.round > self._told and not (last and due and not one.metrics):
                self._told = one.round
                self.say(round_line(seen, one, self.rounds))


class Screen:
    """The same as a table that stays where it is, for terminals."""

    def __init__(self, rounds: int, console: Console | None = None):
        self.rounds = rounds
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._seen: Snapshot | None = None
        self._alive: Sequence[bool] = ()
        self._begun = time.monotonic()
        self._live = Live(console=console or Console(highlight=False), auto_refresh=False, transient=False)

    def __enter__(self) -> "Screen":
        self._live.__enter__()
        return self

    def __exit__(self, *about: Any) -> None:
        self._draw()
        self._live.__exit__(*about)

    def say(self, line: str) -> None:
        self._lines.append(f"{time.strftime('%H:%M:%S')} {line}")

    def show(self, seen: Snapshot | None, alive: Sequence[bool]) -> None:
        if seen is not None and seen.round is not None:
            before = self._seen.round if self._seen else None
            if before is None or before.round < seen.round.round:
                for client, row in seen.last.items():
                    if (row.reason or "").startswith(("refused", "error")):
                        self.say(f"round {seen.round.round + 1}, client {client}: {row.reason}")
        self._seen, self._alive = seen, alive
        self._draw()

    def _draw(self) -> None:
        took = int(time.monotonic() - self._begun)
        parts: list[Any] = [f"[bold]{escape(headline(self._seen, self.rounds))}[/] · {took // 60}:{took % 60:02d}"]
        if self._seen is not None:
            parts += ["", client_table(self._seen, self._alive or None)]  # of those elsewhere only the ledger knows
        elif self._alive:
            parts.append(f"{sum(self._alive)} of {len(self._alive)} client processes run")
        else:
            parts.append("waiting for clients elsewhere (fedtide deploy keys says how they start)")
        parts += ["", *(escape(line) for line in self._lines), "[dim]Ctrl-C stops all; what is done stays.[/]"]
        self._live.update(Group(*parts), refresh=True)


def _columns(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, heading in enumerate(headings):
        words = i == 0 or heading in ("now", "last round", "away or turned down", "ended")
        table.add_column(heading, justify="left" if words else "right", no_wrap=i < len(headings) - 1)
    return table


def _now(alive: Sequence[bool] | None, place: int) -> str:
    return "[green]●[/] up" if alive and place < len(alive) and alive[place] else "[dim]○ down[/]"


def _outcome(row: Presence | None) -> str:
    if row is None:
        return "–"
    if row.included:
        return "[green]counted[/]"
    return "[yellow]here[/]" if row.here else "[dim]away[/]"


def _reasons(away: dict[str, int], turned_down: dict[str, int], last: str | None) -> str:
    words = [f"{reason} ×{count}" for reason, count in (*away.items(), *turned_down.items())]
    if last and ":" in last and last.startswith(("refused", "error")):
        words.append(f"last: {last}")
    return escape(", ".join(words)) or "–"


def _measured(rounds: Sequence[RoundStatus]) -> list[str]:
    """The newest numbers of the model."""
    found = []
    for name in ("loss", "accuracy"):
        value = next((one.metrics[name] for one in reversed(rounds) if one.metrics.get(name) is not None), None)
        if value is not None:
            found.append(f"{name} {value:.3f}")
    return found


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
