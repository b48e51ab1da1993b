"""Interrupted at any segment, a resumed run is the run that was never interrupted."""

import errno

import numpy as np
import pytest
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import fedtide
from fedtide.errors import CheckpointError
from fedtide.simulation.simulate import simulate

METHODS = {"FedAvg": fedtide.methods.fedavg(), "CA-Fed": fedtide.methods.ca_fed()}
OPTIONS = {"rounds": 120, "seeds": 2, "evaluate_every": 25}  # segments end at 50, 100 and 120


class Stop(Exception):
    pass


def stop_at(label: str, round_: int):
    def progress(current: str, done: int, total: int) -> None:
        if (current, done) == (label, round_):
            raise Stop

    return progress


@pytest.fixture(scope="module")
def whole(blobs, chains):
    return simulate(blobs, chains, METHODS, **OPTIONS)


def same(a: fedtide.Result, b: fedtide.Result) -> bool:
    equal = a.rounds.equals(b.rounds) and a.clients.equals(b.clients)
    return equal and all((a.models[label] == b.models[label]).all() for label in METHODS)


@pytest.mark.parametrize("where", [("FedAvg", 0), ("FedAvg", 50), ("FedAvg", 120), ("CA-Fed", 0), ("CA-Fed", 100)])
def test_resumed_is_uninterrupted(blobs, chains, whole, tmp_path, where):
    with pytest.raises(Stop):
        simulate(blobs, chains, METHODS, **OPTIONS, out=tmp_path / "run", progress=stop_at(*where))
    found = simulate(blobs, chains, METHODS, **OPTIONS, out=tmp_path / "run", resume=True)
    assert same(found, whole)
    assert same(fedtide.Result.load(tmp_path / "run"), whole)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_stopped_twice(blobs, chains, whole, tmp_path):
    for n, where in enumerate([("FedAvg", 50), ("CA-Fed", 50)]):
        with pytest.raises(Stop):
            simulate(blobs, chains, METHODS, **OPTIONS, out=tmp_path / "r", resume=n > 0, progress=stop_at(*where))
    assert same(simulate(blobs, chains, METHODS, **OPTIONS, out=tmp_path / "r", resume=True), whole)


@pytest.fixture
def interrupted(blobs, chains, tmp_path):
    with pytest.raises(Stop):
        simulate(blobs, chains, METHODS, **OPTIONS, out=tmp_path / "run", progress=stop_at("FedAvg", 50))
    return tmp_path / "run"


def state_of(folder):
    return folder / "checkpoints" / "000" / "state.safetensors"


def test_killed_between_records_and_state(blobs, chains, whole, interrupted):
    """Records of a segment whose state was never written are written again, identically."""
    torn = interrupted / "checkpoints" / "000" / "rounds-00000100.parquet"
    torn.write_bytes(b"half")
    assert same(simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True), whole)


def test_a_flipped_bit_is_noticed(blobs, chains, interrupted):
    content = bytearray(state_of(interrupted).read_bytes())
    content[-1] ^= 1
    state_of(interrupted).write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged checkpoint"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)


def change(path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert content.count(old) >= 1
    path.write_bytes(content.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"rounds":"50"', b'"rounds":"10"'),
        (b'"rounds":"50"', b'"rounds":"xx"'),
        (b'"dtype":"F32"', b'"dtype":"I32"'),
        (b'"records":"', b'"recorde":"'),
        (b'"run":"', b'"rum":"'),
    ],
    ids=["fewer rounds", "no number", "type", "no records", "no run"],
)
def test_a_changed_header_is_noticed(blobs, chains, interrupted, old, new):
    """All that resuming reads is in the digest, not only the numbers."""
    change(state_of(interrupted), old, new)
    with pytest.raises(CheckpointError, match="damaged checkpoint"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)


def test_a_changed_shape_is_noticed(blobs, chains, interrupted):
    """The same bytes under another shape."""
    with safe_open(state_of(interrupted), framework="numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = next(name for name, tensor in tensors.items() if tensor.size > 1)
    save_file(tensors | {name: tensors[name].reshape(-1)}, state_of(interrupted), metadata=metadata)
    with pytest.raises(CheckpointError, match="damaged checkpoint"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)


def test_another_version_is_refused(blobs, chains, interrupted):
    change(state_of(interrupted), b"fedtide-checkpoint-3", b"fedtide-checkpoint-2")
    with pytest.raises(CheckpointError, match="not a checkpoint of this version of fedtide") as error:
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("keep", [0, 5, 60])
def test_a_truncated_checkpoint_is_noticed(blobs, chains, interrupted, keep):
    state_of(interrupted).write_bytes(state_of(interrupted).read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="damaged checkpoint"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)


def test_a_foreign_checkpoint_is_refused(blobs, chains, interrupted):
    other = {**METHODS, "FedAvg": fedtide.methods.fedavg(rate=0.2)}
    with pytest.raises(CheckpointError, match="belongs to another run"):
        simulate(blobs, chains, other, **OPTIONS, out=interrupted, resume=True)
    with pytest.raises(CheckpointError, match="seeds was"):
        simulate(blobs, chains, METHODS, **(OPTIONS | {"seeds": 3}), out=interrupted, resume=True)


@pytest.mark.parametrize("table", ["rounds", "clients"])
def test_lost_or_damaged_records_are_noticed(blobs, chains, interrupted, table):
    part = interrupted / "checkpoints" / "000" / f"{table}-00000050.parquet"
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="damaged"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)
    part.unlink()
    with pytest.raises(CheckpointError, match="missing"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)


