"""Playback of availability: starts and stops clients according to a process or a recorded trace, round by round."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fedtide.adapters.deploy.local import LocalFederation
from fedtide.availability import Always, Markov, Phones, Process, Trace
from fedtide.errors import FedtideError, InvalidInput
from fedtide.fleet import Fleet

KINDS = "always, markov, phones, fleet:DIR or trace:FILE"
_ROUNDS = 10_000  # number of sampled rounds; then they repeat
_START_EARLY, _STOP_EARLY = 0.5, 0.1  # of a round before it begins; a client needs seconds to start
_HELD = 0.2  # of a round before its end: playback waits there if the round lasts longer
_RESTART = 5.0  # minimum seconds between two starts of a client that ended unexpectedly


def process_of(text: str, clients: int, seconds: float, seed: int = 0) -> Process:
    """The process named by `--availability`, for rounds of the given number of seconds."""
    name, colon, path = text.partition(":")
    if text == "always":
        return Always(clients)
    if text == "markov":
        # Availability from 0.9 down to 0.4, with absences of several rounds.
        return Markov(np.linspace(0.9, 0.4, clients), 0.6, clients)
    if text == "phones":
        return Phones(clients=clients, population_seed=seed)
    if name == "fleet" and colon and path:
        return Fleet.load(path, clients, seed)
    if name == "trace" and colon and path:
        table = Path(path).suffix == ".csv"
        recorded = Trace.load(path, round_length=seconds if table else None)
        if recorded.clients < clients:
            raise FedtideError(f"{path}: {recorded.clients} clients: must be {clients} or more")
        return Trace(np.asarray(recorded.matrix)[:, :clients])
    raise InvalidInput("--availability", text, KINDS)


def presence_of(process: Process, seed: int) -> np.ndarray:
    """The available clients: bool [rounds, clients]."""
    if isinstance(process, Trace):
        return np.asarray(process.matrix)
    return process.sample(seed, 1 if isinstance(process, Always) else _ROUNDS)


class Playback:
    """Starts and stops (SIGTERM) SuperNodes in a separate thread, beginning with a given round.

    Playback follows the server, so that the intended clients are available in every round: clients start before their
    first round and stop after their last one, and if a round takes longer than planned, playback waits. A client that
    ends unexpectedly is restarted.
    """

    def __init__(
        self,
        federation: LocalFederation,
        presence: np.ndarray,
        seconds: float,
        first: int = 0,
        on_change: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.federation, self.presence, self.seconds, self.first = federation, presence, seconds, first
        self.on_change, self.clock = on_change, clock
        self.round = first
        self.wanted = np.ones(presence.shape[1], bool)  # all clients run until playback begins
        self._anchor: tuple[float, float] | None = None  # a round, and the time when the server began it
        self._position = float(first)  # the current round, with its elapsed fraction
        self._end = 0.0  # playback waits for the server at the beginning of this round
        self._started = np.full(presence.shape[1], -np.inf)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: Exception | None = None

    def __enter__(self) -> "Playback":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def begin(self) -> None:
        """Begins playback; until then all clients run."""
        if self._anchor is None:
            self._anchor, self._end = (self.first, self.clock()), self.first + 1

    def follow(self, written: int, seconds: float) -> None:
        """Synchronises with the server, which has finished a round that it began the given number of seconds ago."""
        if self._anchor is not None and written + 2 > self._end:
            self._anchor, self._end = (written, self.clock() - seconds), written + 2

    def turn(self, pool: ThreadPoolExecutor) -> None:
        """Starts and stops the clients that are due."""
        if self._anchor is not None:
            round, began = self._anchor
            position = min(round + (self.clock() - began) / self.seconds, self._end - _HELD)
            self._position = max(self._position, position)  # a slow server does not set playback back
            self.round = int(self._position)
            ahead = self._position + np.array([_STOP_EARLY, _START_EARLY])
            self.wanted = np.asarray(self.presence[ahead.astype(int) % len(self.presence)].any(0))
        changes = [k for k, wanted in enumerate(self.wanted) if wanted != self.federation.alive(f"node-{k}")]
        list(pool.map(self._change, changes))

    def _run(self) -> None:
        try:
            with ThreadPoolExecutor(8) as pool:
                while not self._stop.wait(0.2):
                    self.turn(pool)
        except Exception as error:  # reported by the main thread
            self.error = error

    def _change(self, k: int) -> None:
        client = self.federation.nodes[k].get("client-id", k)
        if not self.wanted[k]:
            self.on_change(f"client {client} stops")
            self.federation.stop(f"node-{k}")
        elif not self._stop.is_set() and self.clock() - self._started[k] > _RESTART:
            self._started[k] = self.clock()
            self.on_change(f"client {client} starts")
            self.federation.start(f"node-{k}")
