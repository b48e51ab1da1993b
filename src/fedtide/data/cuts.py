"""Small data sets: deterministic parts of larger ones, and the embedded digits."""

import numpy as np

from fedtide.data.base import Arrays

_TEST = 5  # every fifth sample is a test sample if there is no official split


def every_fifth(labels: np.ndarray) -> np.ndarray:
    """Marks every fifth sample, with samples ordered by class: a fifth of each class, up to one sample.

    >>> every_fifth(np.array([0, 1, 0, 0, 1, 0, 0, 1, 1, 1])).tolist()
    [False, False, False, False, False, False, True, False, False, True]
    """
    marked = np.zeros(len(labels), bool)
    marked[np.argsort(labels, kind="stable")[_TEST - 1 :: _TEST]] = True
    return marked


def mnist10k(full: Arrays) -> Arrays:
    """The first 10,000 training digits; every fifth of a class is a test digit."""
    x, y = full.x[:10_000], full.y[:10_000]
    test = every_fifth(y)
    return Arrays(x[~test], y[~test], x[test], y[test])


def balanced(train: int, test: int, full: Arrays) -> Arrays:
    """The first training and test samples of each class, in their order."""
    kept, test_kept = _first_of_each(full.y, train), _first_of_each(full.test_y, test)
    return Arrays(full.x[kept], full.y[kept], full.test_x[test_kept], full.test_y[test_kept])


def digits() -> Arrays:
    """The 8 × 8 digits of scikit-learn, pixels 0 … 16 as 0 … 255; every fifth of a class is a test digit."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = np.rint(images.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    y = labels.astype(np.int32)
    test = every_fifth(y)
    return Arrays(x[~test], y[~test], x[test], y[test])


def _first_of_each(labels: np.ndarray, count: int) -> np.ndarray:
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order], side="left")
    return np.sort(order[np.arange(len(labels)) - starts < count])
