"""A client that sends its reply at a snail's pace: the round ends at its deadline, with everybody else."""

import shutil
import sys
from pathlib import Path

import pytest

from fedtide.adapters.deploy.local import LocalFederation

pytestmark = pytest.mark.slow


class Mixed(LocalFederation):
    """Its last node is the slow one."""

    def command(self, name):
        command = super().command(name)
        if name != "node-2":
            return command
        program = str(Path(__file__).with_name("slow_node.py"))
        return [sys.executable, "-P", program, *command[command.index("--insecure") :]]


def test_a_reply_that_does_not_end_delays_nobody(tmp_path, runs_in, record):
    shutil.copytree(Path(__file__).parent / "app", tmp_path / "app")
    marker = tmp_path / "slow"
    with Mixed(tmp_path / "federation", 3, environment={"FEDTIDE_SLOW": str(marker)}) as federation:
        run = runs_in(federation, tmp_path)("slow", rounds=200, **{"deadline.start": 20.0, "deadline.most": 20.0})
        run.start()
        run.written(2)
        assert all(run.row(1, k)["included"] for k in range(3))
        marker.touch()
        run.until(tmp_path.joinpath("stuck").exists, "a reply that has begun")
        begun = len(run.rounds())
        run.written(begun + 3)  # the round in which it began, and two more
        missed = [t for t in run.rounds() if t >= 2 and not run.row(t, 2)["included"]]
        assert {run.row(t, 2)["reason"] for t in missed} == {"no-reply"}
        assert len(missed) >= 2
        assert all(run.row(t, k)["included"] for t in missed for k in (0, 1))
        marker.unlink()
        last = max(missed)
        back, when = run.back(2, last)
        run.nothing_lost()
        record(
            "a client sends its reply without end", "no-reply", back - min(missed), when - run.rounds()[last]["ended"]
        )
