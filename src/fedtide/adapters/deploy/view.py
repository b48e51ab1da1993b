"""A deployment on the terminal: available clients, their weights and the model's metrics."""

import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from fedtide.adapters.ledger import ClientInRound, Ledger, NoLedger, RoundStatus, Status

_ROUNDS = 10  # recent rounds to read: more than can be written between two reads
_LINES = 6  # recent messages below the table


class Snapshot(NamedTuple):
    """A run's state according to its ledger."""

    status: Status
    lines: dict[int, dict[str, ClientInRound]]  # of recent rounds, by round and client

    @property
    def round(self) -> RoundStatus | None:
        """The last finished round."""
        return self.status.rounds[-1] if self.status.rounds else None

    @property
    def last(self) -> dict[str, ClientInRound]:
        return self.lines.get(self.round.round, {}) if self.round else {}


class LedgerReader(ExitStack):
    """Reads the ledger of a run that may not have begun yet."""

    def __init__(self, url: str, run: str):
        super().__init__()
        self.url, self.run = url, run
        self._ledger: Ledger | None = None

    def read(self) -> Snapshot | None:
        """The current state of the run; None before it begins."""
        if self._ledger is None:
            try:
                self._ledger = self.enter_context(Ledger(self.url, readonly=True, patience=5.0))
            except NoLedger:
                return None
        known = self.run in [one.run for one in self._ledger.runs()]
        return read_snapshot(self._ledger, self.run) if known else None


def read_snapshot(ledger: Ledger, run: str) -> Snapshot:
    status = ledger.status(run)
    return Snapshot(status, ledger.rows(run, status.rounds[-1].round - _ROUNDS + 1) if status.rounds else {})


def headline(snapshot: Snapshot | None, rounds: int | None = None) -> str:
    """The run in one line."""
    if snapshot is None:
        return "clients are enrolling"
    status, last = snapshot.status, snapshot.round
    of = f" of {rounds}" if rounds else ""
    parts = [f"run {status.run}", status.method, f"round {last.round + 1 if last else 0}{of}"]
    if last is not None:
        clients = sum(one.number is not None for one in status.clients)
        parts.append(f"{last.available} of {clients} available, {last.included} used")
        parts += _measured(status.rounds)
        if last.deadline is not None:
            parts.append(f"deadline {last.deadline:.0f} s")
    if status.finished is not None:
        parts.append("finished")
    return " · ".join(parts)


def round_line(snapshot: Snapshot, one: RoundStatus, rounds: int) -> str:
    """A round in one line: the weights of used updates, and the reasons of other clients."""
    lines = snapshot.lines.get(one.round, {})
    used = [f"{client} ({_number(row.weight, 3)})" for client, row in lines.items() if row.included]
    others = [f"{client}: {row.reason or 'not selected'}" for client, row in lines.items() if not row.included]
    losses = [row.loss for row in lines.values() if row.loss is not None]
    reported = f"mean loss of clients {sum(losses) / len(losses):.3f}" if losses else "no losses"
    parts = [f"round {one.round + 1} of {rounds}: {one.available} available", f"used {', '.join(used) or 'none'}"]
    parts += [*(_measured([one]) or [reported]), f"{one.ended - one.began:.1f} s"]
    return "; ".join([*parts, f"others: {', '.join(others)}"] if others else parts)


def client_table(snapshot: Snapshot, alive: Sequence[bool] | None = None) -> Table:
    """A row per client. `alive`: whether each process is running."""
    now = ["now"] if alive is not None else []
    table = _columns("client", *now, "last round", "weight", "loss", "available", "used", "seconds", "reasons")
    for place, one in enumerate(snapshot.status.clients):
        row = snapshot.last.get(one.client) or ClientInRound(one.client, False)
        up = alive and place < len(alive) and alive[place]
        running = ("[green]●[/] up" if up else "[dim]○ down[/]") if one.number is not None else ""
        measured = _number(row.weight if row.included else None, 3), _number(row.loss, 3)
        shares = f"{one.available:.0%}", f"{one.included:.0%}", _number(one.latency, 1)
        outcome = _outcome(row) if one.client in snapshot.last else "–"
        reasons = _reasons(one.away, one.turned_down, row)
        table.add_row(escape(one.client), *([running] if now else []), outcome, *measured, *shares, reasons)
    return table


