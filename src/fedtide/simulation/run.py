"""The run of one method: segments, records, checkpoints."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedtide.files import atomic
from fedtide.methods.base import Method
from fedtide.simulation import calls, checkpoint, engine
from fedtide.simulation.blocks import STATE, piece
from fedtide.simulation.checkpoint import Saved
from fedtide.simulation.progress import Progress
from fedtide.simulation.records import client_rows, initial_rows, no_clients, round_rows
from fedtide.simulation.setup import Setup, batch
from fedtide.simulation.times import before_times, refuse_endless, with_times
from fedtide.simulation.traces import Segment

if TYPE_CHECKING:
    import polars


class MethodRun:
    """One method on all seeds of a setup, segment by segment."""

    def __init__(
        self, setup: Setup, label: str, method: Method, chunk: int | None, place: Path | None,
        last: int | None = None, notify: Callable[..., bool | None] | None = None,
    ):  # fmt: skip
        """`last` is the round after which a callback has ended the training; `notify` is called with the fields of
        `Metrics` but `about`, and returns True to end it."""
        self.setup, self.label, self.method, self.chunk, self.place = setup, label, method, chunk, place
        self.last, self.notify = setup.rounds if last is None else last, notify
        self._evaluations: list[polars.DataFrame] = []  # so far, for `notify`
        self.rounds: list[polars.DataFrame] = []  # of each segment, where there is no folder
        self.clients: list[polars.DataFrame] = []
        self._records = ""  # a digest of the records so far
        self._diverged: dict[int, int] = {}  # seed: the first round whose evaluation was not finite

    @property
    def warnings(self) -> list[str]:
        return [divergence(self.label, seed, round_) for seed, round_ in sorted(self._diverged.items())]

    def to_end(self, report: Progress) -> np.ndarray:
        """Runs the remaining rounds; returns the final models [R, d]."""
        setup = self.setup
        method = batch([self.method])
        carry = engine.start(
            method, setup.problem, setup.population, setup.seeds, setup.traces.past, setup.history, setup.timing
        )
        done, run, timed = 0, "", setup.timing is not None
        if self.place is not None:
            parts = (method, setup.problem, setup.population, setup.seeds, setup.plan, setup.availability)
            clock = () if setup.timing is None else (setup.timing.clock,)
            run = checkpoint.fingerprint(self.label, self.chunk, *parts, *clock)
            if (self.place / STATE).exists():
                carry, done, self._records = checkpoint.load(self.place / STATE, carry, run)
                checkpoint.check_records(self.place, self._pieces(done), self._records)
                carry = jax.tree.map(jnp.asarray, carry)
                self._recall(done)
        if done == 0:
            evaluation, _ = engine.evaluate(setup.problem, setup.population, carry.w)
            rows = initial_rows(self.label, setup.seed_list, _first(evaluation))
            self._keep(before_times(rows) if timed else rows, no_clients(timed), 0)
        report(self.label, done, setup.rounds)
        carry = engine.spread(carry, setup.devices)
        if done > 0 and self._evaluations:
            self._ask(done, self._evaluations[0].clear(), no_clients(timed))
        for segment in setup.plan:
            if segment.first < done:
                continue
            if segment.first >= self.last:
                break
            trace = setup.traces[segment] if not timed else setup.traces.past
            shape = setup.shape(self.method, segment, self.chunk)
            carry, record = engine.run_segment(
                method,
                setup.problem,
                setup.population,
                setup.seeds,
                carry,
                np.int32(segment.first),
                trace,
                shape,
                setup.timing,
            )
            record = _first(record)
            clients = len(setup.population.sizes)
            calls.refuse_faults(
                self.label, self.method.participation, setup.seed_list, segment.first, clients, record.faults
            )
            rounds, active = round_rows(self.label, setup.seed_list, segment, record), np.asarray(trace)
            if timed:
                steps, arrivals = record.times
                refuse_endless(self.label, setup.seed_list, segment.first, steps)
                rounds = with_times(rounds, steps, setup.slot_seconds, setup.message_sizes(self.method))
                active = arrivals.available if setup.record_clients else active
            rows = client_rows(self.label, setup.seed_list, segment, active, record)
            self._keep(rounds, rows, segment.end)
            if segment.evaluates:
                self._notice_divergence(segment, record.evaluation.objective)
            if self.place is not None:
                checkpoint.save(self.place / STATE, Saved(carry, segment.end, self._records), run)
            report(self.label, segment.end, setup.rounds)
            self._ask(segment.end, rounds, rows)
        return np.asarray(engine.served(method, carry))[0]

    def _keep(self, rounds: "polars.DataFrame", clients: "polars.DataFrame", end: int) -> None:
        """Keeps a segment's records: in memory, or on disk where there is a folder."""
        self._remember(rounds)
        if self.place is None:
            self.rounds.append(rounds)
            self.clients.append(clients)
            return
        for name, frame in (("rounds", rounds), ("clients", clients)):
            if not frame.is_empty():
                with atomic(self.place / piece(name, end)) as temporary:
                    frame.write_parquet(temporary)
                    self._records = checkpoint.chained(self._records, piece(name, end), temporary)

    def _remember(self, rounds: "polars.DataFrame") -> None:
        """Keeps the evaluations, if somebody wants them."""
        if self.notify is not None:
            self._evaluations.append(rounds.filter(rounds["objective"].is_not_null()))

    def _recall(self, done: int) -> None:
        """Reads the evaluations of the rounds before a resume."""
        import polars as pl

        assert self.place is not None
        if self.notify is not None:
            for name in self._pieces(done):
                if name.startswith("rounds-"):
                    self._remember(pl.read_parquet(self.place / name))

    def _ask(self, done: int, rounds: "polars.DataFrame", clients: "polars.DataFrame") -> None:
        """Notifies the callbacks, and makes these rounds the last ones if they want it."""
        import polars as pl

        if self.notify is not None and self.notify(
            self.label, done, self.setup.rounds, pl.concat(self._evaluations), rounds, clients
        ):
            self.last = min(done, self.last)

    def _pieces(self, done: int) -> list[str]:
        """The files that `_keep` has written after `done` rounds, in its order."""
        tables = ("rounds", "clients") if self.setup.record_clients else ("rounds",)
        ends = [segment.end for segment in self.setup.plan if segment.end <= done]
        return [piece("rounds", 0), *(piece(table, end) for end in ends for table in tables)]

    def _notice_divergence(self, segment: Segment, objective: np.ndarray) -> None:
        for seed, values in zip(self.setup.seed_list, objective, strict=True):
            if not np.isfinite(values).all() and seed not in self._diverged:
                self._diverged[seed] = segment.first + segment.rounds * (1 + int((~np.isfinite(values)).argmax()))
                message = divergence(self.label, seed, self._diverged[seed])
                warnings.warn(message, RuntimeWarning, stacklevel=4)


def divergence(label: str, seed: int, round_: int) -> str:
    return f"{label}, seed {seed}: diverged by round {round_} (the loss is not finite); the other seeds continue"


def _first(tree: Any) -> Any:
    """The only setting of a batch of one."""
    return jax.tree.map(lambda a: np.asarray(a)[0], tree)
