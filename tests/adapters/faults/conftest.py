"""A federation of three real clients, its ledger, and what a fault cost, measured."""

import json
import os
import shutil
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

collect_ignore = ["app", "slow_node.py"]
RATE, STEPS = 0.2, 2
PATIENCE = 600.0  # seconds: machines that test are busy


class Run:
    """A run of the app in `app/`, and what its ledger and checkpoint say."""

    def __init__(self, federation, folder, name, **config):
        self.federation, self.folder, self.name = federation, folder, name
        self.markers = folder / f"markers-{name}"
        self.markers.mkdir()
        plain = {"run": name, "state": str(folder / "server"), "app.markers": str(self.markers)}
        self.config = plain | {key.replace("__", "."): value for key, value in config.items()}
        self.ledger = Path(self.config.get("ledger", folder / "server" / "ledger.db"))

    def start(self):
        """Starts the server app; again where it has ended."""
        self.number = self.federation.run(self.folder / "app", self.config)

    def until(self, done, what):
        """Waits until done() is true."""
        end = time.monotonic() + PATIENCE
        while not (found := done()):
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not within {PATIENCE:.0f} s\n{self.said()[-4000:]}")
            time.sleep(0.3)
        return found

    def said(self):
        """The server app's log, which Flower keeps in its database."""
        found = _rows(self.federation.folder / "superlink.db", "select * from task_logs")
        return "".join(str(row["log"]) for row in found)

    def marked(self, marker):
        """Waits until a client or the server has come to where its fault is."""
        self.until((self.markers / marker).exists, f"marker {marker}")
        return time.time()

    def written(self, rounds):
        """Waits until so many rounds are in the ledger."""
        self.until(lambda: len(self.rounds()) >= rounds, f"{rounds} rounds")

    def finished(self):
        """Waits for the final model, as `fedtide deploy up` does: its arrays as a vector."""
        from safetensors.numpy import load_file

        path = Path(self.config["state"]) / self.name / "model.safetensors"
        asked = time.monotonic()

        def there():
            nonlocal asked
            if time.monotonic() > asked + 20:
                status, asked = self.federation.resumed(self.number), time.monotonic()
                self.number = status.run
                assert not status.finished or path.exists(), f"{status}\n{self.said()[-4000:]}"
            return path.exists()

        self.until(there, "the final model")
        return _joined(load_file(path))

    def back(self, client, after):
        """Waits until a client's update counts in a round after this one: (that round, when it ended)."""

        def counted():
            later = [t for t in self.rounds() if t > after and self.row(t, client)["included"]]
            return (min(later), self.rounds()[min(later)]["ended"]) if later else None

        return self.until(counted, f"client {client} back")

    def rounds(self):
        """The ledger's rounds, by number."""
        return {row["round"]: row for row in self._read("select * from rounds where run = ?")}

    def row(self, t, client):
        """One line of the ledger."""
        found = self._read("select * from presence where run = ?")
        return next(row for row in found if (row["round"], row["client"]) == (t, str(client)))

    def _read(self, query):
        return _rows(self.ledger, query, self.name)

    def checkpoint(self):
        """(model, rounds done) of the checkpoint."""
        from safetensors import safe_open

        with safe_open(Path(self.config["state"]) / self.name / "state.safetensors", framework="numpy") as file:
            return file.get_tensor("carry.w"), json.loads(file.metadata()["about"])["rounds"]

    def nothing_lost(self):
        """Asserts that the checkpoint's model is what the updates make that the ledger says were counted.

        One that was lost, or counted twice, or counted though refused, would move it by some 0.1.
        """
        model, done = self.checkpoint()
        rows = self._read("select * from presence where run = ?")
        assert len({(row["round"], row["client"]) for row in rows}) == len(rows)
        w = np.zeros_like(model)
        for t in range(done):
            counted = [row for row in rows if row["round"] == t and row["included"]]
            w = w - sum(row["weight"] * (w - _trained(w, int(row["client"]))) for row in counted)
        np.testing.assert_allclose(model, w, atol=1e-5)


def _trained(w, client):
    target = np.random.default_rng(client).normal(size=w.size).astype(w.dtype)
    return target + (1 - RATE) ** STEPS * (w - target)


def _rows(database, query, *values):
    if not database.exists():
        return []
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(query, values)]
    except sqlite3.OperationalError:
        return []  # it is being made
    finally:
        connection.close()


def _joined(arrays):
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays, key=int)])


@pytest.fixture(scope="session")
def runs_in():
    """(federation, folder with the app) -> (name, **config) -> a run of the app that has not been started."""
    return lambda federation, folder: lambda name, **config: Run(federation, folder, name, **config)


@pytest.fixture(scope="module")
def bench(tmp_path_factory, runs_in):
    """Three clients: .federation, its .folder, and .run(name, **config)."""
    from fedtide.adapters.deploy.local import LocalFederation

    folder = tmp_path_factory.mktemp("faults")
    shutil.copytree(Path(__file__).parent / "app", folder / "app")
    with LocalFederation(folder / "federation", 3) as federation:
        yield SimpleNamespace(federation=federation, folder=folder, run=runs_in(federation, folder))


@pytest.fixture
def record():
    """Notes what a fault cost, for `benchmarks/faults.py`, in the file that FEDTIDE_FAULTS names."""

    def note(fault, saw, rounds, seconds=None):
        line = {
            "fault": fault,
            "saw": saw,
            "rounds_lost": rounds,
            "seconds": seconds and round(seconds, 1),
            "updates_lost": 0,  # asserted before, by `nothing_lost` or by an equal model
            "load": round(os.getloadavg()[0], 1),
        }
        if "FEDTIDE_FAULTS" in os.environ:
            with Path(os.environ["FEDTIDE_FAULTS"]).open("a") as file:
                file.write(json.dumps(line) + "\n")

    return note
