"""Plain `.npz`: arrays `x`, `y` and either `is_test` (one boolean per sample) or `test_x`, `test_y`.

Or, as in Keras, `x_train`, `y_train`, `x_test`, `y_test`. Other arrays are ignored.
"""

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np

from fedtide.data.base import Arrays, Contents, File, check_count, check_size, classes_from, wrong

_LAYOUTS = (("x", "y", "test_x", "test_y"), ("x_train", "y_train", "x_test", "y_test"), ("x", "y", "is_test"))
_MOST_CLASSES = 100_000
_DAMAGE = (ValueError, AttributeError, TypeError, KeyError, RuntimeError, zipfile.BadZipFile, EOFError, zlib.error)
_KEYS = "arrays " + ", or ".join(", ".join(layout) for layout in _LAYOUTS)


def read(path: Path, expected: Contents | None = None) -> Arrays:
    """The samples of an `.npz`. Without `expected`, any shape and any number of classes is valid."""
    held = _held(path, None if expected is None else expected.most_bytes)
    x_key, y_key, *rest = held
    x, y = _samples(path, held, x_key, y_key)
    if len(rest) == 2:
        arrays = Arrays(x, y, *_samples(path, held, rest[0], rest[1]))
    else:
        test = held["is_test"]
        if test.dtype != bool or test.shape != y.shape:
            wrong(path, f"is_test with one boolean per sample expected; {test.dtype} of shape {test.shape} found")
        arrays = Arrays(x[~test], y[~test], x[test], y[test])
    if arrays.test_x.shape[1:] != arrays.x.shape[1:] or arrays.test_x.dtype != arrays.x.dtype:
        kinds = [f"{v.dtype} {v.shape[1:]}" for v in (arrays.x, arrays.test_x)]
        wrong(path, f"test samples as the training samples, {kinds[0]}, expected; {kinds[1]} found")
    if len(arrays.y) == 0:
        wrong(path, "training samples expected, none found")
    return arrays if expected is None else _checked(path, arrays, expected)


def is_data(path: Path) -> bool:
    """Whether the file contains the arrays of a data set; they are not read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _layout(archive.namelist()) is not None
    except (OSError, zipfile.BadZipFile, NotImplementedError):
        return False


def _layout(names: list[str]) -> tuple[str, ...] | None:
    there = {name.removesuffix(".npy") for name in names}
    return next((layout for layout in _LAYOUTS if there.issuperset(layout)), None)


def _held(path: Path, most: int | None) -> dict[str, np.ndarray]:
    """The arrays of the layout of the file, in its order."""
    try:
        with np.load(path, allow_pickle=False) as found:  # no pickles: an .npz may come from any source
            layout = _layout(found.files)
            if layout is None:
                wrong(path, f"{_KEYS} expected; {', '.join(sorted(found.files)) or 'nothing'} found")
            for key in layout:
                _check_header(path, found.zip, key, most)
            return {key: found[key] for key in layout}
    except MemoryError:
        wrong(path, "its arrays do not fit into memory")
    except _DAMAGE as error:
        words = "truncated or damaged" if _begins_as_zip(path) else "not an .npz file"
        reason = "; Python objects inside" if "allow_pickle" in str(error) and _begins_as_zip(path) else ""
        wrong(path, f"{words}{reason}; {_KEYS} expected")


def _check_header(path: Path, archive: zipfile.ZipFile, key: str, most: int | None) -> None:
    """Raises if the header of an array requests more memory than the file contains."""
    member = archive.getinfo(f"{key}.npy")
    if most is not None:
        check_size(f"{path}: {key}", member.file_size, most)
    if member.flag_bits & 1:
        wrong(path, f"{key} is encrypted")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read_header(file)
    size = math.prod(shape) * kind.itemsize
    if size > member.file_size and not kind.hasobject:
        wrong(
            path, f"truncated or damaged: {key} of {size:,} bytes expected from its header, {member.file_size:,} found"
        )


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def _samples(path: Path, held: dict[str, np.ndarray], x_key: str, y_key: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = held[x_key], held[y_key]
    if x.ndim < 2 or x.dtype.kind not in "uf" or (x.dtype.kind == "u" and x.dtype != np.uint8):
        wrong(path, f"{x_key} of uint8 or floats [samples, …] expected, {x.dtype} of shape {x.shape} found")
    if y.ndim != 1 or y.dtype.kind not in "iu" or len(y) != len(x):
        wrong(path, f"{y_key} of {len(x):,} whole numbers expected, {y.dtype} of shape {y.shape} found")
    if len(y) and int(y.min()) < 0:
        wrong(path, f"classes 0, 1, … expected in {y_key}, {int(y.min())} found")
    if len(y) and int(y.max()) >= _MOST_CLASSES:
        wrong(path, f"classes below {_MOST_CLASSES:,} expected in {y_key}, {int(y.max())} found")
    if x.dtype.kind == "f":
        if not np.isfinite(x).all():
            wrong(path, f"finite numbers expected in {x_key}, NaN or ∞ found")
        x = x.astype(np.float32)
    return x, y.astype(np.int32)


def _checked(path: Path, arrays: Arrays, expected: Contents) -> Arrays:
    file = File(str(path), b"")
    check_count(file, "training samples", len(arrays.y), expected.train, expected.test)
    check_count(file, "test samples", len(arrays.test_y), expected.test, expected.train)
    if arrays.x.shape[1:] != expected.shape or arrays.x.dtype != np.uint8:
        wrong(path, f"uint8 images of shape {expected.shape} expected, {arrays.x.dtype} {arrays.x.shape[1:]} found")
    for labels in (arrays.y, arrays.test_y):
        classes_from(file, labels, expected.classes)
    return arrays
