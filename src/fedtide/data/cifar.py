"""CIFAR-10 and CIFAR-100, in the two formats of their authors: "binary version" and "python version".

An image is 3 × 1024 bytes: red, green, blue, each row by row. In the binary version, one byte with the class (or, in
CIFAR-100, two: superclass and class) comes before each image; the python version is a dictionary with all of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtide.data.base import Arrays, Contents, File, check_bytes, check_count, classes_from, wrong
from fedtide.data.unpickle import unpickled


def read_binary(files: Sequence[File], expected: Contents, *, label_bytes: int = 1) -> Arrays:
    """Training batches, then the test batch. The class is the last of the label bytes."""
    batches = []
    for file, count in zip(files, _counts(files, expected), strict=True):
        length = label_bytes + _pixels(expected)
        check_bytes(file, len(file.content), count * length, f"{count:,} × {length:,}")
        rows = np.frombuffer(file.content, np.uint8).reshape(count, length)
        labels = classes_from(file, rows[:, label_bytes - 1], expected.classes)
        batches.append((_images(rows[:, label_bytes:], expected), labels))
    return _joined(batches)


def read_python(files: Sequence[File], expected: Contents, *, labels: str = "labels") -> Arrays:
    """Training batches, then the test batch. `labels` is the key of the classes."""
    batches = []
    for i, (file, count) in enumerate(zip(files, _counts(files, expected), strict=True)):
        batch = unpickled(file)
        _check_part(file, batch, i, len(files) - 1)
        missing = [key for key in ("data", labels) if key not in batch]
        if missing:
            wrong(file.where, f"'data' and '{labels}' expected, {', '.join(map(repr, sorted(batch)))} found")
        rows = batch["data"]
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.shape[1:] != (_pixels(expected),):
            found = f"{rows.dtype} of shape {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
            wrong(file.where, f"'data' of uint8 [{count:,}, {_pixels(expected):,}] expected, {found} found")
        check_count(file, "images", len(rows), (count,), ())
        batches.append((_images(rows, expected), classes_from(file, _list(file, batch[labels]), expected.classes)))
        check_count(file, "labels", len(batches[-1][1]), (count,), ())
    return _joined(batches)


def _counts(files: Sequence[File], expected: Contents) -> list[int]:
    batches = len(files) - 1
    return [expected.train[0] // batches] * batches + [expected.test[0]]


def _pixels(expected: Contents) -> int:
    return int(np.prod(expected.shape))


def _images(rows: np.ndarray, expected: Contents) -> np.ndarray:
    height, width, channels = expected.shape
    return np.ascontiguousarray(rows.reshape(-1, channels, height, width).transpose(0, 2, 3, 1))


def _joined(batches: list[tuple[np.ndarray, np.ndarray]]) -> Arrays:
    x, y = (np.concatenate(v) for v in zip(*batches[:-1], strict=True))
    return Arrays(x, y, *batches[-1])


def _check_part(file: File, batch: dict[str, Any], index: int, training: int) -> None:
    """Checks the label of a batch, if it has one."""
    kind, number, total = ("training", index + 1, training) if index < training else ("testing", 1, 1)
    label, expected = batch.get("batch_label"), f"{kind} batch {number} of {total}"
    label = label.decode("latin-1") if isinstance(label, bytes) else label
    if not isinstance(label, str | None):
        wrong(file.where, f"'{expected}' expected as batch_label, {type(label).__name__} found")
    if label is not None and label != expected:
        wrong(file.where, f"'{expected}' expected, '{label}' found; are files swapped?")


def _list(file: File, labels: Any) -> np.ndarray:
    whole = isinstance(labels, list) and all(type(label) is int and abs(label) < 2**31 for label in labels)
    if not whole:
        wrong(file.where, "a list of whole numbers below 2³¹ expected as labels")
    return np.array(labels, np.int64)
