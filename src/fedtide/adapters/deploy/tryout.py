"""A try-out: a whole federation on this machine, whose clients come and go, from its start to its end."""

import contextlib
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedtide.adapters.deploy.app import App, check_ids
from fedtide.adapters.deploy.keys import is_loopback, make_keys, paths
from fedtide.adapters.deploy.local import LocalFederation, Security
from fedtide.adapters.deploy.play import Player, presence_of, process_of
from fedtide.adapters.deploy.view import Book, Snapshot
from fedtide.adapters.flower.servers import refuse_password
from fedtide.adapters.flower.settings import Settings
from fedtide.adapters.ledger import Ledger
from fedtide.errors import FedtideError, number, require
from fedtide.files import alone

_ASK = 20.0  # seconds between two questions to Flower whether the run still runs: each takes two seconds of CPU
_LOOK = 0.5


class View(Protocol):
    """Where a try-out is shown."""

    def say(self, line: str) -> None: ...
    def show(self, seen: Snapshot | None, alive: Sequence[bool]) -> None: ...


class Plan(NamedTuple):
    """What is to be tried out."""

    app: App
    clients: list[str]  # started on this machine
    settings: Settings
    changes: dict[str, Any]  # of the app's configuration
    presence: np.ndarray  # bool [rounds, clients]
    seconds: float  # that a round of the played availability lasts
    done: int = 0  # rounds of earlier parts of the run
    security: Security | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    telemetry: bool = False


def plan(
    app: App,
    clients: Sequence[str] | None = None,
    rounds: int | None = None,
    availability: str = "markov",
    seconds: float = 20.0,
    seed: int | None = None,
    run: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    tls: bool = False,
    telemetry: bool = False,
) -> Plan:
    """Checks everything before anything is started."""
    number("--seconds-per-round", seconds, above=0)
    given = {"rounds": rounds, "seed": seed, "run": run}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    changes["state"] = str(app.state)
    settings = app.settings(changes)
    elsewhere = not is_loopback(host) and not clients
    try:
        refuse_password(settings)
    except FedtideError as error:
        raise FedtideError(f"{app.folder / 'pyproject.toml'}: {error}") from None
    known, done, finished = earlier(settings)
    ids = [] if elsewhere else list(clients or known or settings.ids or map(str, range(5)))
    if not elsewhere:
        check_ids(ids)
        if known and ids != known:
            raise FedtideError(
                f"run {settings.run!r} began with the clients {', '.join(known)[:200]}; choose another --run for others"
            )
        changes["clients"] = ",".join(ids)
        changes["round-seconds"] = 0.0 if availability == "always" else float(seconds)
    if finished and done >= settings.rounds:
        raise FedtideError(
            f"run {settings.run!r} has had its {settings.rounds} rounds; more of them with --rounds, or another --run"
        )
    keys = security(app, ids, host, tls)
    if keys is not None or settings.keys:  # nobody has a key of its own on loopback
        changes["keys"] = "" if keys is None else str(app.keys / "clients")
    settings = app.settings(changes)
    presence = np.ones((1, 0), bool)
    if ids:
        presence = presence_of(process_of(availability, len(ids), seconds, settings.seed), settings.seed)
    return Plan(
        app, ids, settings, app.overridden(changes), presence, seconds, done, keys, host, port, telemetry
    )  # fmt: skip


def earlier(settings: Settings) -> tuple[list[str], int, bool]:
    """(clients, rounds that the run has had so far, whether it was finished: with its model)."""
    if "://" not in settings.ledger_url and not Path(settings.ledger_url).exists():
        return [], 0, False
    with Ledger(settings.ledger_url, readonly=True) as ledger:
        finished = {one.run: one.finished is not None for one in ledger.runs()}
        if settings.run not in finished:
            return [], 0, False
        last = ledger.last_round(settings.run)
        clients = [entry.client for entry in ledger.roster(settings.run)]
        return clients, 0 if last is None else last + 1, finished[settings.run]


def security(app: App, ids: Sequence[str], host: str, tls: bool) -> Security | None:
    """None on loopback, unless asked for; beyond it there is none without keys."""
    if is_loopback(host) and not tls:
        return None
    found = paths(app.keys, ids)
    if is_loopback(host):
        found = make_keys(app.keys, ids, [host])
    missing = [path for path in (found.ca, found.certificate, found.key, *found.clients.values()) if not path.exists()]
    if missing:
        raise FedtideError(
            f"--host {host}: beyond this machine only with keys, and {missing[0]} is not there; "
            f"make them with: fedtide deploy keys {app.folder} --host HOST --clients …"
        )
    others = [path.with_suffix("") for path in sorted((app.keys / "clients").glob("*.pub"))]
    mine = list(found.clients.values())
    if not others:
        raise FedtideError(
            f"--host {host}: beyond this machine only with keys of clients, and {app.keys / 'clients'} has none; "
            f"make them with: fedtide deploy keys {app.folder} --host HOST --clients …"
        )
    return Security(found.ca, found.certificate, found.key, [*mine, *(path for path in others if path not in mine)])


