"""A run whose server app Flower has lost is started again."""

import inspect

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from fedtide.adapters.deploy.local import LocalFederation

LOST = {"status": "finished:failed", "status-details": "No heartbeat received from the task"}


class Told(LocalFederation):
    """Flower's commands answer as they are told; what was run is kept."""

    def __init__(self, folder, **answer):
        super().__init__(folder, 1)
        self.answer, self.ran = answer, []

    def flwr(self, *arguments):
        if arguments[0] == "list":
            return {"runs": [self.answer]}
        self.ran.append(arguments)
        return {"run-id": len(self.ran)}


def interrupted():
    """What Flower says of a server app that was sending when SuperLink was killed."""
    from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

    return LOST | {"status-details": f"ServerApp failed with exception: {ObjectPushError('1f', 2, '3')}"}


@pytest.mark.parametrize("found", [LOST, interrupted()])
def test_a_lost_server_app_is_started_again_as_it_was(tmp_path, found):
    federation = Told(tmp_path, **found)
    run = federation.run(tmp_path / "app", {"rounds": 3})
    status = federation.resumed(run)
    assert (status.run, status.finished) == (2, False)
    assert federation.ran[0] == federation.ran[1]


def test_one_that_is_lost_again_and_again_is_given_up(tmp_path):
    federation = Told(tmp_path, **LOST)
    status = federation.status(federation.run(tmp_path / "app"))
    for _ in range(10):
        status = federation.resumed(status.run)
    assert status.finished
    assert len(federation.ran) == 4


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "running", "status-details": "N/A"},
        {"status": "finished:completed", "status-details": ""},
        {"status": "finished:stopped", "status-details": "Run stopped by user"},
        {"status": "finished:failed", "status-details": "ServerApp failed with exception: no space left"},
    ],
)
def test_others_are_not(tmp_path, answer):
    federation = Told(tmp_path, **answer)
    run = federation.run(tmp_path / "app")
    assert federation.resumed(run).text == answer["status"]
    assert len(federation.ran) == 1


def test_flower_says_so_in_these_words():
    """The sentence is Flower's: another version may say it otherwise."""
    from flwr.supercore.corestate import sql_corestate

    assert f'details="{LOST["status-details"]}"' in inspect.getsource(sql_corestate)
