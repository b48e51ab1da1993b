"""Small real images that need no download."""

import numpy as np

from fedtide.errors import require
from fedtide.kinds import kinds_checked
from fedtide.partitioners.dirichlet import dirichlet
from fedtide.problems.classification import Classification, classification
from fedtide.problems.importance import Importance
from fedtide.problems.models import Model, softmax_regression


@kinds_checked
def digits(
    clients: int = 20,
    concentration: float = 0.3,
    seed: int = 0,
    *,
    ridge: float = 1e-2,
    importance: Importance = "uniform",
    smallest: int = 10,
    test_fraction: float = 0.2,
    model: Model | None = None,
) -> Classification:
    """Handwritten digits (1,797 real images of 8×8 pixels, 10 classes), split over clients by a Dirichlet distribution.

    The smaller the `concentration`, the fewer classes a client has. Pixels are scaled to [0, 1]; `test_fraction` of a
    client's images are its test set. The model is softmax regression unless given. The images come with scikit-learn.

    Reference: Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI Machine Learning Repository, 1998.
    """
    from sklearn.datasets import load_digits

    require(0 <= test_fraction < 1, "test_fraction", test_fraction, "in [0, 1)")
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    train, test = [], []
    for mine in dirichlet(labels, clients, concentration, smallest=smallest, seed=seed):
        cut = len(mine) - int(test_fraction * len(mine))
        train.append((images[mine[:cut]], labels[mine[:cut]]))
        test.append((images[mine[cut:]], labels[mine[cut:]]))
    return classification(model or softmax_regression(64, 10), train, test, ridge=ridge, importance=importance)
