"""`fedtide deploy up`: a complete federation on this machine, with intermittently available clients."""

import contextlib
import re
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from fedtide.adapters.deploy.app import App, check_ids
from fedtide.adapters.deploy.keys import Keys, is_loopback, make_keys, paths
from fedtide.adapters.deploy.local import LocalFederation, RunStatus
from fedtide.adapters.deploy.playback import Playback, presence_of, process_of
from fedtide.adapters.deploy.view import LedgerReader, Snapshot, View
from fedtide.adapters.flower.settings import Settings
from fedtide.adapters.ledger import Ledger
from fedtide.errors import FedtideError, number
from fedtide.files import alone

_STATUS_SECONDS = 20.0  # between two checks of the run's status, each of which takes two seconds of CPU time
_POLL_SECONDS = 0.5


class Deployment(NamedTuple):
    """The plan of a deployment."""

    app: App
    clients: list[str]  # started on this machine
    settings: Settings
    changes: dict[str, Any]  # of the app's configuration
    presence: np.ndarray  # bool [rounds, clients]
    seconds: float  # duration of a round of the simulated availability
    done: int = 0  # rounds of earlier parts of the run
    keys: Keys | None = None
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
    tls: bool = False,
) -> Deployment:
    """Checks all settings before any process is started."""
    number("--seconds-per-round", seconds, above=0)
    given = {"rounds": rounds, "seed": seed, "run": run, "state": str(app.state)}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    settings = app.settings(changes)
    elsewhere = not is_loopback(host) and not clients
    known, done, finished = earlier(settings)
    ids = [] if elsewhere else list(clients or known or settings.ids or map(str, range(5)))
    if not elsewhere:
        check_ids(ids)
        if known and ids != known:
            began = f"began with the clients {', '.join(known)[:200]}"
            raise FedtideError(f"run {settings.run!r} {began}; choose another --run for others")
        changes["clients"] = ",".join(ids)
        changes["round-seconds"] = 0.0 if availability == "always" else float(seconds)
    if finished and done >= settings.rounds:
        ended = f"has finished its {settings.rounds} rounds"
        raise FedtideError(f"run {settings.run!r} {ended}; choose more --rounds, or another --run")
    keys = _keys(app, ids, host, tls)
    if keys is not None or settings.keys:  # without TLS, clients have no keys
        changes["keys"] = "" if keys is None else str(keys.registered)
    settings, changes = app.settings(changes), app.overridden(changes)
    presence = np.ones((1, 0), bool)
    if ids:
        presence = presence_of(process_of(availability, len(ids), seconds, settings.seed), settings.seed)
    return Deployment(app, ids, settings, changes, presence, seconds, done, keys, host)


def earlier(settings: Settings) -> tuple[list[str], int, bool]:
    """(clients of the run, its number of rounds so far, whether it is finished)."""
    if "://" in settings.ledger_url or Path(settings.ledger_url).exists():
        with Ledger(settings.ledger_url, readonly=True) as ledger:
            for one in ledger.runs():
                if one.run == settings.run:
                    last = ledger.last_round(one.run)
                    clients = [entry.client for entry in ledger.roster(one.run)]
                    return clients, 0 if last is None else last + 1, one.finished is not None
    return [], 0, False


def _keys(app: App, ids: Sequence[str], host: str, tls: bool) -> Keys | None:
    """The keys of the federation: required beyond loopback, optional on it."""
    if is_loopback(host) and not tls:
        return None
    keys = make_keys(app.keys, ids, [host]) if is_loopback(host) else paths(app.keys, ids)
    missing = [path for path in (keys.ca, keys.certificate, keys.key, *keys.clients.values()) if not path.exists()]
    others = {unquote(path.stem): path.with_suffix("") for path in sorted(keys.registered.glob("*.pub"))}
    if missing or not others:
        why = f"keys, but {missing[0]} is missing" if missing else f"keys of clients, but {keys.registered} has none"
        raise FedtideError(
            f"--host {host}: other machines can only connect with {why}; "
            f"create them with: fedtide deploy keys {app.folder} --host HOST --clients …"
        )
    return keys._replace(clients=keys.clients | others)


