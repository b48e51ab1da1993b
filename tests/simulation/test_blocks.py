"""Seeds in blocks: the records of the run that has them together."""

import shutil

import numpy as np
import pytest

from fedtide.errors import CheckpointError
from fedtide.methods import fedavg
from fedtide.simulation.blocks import Sharing, read_sharing, rounds_done, write_sharing
from fedtide.simulation.simulate import simulate


def stop(*progress):
    raise KeyboardInterrupt


def test_blocks_that_changed_are_noticed(blobs, chains, tmp_path):
    """More seeds in a block, fewer, or all in one: the checkpoints are of others."""
    run = {"rounds": 4, "seeds": 4, "evaluate_every": 2}
    with pytest.raises(KeyboardInterrupt):
        simulate(blobs, chains, fedavg(), **run, out=tmp_path / "a", progress=stop)
    shutil.rmtree(tmp_path / "a" / "checkpoints" / "000")
    write_sharing(tmp_path / "a", Sharing(2))
    with pytest.raises(KeyboardInterrupt):
        simulate(
            blobs, chains, fedavg(), **run, out=tmp_path / "a", resume=True,
            progress=lambda label, done, total: stop() if done == 2 else None,
        )  # fmt: skip
    for size in (1, 3, 4):
        write_sharing(tmp_path / "a", Sharing(size))
        with pytest.raises(CheckpointError, match=r"belongs to another run|does not belong to this run"):
            simulate(blobs, chains, fedavg(), **run, out=tmp_path / "a", resume=True)


def test_blocks_change_no_bit(as_shipped, blobs, chains, tmp_path):
    methods = {"a": fedavg(rate=0.1), "b": fedavg(rate=0.05)}  # one program
    run = {"rounds": 100, "seeds": [4, 1, 9, 2], "evaluate_every": 25, "history": 5}
    whole = simulate(blobs, chains, methods, **run)
    folder = tmp_path / "apart"
    with pytest.raises(KeyboardInterrupt):  # before its first round
        simulate(blobs, chains, methods, **run, out=folder, progress=stop)
    (folder / "checkpoints" / "000" / "rounds-00000000.parquet").unlink()
    write_sharing(folder, Sharing(2))
    heard = []
    with pytest.raises(KeyboardInterrupt):  # in the second block of the second method
        simulate(
            blobs, chains, methods, **run, out=folder, resume=True,
            progress=lambda *said: (heard.append(said), stop() if said[:2] == ("b", 75) else None),
        )  # fmt: skip
    assert heard[:4] == [("a", 0, 100), ("a", 25, 100), ("a", 50, 100), ("a", 50, 100)]
    assert rounds_done(folder / "checkpoints" / "001" / "0000") == 100
    found = simulate(blobs, chains, methods, **run, out=folder, resume=True)
    for name in ("rounds", "clients"):
        assert getattr(found, name).equals(getattr(whole, name))
    for label, models in whole.models.items():
        np.testing.assert_array_equal(found.models[label], models)
    assert found.about["memory"] == whole.about["memory"]


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"seeds": 0}', '{"seeds": "two"}', '{"seeds": true}', '{"seeds": 2, "on": "mars"}',
     '{"seeds": 2, "cpus": "1"}', '{"seeds": 2, "gpus": -1}'],
)  # fmt: skip
def test_a_damaged_description_is_refused(tmp_path, text):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "blocks.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"blocks\.json: "):
        read_sharing(tmp_path, 2)
