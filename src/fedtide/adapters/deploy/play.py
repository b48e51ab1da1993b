"""Availability, played: clients stop and start as a process or a recorded trace says, round by round."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fedtide.adapters.deploy.local import LocalFederation
from fedtide.availability import Always, Fleet, Markov, Phones, Process, Trace
from fedtide.errors import FedtideError, InvalidInput

KINDS = "always, markov, phones, fleet:DIR or trace:FILE"
_ROUNDS = 10_000  # sampled at once; after that they repeat
_COME, _GO = 0.5, 0.1  # of a round before it begins: a client that comes needs seconds to start
_HELD = 0.2  # of a round before the end of one that lasts longer: the play waits there
_AGAIN = 5.0  # seconds before a client that ended by itself is started again


def process_of(said: str, clients: int, seconds: float, seed: int = 0) -> Process:
    """The process that `--availability` names, for so many clients and rounds of so many seconds."""
    name, colon, place = said.partition(":")
    if said == "always":
        return Always(clients)
    if said == "markov":
        # From nearly always there to less than half of the time; who is away stays away for some rounds.
        return Markov(np.linspace(0.9, 0.4, clients), 0.6, clients)
    if said == "phones":
        return Phones(clients=clients, population_seed=seed)
    if name == "fleet" and colon and place:
        return Fleet.load(place, clients, seed)
    if name == "trace" and colon and place:
        table = Path(place).suffix == ".csv"
        recorded = Trace.load(place, round_length=seconds if table else None)
        if recorded.clients < clients:
            raise FedtideError(f"{place}: {recorded.clients} clients, which is fewer than the {clients} to be played")
        return Trace(np.asarray(recorded.matrix)[:, :clients])
    raise InvalidInput("--availability", said, KINDS)


def presence_of(process: Process, seed: int) -> np.ndarray:
    """Who is there: bool [rounds, clients]."""
    if isinstance(process, Trace):
        return np.asarray(process.matrix)
    return process.sample(seed, 1 if isinstance(process, Always) else _ROUNDS)


class Player:
    """Stops (SIGTERM) and starts SuperNodes in a thread of its own, from a given round on.

    It follows the server, so that who is there in a round is who was to be: clients come before their round begins and
    leave after their last one, and where the server needs longer than a round, the play waits for it. A client that
    ended by itself though it should be there is started again.
    """

    def __init__(
        self,
        federation: LocalFederation,
        presence: np.ndarray,
        seconds: float,
        first: int = 0,
        tell: Callable[[str], None] = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.federation, self.presence, self.seconds, self.first = federation, presence, seconds, first
        self.tell, self.clock = tell, clock
        self.round = first
        self.wanted = np.ones(presence.shape[1], bool)  # all are there until play begins
        self._anchor: tuple[float, float] | None = None  # a round, and the time at which the server began it
        self._place = float(first)  # rounds, and what has passed of the one that is played
        self._end = 0.0  # the round at whose beginning the play waits for the server
        self._started = np.full(presence.shape[1], -np.inf)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: Exception | None = None

    def __enter__(self) -> "Player":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def begin(self) -> None:
        """From now on availability is played; before, everybody is there."""
        if self._anchor is None:
            self._anchor, self._end = (self.first, self.clock()), self.first + 1

    def follow(self, written: int, seconds: float) -> None:
        """The server has written a round that it began so many seconds ago."""
        if self._anchor is not None and written + 2 > self._end:
            self._anchor, self._end = (written, self.clock() - seconds), written + 2

    @property
    def playing(self) -> bool:
        return self._anchor is not None

    def turn(self, pool: ThreadPoolExecutor) -> None:
        """What is to be done now."""
        if self._anchor is not None:
            round, began = self._anchor
            place = min(round + (self.clock() - began) / self.seconds, self._end - _HELD)
            self._place = max(self._place, place)  # a server that was slow does not turn the play back
            self.round = int(self._place)
            now, soon = (self.presence[int(self._place + ahead) % len(self.presence)] for ahead in (_GO, _COME))
            self.wanted = np.asarray(now | soon)
        changes = [k for k, here in enumerate(self.wanted) if here != self.federation.alive(f"node-{k}")]
        list(pool.map(self._change, changes))

    def _run(self) -> None:
        try:
            with ThreadPoolExecutor(8) as pool:
                while not self._stop.wait(0.2):
                    self.turn(pool)
        except Exception as error:  # told by whoever watches
            self.error = error

    def _change(self, k: int) -> None:
        client = self.federation.nodes[k].get("client-id", k)
        if not self.wanted[k]:
            self.tell(f"client {client} leaves")
            self.federation.stop_node(k)
        elif not self._stop.is_set() and self.clock() - self._started[k] > _AGAIN:
            self._started[k] = self.clock()
            self.tell(f"client {client} comes")
            self.federation.start_node(k)
