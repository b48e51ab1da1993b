"""The built-in models as PyTorch modules, and `load`, which fills one with a trained model from the folder of a run.

    module = load(lenet5((28, 28), 10), "runs/phones", "CA-Fed", seed=0)
    module(x).argmax(dim=1)

Parameters have the same names and shapes on both sides. x is as in Fedtide's data sets: [b, …], with images as
[b, height, width] or [b, height, width, channels]; divide bytes by 255 first. Needs torch and safetensors, not Fedtide.
"""

import json
import math
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn
from torch.nn import functional as F


def load(module: nn.Module, folder: str, method: str, seed: int = 0) -> nn.Module:
    """The module with the parameters of that method and seed."""
    with safe_open(Path(folder) / "models.safetensors", framework="pt") as file:
        number = json.loads(file.metadata()["seeds"]).index(seed)
        module.load_state_dict({name: file.get_tensor(f"{method}/{name}")[number] for name in module.state_dict()})
    return module.eval()


class SoftmaxRegression(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.flatten(1))


class MLP(nn.Module):
    def __init__(self, inputs: int, classes: int, hidden=(128, 128)):
        super().__init__()
        widths = (inputs, *hidden, classes)
        for i in range(len(widths) - 1):
            self.add_module(f"dense{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        *before, last = self.children()
        x = x.flatten(1)
        for layer in before:
            x = F.leaky_relu(layer(x))
        return last(x)


class SmallCNN(nn.Module):
    """Convolutions of 5 × 5, the first `pools` of them followed by pooling, then dense layers."""

    def __init__(self, shape, classes, channels, hidden, pools, activation, padding):
        super().__init__()
        height, width, before = (*shape, 1)[:3]
        steps = []
        for i, outputs in enumerate(channels):
            pad = padding(i, min(height, width))
            self.add_module(f"conv{i + 1}", nn.Conv2d(before, outputs, 5, padding=pad))
            height, width, before = height + 2 * pad - 4, width + 2 * pad - 4, outputs
            pool = 2 if i < pools and min(height, width) > 1 else 1
            height, width = height // pool, width // pool
            steps.append(pool)
        widths = (before * height * width, *hidden, classes)
        for i in range(len(widths) - 1):
            self.add_module(f"dense{i + 1}", nn.Linear(widths[i], widths[i + 1]))
        self.steps, self.activation = steps, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layers, x = list(self.children()), images(x)
        for layer, pool in zip(layers, self.steps, strict=False):
            x = self.activation(F.max_pool2d(layer(x), pool))
        *before, last = layers[len(self.steps) :]
        x = x.flatten(1)
        for layer in before:
            x = self.activation(layer(x))
        return last(x)


def fashion_cnn(shape, classes, channels=(6, 16), hidden=(120, 84)) -> SmallCNN:
    return SmallCNN(shape, classes, channels, hidden, len(channels), F.leaky_relu, lambda i, size: 2)


def lenet5(shape, classes, channels=(6, 16, 120), hidden=(84,)) -> SmallCNN:
    padding = lambda i, size: 2 if size < (5 if i else 32) else 0  # noqa: E731
    return SmallCNN(shape, classes, channels, hidden, len(channels) - 1, F.relu, padding)


def cifar_cnn(shape, classes, channels=(32, 64), hidden=(2048,)) -> SmallCNN:
    return SmallCNN(shape, classes, channels, hidden, len(channels), F.relu, lambda i, size: 2 if size < 5 else 0)


class Normalised(nn.Module):
    """A convolution of 3 × 3 without bias, then GroupNorm."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(math.gcd(32, outputs), outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)))


class ResNet9(nn.Module):
    def __init__(self, shape, classes: int, width: int = 64):
        super().__init__()
        self.prep = Normalised((*shape, 1)[2], width)
        self.layer1 = Normalised(width, 2 * width)
        self.residual1a, self.residual1b = Normalised(2 * width, 2 * width), Normalised(2 * width, 2 * width)
        self.layer2 = Normalised(2 * width, 4 * width)
        self.layer3 = Normalised(4 * width, 8 * width)
        self.residual3a, self.residual3b = Normalised(8 * width, 8 * width), Normalised(8 * width, 8 * width)
        self.dense = nn.Linear(8 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(self.layer1(self.prep(images(x))), 2)
        x = x + self.residual1b(self.residual1a(x))
        x = F.max_pool2d(self.layer3(F.max_pool2d(self.layer2(x), 2)), 2)
        x = x + self.residual3b(self.residual3a(x))
        return self.dense(x.amax(dim=(2, 3)))


def images(x: torch.Tensor) -> torch.Tensor:
    """[b, channels, height, width] from images with their channels last, if they have any."""
    return x.unsqueeze(1) if x.ndim == 3 else x.movedim(-1, 1)