def run_deployment(planned: Deployment, view: View) -> Snapshot:
    """Runs a deployment to its end. No process is left behind, even after an error."""
    app, settings = planned.app, planned.settings
    begun = time.time()
    with (
        alone(app.state, "another federation is running in it"),
        ended_by_signals(),
        LedgerReader(settings.ledger_url, settings.run) as reader,
    ):
        switches = {"FLWR_TELEMETRY_ENABLED": "1", "FLWR_DISABLE_UPDATE_CHECK": "0"} if planned.telemetry else {}
        federation = LocalFederation(
            app.state, planned.clients, keys=planned.keys, host=planned.host, port=planned.port, environment=switches
        )
        # Clients on this machine are restarted. Those on others keep running, and Flower's database has their nodes.
        if planned.clients:
            for leftover in app.state.glob("superlink.db*"):
                leftover.unlink()
        names = "SuperLink, SuperExec" + ("" if planned.keys is None else ", the gateway")
        view.say(f"starting {names} and {len(planned.clients)} SuperNodes; logs in {app.state / 'logs'}")
        with federation:
            run = federation.run(app.folder, planned.changes)
            view.say(f"run {settings.run} has started at {federation.address}")
            with Playback(federation, planned.presence, planned.seconds, planned.done, view.say) as playback:
                return _watch(planned, run, playback, reader, view, begun)


def _watch(
    planned: Deployment, run: int, playback: Playback, reader: LedgerReader, view: View, begun: float
) -> Snapshot:
    federation, model = playback.federation, planned.settings.folder / "model.safetensors"
    pending: Future[RunStatus] | None = None
    warned = False
    next_check = time.monotonic() + _STATUS_SECONDS
    with ThreadPoolExecutor(1) as pool:
        while True:
            snapshot = reader.read()
            view.show(snapshot, [federation.alive(f"node-{k}") for k in range(len(planned.clients))])
            ended = False
            if snapshot is not None:
                playback.begin()  # all clients run until they have enrolled
                if snapshot.round is not None and snapshot.round.round >= planned.done:
                    playback.follow(snapshot.round.round, time.time() - snapshot.round.began)
                ended = (snapshot.status.finished or 0.0) >= begun
                if ended and model.exists() and model.stat().st_mtime >= begun:
                    return snapshot
                warned = warned or _warned(snapshot, planned, view)
            _check(playback)
            if pending is not None and pending.done():
                status = pending.result()
                if status.finished and not ended:
                    raise FedtideError(f"the run has failed: {reason(federation, run)}")
                if status.run != run:
                    view.say("SuperLink has lost the server app; restarting it from its last checkpoint")
                    run = status.run
                pending, next_check = None, time.monotonic() + _STATUS_SECONDS
            elif pending is None and time.monotonic() > next_check:
                pending = pool.submit(federation.resumed, run)
            time.sleep(_POLL_SECONDS)


def _warned(snapshot: Snapshot, planned: Deployment, view: View) -> bool:
    """Warns if rounds last longer than those of the simulated availability."""
    took = [one.ended - one.began for one in snapshot.status.rounds if one.available > 0 and one.round >= planned.done]
    longer = float(np.median(took)) if len(took) >= 3 else 0.0
    if len(planned.presence) == 1 or longer < 1.5 * planned.seconds:
        return False
    view.say(
        f"rounds take {longer:.0f} s instead of the {planned.seconds:.0f} s of the simulated availability, so clients "
        f"start too late; use --seconds-per-round {longer:.0f}"
    )
    return True


def _check(playback: Playback) -> None:
    """Raises if playback or a process of the server has ended."""
    if playback.error is not None:
        raise FedtideError(f"availability cannot be simulated: {playback.error}") from playback.error
    federation = playback.federation
    for name in federation.servers:
        if not federation.alive(name):
            raise FedtideError(f"{name} has ended: see {federation.folder / 'logs' / name}.log")


def reason(federation: LocalFederation, run: int) -> str:
    """Why a server app ended: the last error in its log, which is saved with the other logs."""
    path = federation.folder / "logs" / "serverapp.log"
    text = re.sub(r"\x1b\[[0-9;]*m", "", federation.app_log(run))
    path.write_text(text)
    # Flower keeps only the text of an app's log: neither its exit code nor its exception.
    errors = re.findall(r"^(?:[\w.]+\.)?\w*(?:Error|InvalidInput|DoesNotFit): .+$", text, re.MULTILINE)
    return f"{errors[-1].partition(': ')[2] if errors else 'no reason given'} (log: {path})"


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Handles SIGTERM and a closed terminal like Ctrl-C, with an orderly shutdown (also in the background)."""
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {kind: signal.signal(kind, signal.default_int_handler) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
