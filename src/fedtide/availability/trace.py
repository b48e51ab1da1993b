"""Recorded traces."""

import dataclasses
import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from fedtide.availability.base import Numbers, Process, count_clients, lag_one
from fedtide.errors import FedtideError, require, require_each
from fedtide.streams import Stream, below
from fedtide.types import part

PastEnd = Literal["repeat", "hold"]


@part
class Trace(Process):
    """A recorded trace, replayed round by round.

    `matrix` [rounds, clients] holds which clients are available. After its end it starts again (`past_end="repeat"`,
    the default) or its last round is repeated (`"hold"`). With `random_start` each seed starts at its own uniformly
    drawn round; otherwise the trace is the same for all seeds. π is the fraction of the recorded rounds, λ the lag-1
    correlation in the record (for `"repeat"` including the pair of last and first round); 0 for clients that are always
    or never available.
    """

    matrix: Numbers
    past_end: PastEnd = "repeat"
    random_start: bool = False
    clients: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        require(self.past_end in ("repeat", "hold"), "past_end", self.past_end, "repeat or hold")
        mixed = self.random_start and self.past_end == "hold"
        wanted = "False when the last round is repeated: seeds would have traces of different lengths"
        require(not mixed, "random_start", True, wanted)
        matrix = _zeros_and_ones(self.matrix)
        self._set(matrix=matrix, clients=matrix.shape[1])

    @property
    def availability(self) -> np.ndarray:
        return np.asarray(self.matrix).mean(0)

    @property
    def correlation(self) -> np.ndarray:
        available = np.asarray(self.matrix)
        if self.past_end == "repeat":
            return lag_one(available.mean(0), (available & np.roll(available, -1, axis=0)).mean(0))
        now, after = available[:-1].astype(float), available[1:].astype(float)
        if len(now) == 0:
            return np.zeros(self.clients)
        spread = now.std(0) * after.std(0)
        covariance = (now * after).mean(0) - now.mean(0) * after.mean(0)
        return np.where(spread < 1e-12, 0, covariance / np.where(spread < 1e-12, 1, spread))

    def init(self, stream: Stream) -> Array:
        rounds = len(self.matrix)
        return below(stream.bits(0, 1)[0], rounds) if self.random_start else jnp.int32(0)

    def step(self, state: Array, stream: Stream) -> tuple[Array, Array]:
        rounds = len(self.matrix)
        after = (state + 1) % rounds if self.past_end == "repeat" else jnp.minimum(state + 1, rounds - 1)
        return jnp.asarray(self.matrix)[state], after

    @classmethod
    def from_intervals(
        cls,
        client: Any,
        start: Any,
        end: Any,
        round_length: float,
        rounds: int | None = None,
        clients: int | None = None,
        past_end: PastEnd = "repeat",
        random_start: bool = False,
    ) -> "Trace":
        """From a table of intervals, one per row: `client[i]` was available from `start[i]` to just before `end[i]`.

        Round r begins at time r · `round_length`, and a client is available in it when one of its intervals contains
        that time, at which the server invites. Intervals may overlap, touch, or extend beyond the trace. Without
        `rounds` the trace ends with the last interval; without `clients` their number follows from the largest client
        number.
        """
        client, first, last = _rounds_of(client, start, end, round_length)
        rounds = max(int(last.max(initial=0)), 1) if rounds is None else rounds
        require(rounds >= 1, "rounds", rounds, "1 or more")
        known = count_clients(clients) or int(client.max(initial=0)) + 1
        if client.size and client.max() >= known:
            require(False, "client", int(client.max()), f"in 0 … {known - 1}")
        fits = rounds * known < 2**32
        require(fits, "rounds", f"{rounds} for {known} clients", "fewer than 2³² entries in all (time starts at 0)")
        first, last = np.clip(first, 0, rounds), np.clip(last, 0, rounds)
        open_intervals = np.zeros((rounds + 1, known), np.int32)
        np.add.at(open_intervals, (first, client), 1)
        np.add.at(open_intervals, (last, client), -1)
        return cls(np.cumsum(open_intervals, axis=0)[:-1] > 0, past_end, random_start)

    @classmethod
    def load(
        cls,
        path: str | Path,
        round_length: float | None = None,
        rounds: int | None = None,
        clients: int | None = None,
        past_end: PastEnd = "repeat",
        random_start: bool = False,
        array: str | None = None,
        window: tuple[int, int] | None = None,
    ) -> "Trace":
        """From a file: a matrix [rounds, clients] of zeros and ones in `.npy` or `.npz`, or intervals in `.csv`.

        A CSV file has the header client,start,end in any order (further columns are ignored) and needs `round_length`
        in its unit of time; see `from_intervals`. An `.npz` file has one array, or one called `matrix`, or `array`
        names it. A matrix may have entries −1, where a client was not observed, if a `window` (first round, number of
        rounds) is given: the clients observed in all of it are replayed, the first `clients` of them.
        """
        path = Path(path)
        if path.suffix == ".csv":
            if round_length is None:
                raise FedtideError(f"{path}: a table of intervals needs round_length, in the table's unit of time")
            if array is not None or window is not None:
                raise FedtideError(f"{path}: array and window are for matrices, not for a table of intervals")
            try:
                client, start, end = _read_intervals(path)
                return cls.from_intervals(client, start, end, round_length, rounds, clients, past_end, random_start)
            except FedtideError as error:
                raise FedtideError(f"{path}: {error}") from error
        if path.suffix not in (".npy", ".npz"):
            raise FedtideError(f"{path}: a trace is a .npy, .npz or .csv file")
        if round_length is not None or rounds is not None:
            raise FedtideError(f"{path}: round_length and rounds are for tables of intervals, not for a matrix")
        matrix = _read_matrix(path, array)
        if window is not None:
            matrix = _observed(path, matrix, *window)[:, :clients]
        trace = cls(matrix, past_end, random_start)
        if clients is not None and trace.clients != clients:
            raise FedtideError(f"{path}: {trace.clients} clients, not {clients}")
        return trace