@pytest.fixture
def twins(blobs, chains, tmp_path):
    """A run of a method under two names, stopped in the second."""
    methods = {"a": METHODS["FedAvg"], "b": METHODS["FedAvg"]}
    with pytest.raises(Stop):
        simulate(blobs, chains, methods, **OPTIONS, out=tmp_path / "run", progress=stop_at("b", 100))
    return tmp_path / "run", lambda: simulate(blobs, chains, methods, **OPTIONS, out=tmp_path / "run", resume=True)


def swap(one, other):
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize("table", ["rounds", "clients"])
@pytest.mark.parametrize(
    ("one", "other"), [("000/{}-00000050", "000/{}-00000100"), ("000/{}-00000050", "001/{}-00000050")]
)
def test_swapped_records_are_noticed(twins, table, one, other):
    """Each is whole, and of this run; but not of this segment, or of this method."""
    folder, resume = twins
    swap(*(folder / "checkpoints" / f"{name.format(table)}.parquet" for name in (one, other)))
    with pytest.raises(CheckpointError, match=r"checkpoints.000: records are damaged or replaced"):
        resume()


def test_swapped_methods_are_noticed(twins):
    folder, resume = twins
    swap(folder / "checkpoints" / "000", folder / "checkpoints" / "001")
    with pytest.raises(CheckpointError, match="belongs to another run"):
        resume()


@pytest.mark.parametrize(
    "stray",
    ["002/state.safetensors", "002", "001/0000", "000/0000/rounds-00000050.parquet", "000/rounds-00000060.parquet",
     "000/clients-00000000.parquet", "rounds-00000050.parquet", "notes.txt"],
)  # fmt: skip
def test_strays_are_noticed(blobs, chains, interrupted, stray):
    path = interrupted / "checkpoints" / stray
    if path.suffix:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((interrupted / "checkpoints" / "000" / "rounds-00000050.parquet").read_bytes())
    else:
        path.mkdir(parents=True)
    with pytest.raises(CheckpointError, match="does not belong to this run; move it elsewhere"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)


def test_hidden_files_are_the_systems(blobs, chains, whole, interrupted):
    (interrupted / "checkpoints" / "000" / ".DS_Store").touch()
    assert same(simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True), whole)


def test_other_labels_or_records_are_another_run(blobs, chains, interrupted):
    renamed = {"Z": METHODS["FedAvg"], "CA-Fed": METHODS["CA-Fed"]}
    with pytest.raises(CheckpointError, match="methods was"):
        simulate(blobs, chains, renamed, **OPTIONS, out=interrupted, resume=True)
    with pytest.raises(CheckpointError, match="record_clients was"):
        simulate(blobs, chains, METHODS, **OPTIONS, record_clients=False, out=interrupted, resume=True)


@pytest.mark.parametrize("content", ["{}", "[]", '{"finished": fal'])
def test_a_foreign_description_is_refused(blobs, chains, interrupted, content):
    (interrupted / "run.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"run\.json"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)


def test_an_existing_folder_is_left_alone(blobs, chains, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(fedtide.FedtideError, match="exists and is not empty"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


def test_nothing_to_resume(blobs, chains, tmp_path):
    with pytest.raises(fedtide.FedtideError, match=r"no run\.json"):
        simulate(blobs, chains, METHODS, **OPTIONS, out=tmp_path / "none", resume=True)


def test_a_full_disk_loses_nothing(blobs, chains, whole, interrupted, monkeypatch):
    """A write that fails leaves the last checkpoint, no litter, and a run that can go on."""
    from safetensors import numpy as writer

    before = state_of(interrupted).read_bytes()

    def full(*arguments, **options):
        raise SafetensorError(f"I/O error: No space left on device (os error {errno.ENOSPC})")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "save_file", full)
        with pytest.raises(OSError, match="No space left") as fault:
            simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True)
    assert (fault.value.errno, fault.value.filename) == (errno.ENOSPC, str(state_of(interrupted)))
    assert state_of(interrupted).read_bytes() == before
    assert not list(state_of(interrupted).parent.glob(".state*"))
    assert same(simulate(blobs, chains, METHODS, **OPTIONS, out=interrupted, resume=True), whole)


def test_save_and_load_are_inverse(whole, tmp_path):
    whole.save(tmp_path / "saved")
    found = fedtide.Result.load(tmp_path / "saved")
    assert same(found, whole)
    assert found.about == whole.about
    np.testing.assert_array_equal(found.models["FedAvg"], whole.models["FedAvg"])


def test_divergence_before_an_interruption_is_still_reported(blobs, chains, tmp_path):
    methods = {"FedAvg": fedtide.methods.fedavg(rate=1e30), "CA-Fed": METHODS["CA-Fed"]}
    with pytest.warns(RuntimeWarning, match="diverged"):
        expected = simulate(blobs, chains, methods, **OPTIONS).about["warnings"]
    with pytest.warns(RuntimeWarning, match="diverged"), pytest.raises(Stop):
        simulate(blobs, chains, methods, **OPTIONS, out=tmp_path / "run", progress=stop_at("CA-Fed", 50))
    found = simulate(blobs, chains, methods, **OPTIONS, out=tmp_path / "run", resume=True)
    assert found.about["warnings"] == expected
    assert len(expected) == 2
