"""Problems: clients' data, a model and a loss."""

from fedtide import data
from fedtide.catalogue import Catalogue, Entry
from fedtide.errors import InvalidInput
from fedtide.problems.blobs import blobs
from fedtide.problems.classification import Classification, ModelBuilder, Samples, classification
from fedtide.problems.digits import digits
from fedtide.problems.flip_labels import flip_labels
from fedtide.problems.images import images
from fedtide.problems.models import MODELS, Model, cifar_cnn, fashion_cnn, lenet5, mlp, resnet9, softmax_regression
from fedtide.problems.quadratic import Quadratic, quadratic, random_quadratic
from fedtide.problems.synthetic_clustered import synthetic_clustered
from fedtide.problems.synthetic_leaf import synthetic_leaf
from fedtide.types import Problem

CATALOGUE: Catalogue[Entry[Problem]] = Catalogue(
    "problem",
    Entry("quadratic", random_quadratic),
    *(Entry(b.__name__, b) for b in (synthetic_leaf, synthetic_clustered, blobs, digits, images)),
)
"""The problems by their names in configurations; all their arguments have defaults."""


def find(name: str) -> Entry[Problem]:
    """The problem of that name; `FedtideError` with the nearest names if there is none."""
    if isinstance(name, str) and name not in CATALOGUE and name in data.CATALOGUE:
        raise InvalidInput("problem", name, f'"images", with data = "{name}" for this data set')
    return CATALOGUE.find(name)


__all__ = [
    "CATALOGUE",
    "MODELS",
    "Classification",
    "Model",
    "ModelBuilder",
    "Quadratic",
    "Samples",
    "blobs",
    "cifar_cnn",
    "classification",
    "digits",
    "fashion_cnn",
    "find",
    "flip_labels",
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
