"""Models, each a pair of pure functions."""

from collections.abc import Callable

from fedtide.problems.models.base import Compute, Model
from fedtide.problems.models.linear import softmax_regression
from fedtide.problems.models.perceptron import mlp
from fedtide.problems.models.resnet import resnet9
from fedtide.problems.models.small_cnn import cifar_cnn, fashion_cnn, lenet5

MODELS: dict[str, Callable[..., Model]] = {
    build.__name__: build for build in (softmax_regression, mlp, fashion_cnn, lenet5, cifar_cnn, resnet9)
}
"""The builders by name: `build(inputs, classes, …)`."""

__all__ = ["MODELS", "Compute", "Model", "cifar_cnn", "fashion_cnn", "lenet5", "mlp", "resnet9", "softmax_regression"]