def try_out(planned: Plan, view: View) -> Snapshot:
    """Runs it to its end. Whatever happens, no process is left behind."""
    app, settings = planned.app, planned.settings
    begun = time.time()
    with (
        alone(app.state, "a federation is up in it already"),
        ended_by_signals(),
        Book(settings.ledger_url, settings.run) as book,
    ):
        nodes = [
            {"client-id": client, "partition-id": k, "num-partitions": len(planned.clients)}
            for k, client in enumerate(planned.clients)
        ]
        switches = {"FLWR_TELEMETRY_ENABLED": "1", "FLWR_DISABLE_UPDATE_CHECK": "0"} if planned.telemetry else {}
        federation = LocalFederation(
            app.state, nodes, security=planned.security, host=planned.host, port=planned.port, environment=switches
        )
        if planned.clients:  # they start anew; clients elsewhere have stayed, and are known to Flower by its database
            for leftover in app.state.glob("superlink.db*"):
                leftover.unlink()
        names = "SuperLink, SuperExec" + ("" if planned.security is None else ", the gateway")
        view.say(f"starting {names} and {len(nodes)} SuperNodes; logs in {app.state / 'logs'}")
        with federation:
            run = federation.run(app.folder, planned.changes)
            view.say(f"run {settings.run} has begun at {federation.address}")
            with Player(federation, planned.presence, planned.seconds, planned.done, view.say) as player:
                return _watch(planned, federation, run, player, book, view, begun)


def _watch(
    planned: Plan, federation: LocalFederation, run: int, player: Player, book: Book, view: View, begun: float
) -> Snapshot:
    model = planned.settings.folder / "model.safetensors"
    asked: Future[str] | None = None
    warned = False
    ask = time.monotonic() + _ASK
    with ThreadPoolExecutor(1) as pool:
        while True:
            seen = book.look()
            view.show(seen, [federation.alive(f"node-{k}") for k in range(len(planned.clients))])
            # Everybody is there to enrol; a run that goes on knows its clients.
            if seen is not None and not player.playing:
                player.begin()
            if seen is not None and seen.round is not None and seen.round.round >= planned.done:
                player.follow(seen.round.round, time.time() - seen.round.began)
            ended = seen is not None and seen.status.finished is not None and seen.status.finished >= begun
            if seen is not None and ended and model.exists() and model.stat().st_mtime >= begun:
                return seen
            if seen is not None and not warned:
                warned = _warned(seen, planned, view)
            _check(federation, player)
            if asked is not None and asked.done():
                if asked.result().startswith("finished") and not ended:
                    raise FedtideError(f"the run has failed: {reason(federation, run)}")
                asked, ask = None, time.monotonic() + _ASK
            elif asked is None and time.monotonic() > ask:
                asked = pool.submit(federation.status, run)
            time.sleep(_LOOK)


def _warned(seen: Snapshot, planned: Plan, view: View) -> bool:
    """Says that rounds last longer than those of the played availability."""
    took = [one.ended - one.began for one in seen.status.rounds if one.available > 0 and one.round >= planned.done]
    if len(planned.presence) == 1 or len(took) < 3 or float(np.median(took)) < 1.5 * planned.seconds:
        return False
    longer = float(np.median(took))
    view.say(
        f"rounds take {longer:.0f} s here, those of the played availability {planned.seconds:.0f} s, which waits: "
        f"clients come too late; --seconds-per-round {longer:.0f} would fit"
    )
    return True


def _check(federation: LocalFederation, player: Player) -> None:
    if player.error is not None:
        raise FedtideError(f"availability cannot be played: {player.error}") from player.error
    for name in federation.servers:
        if not federation.alive(name):
            raise FedtideError(f"{name} has ended: see {federation.folder / 'logs' / name}.log")


def reason(federation: LocalFederation, run: int) -> str:
    """Why a server app ended: the last error in its log, which is kept among the others."""
    path = federation.folder / "logs" / "serverapp.log"
    said = re.sub(r"\x1b\[[0-9;]*m", "", federation.said("log", str(run), "local", "--show"))
    path.write_text(said)
    errors = re.findall(r"^(?:[\w.]+\.)?\w*(?:Error|InvalidInput|DoesNotFit): .+$", said, re.MULTILINE)
    return f"{errors[-1].partition(': ')[2] if errors else 'it does not say why'} (log: {path})"


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """A terminal that closes, or SIGTERM, ends as Ctrl-C does: in order. (In the background, shells ignore Ctrl-C.)"""
    here = threading.current_thread() is threading.main_thread()
    require(here, "try_out", "another thread", "called in the main one")

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {kind: signal.signal(kind, stop) for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
