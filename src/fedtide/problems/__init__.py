"""Problems: clients' data, a model and a loss."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from fedtide.errors import InvalidInput, one_of
from fedtide.problems.blobs import blobs
from fedtide.problems.classification import Classification, ModelBuilder, classification
from fedtide.problems.digits import digits
from fedtide.problems.images import images
from fedtide.problems.models import MODELS, Model, cifar_cnn, fashion_cnn, lenet5, mlp, resnet9, softmax_regression
from fedtide.problems.quadratic import Quadratic, quadratic, random_quadratic
from fedtide.problems.synthetic_clustered import synthetic_clustered
from fedtide.problems.synthetic_leaf import synthetic_leaf
from fedtide.types import Problem


class Entry(NamedTuple):
    """A problem in the catalogue."""

    name: str
    summary: str
    build: Callable[..., Problem]


def _entry(name: str, build: Callable[..., Any]) -> Entry:
    return Entry(name, (inspect.getdoc(build) or "").split("\n")[0], build)


CATALOGUE: dict[str, Entry] = {
    name: _entry(name, build)
    for name, build in {
        "quadratic": random_quadratic,
        "synthetic_leaf": synthetic_leaf,
        "synthetic_clustered": synthetic_clustered,
        "blobs": blobs,
        "digits": digits,
        "images": images,
    }.items()
}
"""The problems that a configuration can name; all their arguments have defaults."""


def find(name: str) -> Entry:
    """The catalogue's entry of that name."""
    if name not in CATALOGUE:
        raise InvalidInput("problem", name, one_of(name, CATALOGUE))
    return CATALOGUE[name]


__all__ = [
    "CATALOGUE",
    "MODELS",
    "Classification",
    "Entry",
    "Model",
    "ModelBuilder",
    "Quadratic",
    "blobs",
    "cifar_cnn",
    "classification",
    "digits",
    "fashion_cnn",
    "find",
    "images",
    "lenet5",
    "mlp",
    "quadratic",
    "random_quadratic",
    "resnet9",
    "softmax_regression",
    "synthetic_clustered",
    "synthetic_leaf",
]
