"""Problems: clients' data, a model and a loss."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

from fedtide.errors import check_one_of
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
    build: Callable[..., Problem]

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.build) or "").split("\n")[0]


CATALOGUE: dict[str, Entry] = {
    "quadratic": Entry("quadratic", random_quadratic),
    **{b.__name__: Entry(b.__name__, b) for b in (synthetic_leaf, synthetic_clustered, blobs, digits, images)},
}
"""The problems by their names in configurations; all their arguments have defaults."""


def find(name: str) -> Entry:
    """The catalogue's entry of that name."""
    check_one_of("problem", name, CATALOGUE)
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