def round_table(snapshot: Snapshot, most: int = 10) -> Table:
    """The most recent rounds."""
    table = _columns("round", "available", "used", "loss", "accuracy", "deadline", "took", "ended")
    for one in snapshot.status.rounds[-most:]:
        counts = str(one.round + 1), str(one.available), str(one.included)
        metrics = (_number(one.metrics.get(name), 4) for name in ("loss", "accuracy"))
        deadline = "–" if one.deadline is None else f"{one.deadline:.1f} s"
        ended = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.ended))
        table.add_row(*counts, *metrics, deadline, f"{one.ended - one.began:.1f} s", ended)
    return table


class Plain:
    """Shows a deployment as lines, for files and pipes."""

    def __init__(self, rounds: int, evaluate_every: int, done: int = 0):
        self.rounds, self.every = rounds, evaluate_every
        self.console = Console(highlight=False, soft_wrap=True, markup=False)
        self._shown = done - 1  # the last round that was printed
        self._latest: Snapshot | None = None

    def __enter__(self) -> "Plain":
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest is not None:
            self._print(self._latest, final=True)

    def say(self, line: str) -> None:
        self.console.print(line)

    def show(self, snapshot: Snapshot | None, alive: Sequence[bool]) -> None:
        if snapshot is not None:
            self._latest = snapshot
            self._print(snapshot)

    def _print(self, snapshot: Snapshot, final: bool = False) -> None:
        """Prints new rounds; a round that is being evaluated waits for its metrics."""
        for one in snapshot.status.rounds:
            last = one is snapshot.status.rounds[-1] and not final
            due = self.every and ((one.round + 1) % self.every == 0 or one.round + 1 == self.rounds)
            if one.round > self._shown and not (last and due and not one.metrics):
                self._shown = one.round
                self.say(round_line(snapshot, one, self.rounds))


class Screen:
    """Shows a deployment as a table that is updated in place, for terminals."""

    def __init__(self, rounds: int, console: Console | None = None):
        self.rounds = rounds
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._snapshot: Snapshot | None = None
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

    def show(self, snapshot: Snapshot | None, alive: Sequence[bool]) -> None:
        before = self._snapshot.round if self._snapshot else None
        last = snapshot.round if snapshot else None
        if snapshot and last and (before is None or before.round < last.round):
            for client, row in snapshot.last.items():
                if row.rejected:
                    self.say(f"round {last.round + 1}, client {client}: {row.reason}")
        self._snapshot, self._alive = snapshot, alive
        self._draw()

    def _draw(self) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        parts: list[Any] = [f"[bold]{escape(headline(self._snapshot, self.rounds))}[/] · {minutes}:{seconds:02d}"]
        if self._snapshot is not None:
            parts += ["", client_table(self._snapshot, self._alive or None)]  # processes on other machines are unknown
        elif self._alive:
            parts.append(f"{sum(self._alive)} of {len(self._alive)} client processes are running")
        else:
            parts.append("waiting for clients on other machines (see fedtide deploy keys)")
        parts += ["", *map(escape, self._lines), "[dim]Ctrl-C stops everything; finished rounds are kept.[/]"]
        self._live.update(Group(*parts), refresh=True)


View = Plain | Screen


def _columns(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, heading in enumerate(headings):
        words = i == 0 or heading in ("now", "last round", "reasons", "ended")
        table.add_column(heading, justify="left" if words else "right", no_wrap=i < len(headings) - 1)
    return table


def _outcome(row: ClientInRound) -> str:
    if row.included:
        return "[green]used[/]"
    return "[yellow]available[/]" if row.here else "[dim]unavailable[/]"


def _reasons(away: dict[str, int], turned_down: dict[str, int], last: ClientInRound) -> str:
    words = [f"{reason} ×{count}" for reason, count in (*away.items(), *turned_down.items())]
    if last.rejected and ":" in (last.reason or ""):
        words.append(f"last: {last.reason}")
    return escape(", ".join(words)) or "–"


def _measured(rounds: Sequence[RoundStatus]) -> list[str]:
    """The latest metrics of the model."""
    latest: dict[str, float | None] = {}
    for one in rounds:
        latest |= {name: value for name, value in one.metrics.items() if value is not None}
    return [f"{name} {latest[name]:.3f}" for name in ("loss", "accuracy") if name in latest]


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