def trace(
    path: str | Path | None = None,
    matrix: Numbers | None = None,
    round_length: float | None = None,
    rounds: int | None = None,
    clients: int | None = None,
    past_end: PastEnd = "repeat",
    random_start: bool = False,
    array: str | None = None,
    window: tuple[int, int] | None = None,
) -> Trace:
    """A recorded trace, replayed: from a file (`path`), or given as a matrix of zeros and ones."""
    if (path is None) == (matrix is None):
        raise FedtideError("trace: give either path or matrix")
    if path is not None:
        return Trace.load(path, round_length, rounds, clients, past_end, random_start, array, window)
    if any(option is not None for option in (round_length, rounds, array, window)):
        raise FedtideError("trace: round_length, rounds, array and window are for files, not for a given matrix")
    replay = Trace(matrix, past_end, random_start)
    wanted = f"one for each of {clients} clients"
    require(clients in (None, replay.clients), "matrix", f"{replay.clients} clients", wanted)
    return replay


def _zeros_and_ones(value: Any) -> np.ndarray:
    try:
        matrix = np.asarray(value)
    except ValueError:
        matrix = np.array(np.nan)
    require(matrix.ndim == 2 and matrix.size > 0, "matrix", value, "a matrix [rounds, clients]")
    if matrix.dtype == bool:
        return matrix
    require_each((matrix == 0) | (matrix == 1), "matrix", matrix, "0 or 1")
    return matrix == 1


def _rounds_of(client: Any, start: Any, end: Any, round_length: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(client, first round, first round after) of each interval."""
    require(0 < round_length < np.inf, "round_length", round_length, "a positive number")
    try:
        columns = [np.asarray(column, np.float64) for column in (client, start, end)]
    except (TypeError, ValueError):
        columns = []
    fine = len(columns) == 3 and all(c.ndim == 1 and len(c) == len(columns[0]) for c in columns)
    require(fine, "intervals", (client, start, end), "three columns of numbers of equal length: client, start, end")
    who, start, end = columns
    require_each((who >= 0) & (who == np.floor(who)) & (who < 2**31), "client", who, "a whole number, 0 or more")
    for name, column in (("start", start), ("end", end)):
        require_each(np.isfinite(column), name, column, "a finite time")
    if (end < start).any():
        i = int((end < start).argmax())
        require(False, f"end[{i}]", float(end[i]), f"not before its start {start[i]:g}")
    # Rounded first: 1.1 / 0.1 is a little more than 11.
    first, last = (np.ceil(np.round(column / round_length, 6)).astype(np.int64) for column in (start, end))
    return who.astype(np.int64), first, last


def _observed(path: Path, matrix: np.ndarray, first: int, rounds: int) -> np.ndarray:
    """The rounds of a window, for the clients observed in all of them."""
    if matrix.ndim != 2 or first < 0 or rounds < 1 or first + rounds > len(matrix):
        raise FedtideError(f"{path}: window = {[first, rounds]}: must be rounds of the matrix, which has {len(matrix)}")
    rows = matrix[first : first + rounds]
    return rows[:, (rows != -1).all(axis=0)]


def _read_matrix(path: Path, array: str | None = None) -> np.ndarray:
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            names, listed = content.files, ", ".join(content.files) or "none"
            if array is not None and array not in names:
                raise FedtideError(f"{path}: has no array '{array}'; has {listed}")
            if array is None and "matrix" not in names and len(names) != 1:
                raise FedtideError(f"{path}: must hold one array, or one called matrix; has {listed}")
            return content[array or ("matrix" if "matrix" in names else names[0])]
    except OSError as error:
        raise FedtideError(f"{path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FedtideError(f"{path}: not a readable matrix: {str(error).splitlines()[0]}") from error


def _read_intervals(path: Path) -> np.ndarray:
    try:
        with path.open(encoding="utf-8-sig") as file:
            names = [name.strip().strip('"') for name in file.readline().split(",")]
            missing = [name for name in ("client", "start", "end") if name not in names]
            if missing:
                raise FedtideError(f"the header must name client, start and end; {missing[0]} is missing")
            columns = [names.index(name) for name in ("client", "start", "end")]
            rows = [line for line in file if line.strip()]
            if not rows:
                raise FedtideError("has no intervals, only a header")
            return np.loadtxt(rows, delimiter=",", usecols=columns, ndmin=2, quotechar='"').T
    except OSError as error:
        raise FedtideError(error.strerror or str(error)) from error
    except ValueError as error:  # also text that is not UTF-8
        raise FedtideError(f"not a readable table: {str(error).splitlines()[0]}") from error
