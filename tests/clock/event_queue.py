"""An independent simulation with a clock: a queue of events in plain Python, in double precision.

It shares with the engine only its input: the availability of each slot, and the random numbers of tasks.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CLOSE = 1e-9  # times that are equal up to rounding


@dataclass
class Task:
    start: int
    weight: float
    update: np.ndarray
    model: np.ndarray
    left: float  # seconds of work at `since`
    since: float
    number: int  # of the latest event in the queue; others are out of date
    spent: float = 0.0
    working: bool = True


@dataclass
class Step:
    seconds: float = 0.0
    arrived: dict[int, int] = field(default_factory=dict)  # client: age of its update
    starts: int = 0
    lost: int = 0
    late: int = 0
    wasted: float = 0.0


@dataclass
class Queue:
    """One federation; `run` plays server steps and returns them with the last model."""

    barrier: Any
    leaving: str
    slot: float
    available: np.ndarray  # [slots, N] bool
    duration: Callable[[int, int, int], float]  # (server step, slot, client) -> seconds
    order: Callable[[int, int, int], float]  # the largest starts first
    train: Callable[[np.ndarray, int], np.ndarray]  # (model, client) -> w_t − w_k
    discount: Callable[[int], float]
    w: np.ndarray
    mixes: bool = False  # whether the server moves towards models, and not along updates

    def run(self, steps: int) -> tuple[list[Step], np.ndarray]:
        self.now, self.number, self.boundary, self.tick = 0.0, -1, 0.0, 0
        self.tasks: dict[int, Task] = {}
        self.queue: list[tuple[float, int, int]] = []  # (time, client, number of the event)
        return [self.step(t) for t in range(steps)], self.w

    def step(self, t: int) -> Step:
        barrier, self.t, self.record = self.barrier, t, Step()
        self.begun_at, arrived = self.now, {}
        if self.boundary - self.now < CLOSE:
            self.next_slot()
        up = np.flatnonzero(self.available[self.number]).tolist()
        free = [k for k in up if k not in self.tasks]
        if barrier.starts == "policy":
            for k in free:
                self.begin(k, 1 / len(free))
        else:
            self.fill(arrived)
        least = barrier.least
        if not barrier.refills and not self.tasks:
            least = max(least, self.boundary - self.now)
        most = math.inf if barrier.most is None else barrier.most
        self.until, self.deadline = self.now + min(least, most), self.now + most
        while not self.over(arrived):
            self.next_event(arrived)
        self.close(arrived)
        return self.record

    def over(self, arrived: dict[int, Task]) -> bool:
        if self.deadline - self.now < CLOSE:
            return True
        enough = self.barrier.target is not None and len(arrived) >= self.barrier.target
        if not self.barrier.refills:
            enough = enough or not self.tasks
        return enough and self.until - self.now < CLOSE

    def next_event(self, arrived: dict[int, Task]) -> None:
        while self.queue and self.outdated(self.queue[0]):
            heapq.heappop(self.queue)
        finish = self.queue[0][0] if self.queue else math.inf
        ahead = self.until if self.until - self.now >= CLOSE else math.inf
        time = min(finish, self.boundary, self.deadline, ahead)
        self.now = max(time, self.now)
        if finish <= time + CLOSE:
            _, client, _ = heapq.heappop(self.queue)
            self.finish(client, arrived)
        elif self.boundary <= time + CLOSE and self.deadline - self.now >= CLOSE:
            self.next_slot()
            for client in [
                k for k, task in self.tasks.items() if self.leaving == "finished offline" and task.left <= 0
            ]:
                if self.available[self.number][client] and not self.full(arrived):
                    self.deliver(client, arrived)
        if self.barrier.refills and not self.over(arrived):
            self.fill(arrived)

    def outdated(self, event: tuple[float, int, int]) -> bool:
        _, client, number = event
        return client not in self.tasks or self.tasks[client].number != number

    def full(self, arrived: dict[int, Task]) -> bool:
        return self.barrier.target is not None and len(arrived) >= self.barrier.target

    def begin(self, client: int, weight: float) -> None:
        update = self.train(self.w, client)
        seconds = self.duration(self.t, self.number, client)
        self.tasks[client] = Task(self.t, weight, update, self.w - update, seconds, self.now, 0)
        self.schedule(client)
        self.record.starts += 1

    def schedule(self, client: int) -> None:
        self.tick += 1
        task = self.tasks[client]
        task.number, task.since = self.tick, self.now
        heapq.heappush(self.queue, (self.now + task.left, client, self.tick))

    def fill(self, arrived: dict[int, Task]) -> None:
        up = np.flatnonzero(self.available[self.number]).tolist()
        ready = sorted(
            (k for k in up if k not in self.tasks and k not in arrived),
            key=lambda k: -self.order(self.t, self.number, k),
        )
        places = len(ready) if self.barrier.places is None else self.barrier.places - len(self.tasks)
        for client in ready[: max(places, 0)]:
            self.begin(client, math.nan)

    def finish(self, client: int, arrived: dict[int, Task]) -> None:
        task = self.tasks[client]
        task.spent, task.left = task.spent + task.left, 0.0
        task.number = -1
        if self.leaving != "finished offline" or self.available[self.number][client]:
            self.deliver(client, arrived)

    def deliver(self, client: int, arrived: dict[int, Task]) -> None:
        arrived[client] = self.tasks.pop(client)

    def next_slot(self) -> None:
        self.number += 1
        self.boundary += self.slot
        up = self.available[self.number]
        for client, task in list(self.tasks.items()):
            if task.left <= 0:
                continue
            if self.leaving == "lost" and not up[client]:
                self.record.lost += 1
                self.record.wasted += task.spent + self.now - task.since
                del self.tasks[client]
            if self.leaving == "paused" and task.working and not up[client]:
                passed = self.now - task.since
                task.spent, task.left = task.spent + passed, task.left - passed
                task.number, task.working = -1, False
            elif self.leaving == "paused" and not task.working and up[client]:
                task.working = True
                self.schedule(client)

    def close(self, arrived: dict[int, Task]) -> None:
        barrier, record = self.barrier, self.record
        if not barrier.keeps:
            for task in self.tasks.values():
                record.late += 1
                record.wasted += task.spent + (self.now - task.since if task.working and task.left > 0 else 0)
            self.tasks = {}
        record.seconds = self.now
        record.arrived = {k: self.t - task.start for k, task in sorted(arrived.items())}
        if not arrived:
            return
        if barrier.starts == "places":
            weights = dict.fromkeys(arrived, 1 / len(arrived))
        else:
            total = sum(task.weight for task in arrived.values())
            weights = {k: task.weight / total for k, task in arrived.items()}
        ways = {k: self.w - task.model if self.mixes else task.update for k, task in arrived.items()}
        self.w = self.w - sum(weights[k] * self.discount(self.t - task.start) * ways[k] for k, task in arrived.items())
