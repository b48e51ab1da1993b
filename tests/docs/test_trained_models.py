"""A trained model predicts the same in other libraries."""

import math
import runpy
from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from fedtide.problems import models
from fedtide.simulation.models import layout_of, write_models

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pytorch_models.py"

CASES = {  # (the model, its sample, the module of the example)
    "softmax_regression": (models.softmax_regression, (8, 8), lambda torch: torch["SoftmaxRegression"](64, 5)),
    "mlp": (models.mlp, (8, 8), lambda torch: torch["MLP"](64, 5)),
    "fashion_cnn": (models.fashion_cnn, (28, 28), lambda torch: torch["fashion_cnn"]((28, 28), 5)),
    "lenet5": (models.lenet5, (28, 28), lambda torch: torch["lenet5"]((28, 28), 5)),
    "lenet5 on small images": (models.lenet5, (8, 8), lambda torch: torch["lenet5"]((8, 8), 5)),
    "cifar_cnn": (models.cifar_cnn, (32, 32, 3), lambda torch: torch["cifar_cnn"]((32, 32, 3), 5)),
    "resnet9": (models.resnet9, (16, 16, 3), lambda torch: torch["ResNet9"]((16, 16, 3), 5)),
}


def trained(build, shape, folder):
    """Writes models of two seeds; returns the second one's apply."""
    model = build(shape, 5)
    row, unravel = ravel_pytree(model.init(jax.random.key(0)))
    rows = np.stack([row, row + 0.1 * jax.random.normal(jax.random.key(1), row.shape) / math.sqrt(row.size)])
    write_models(folder / "models.safetensors", {"FedAvg": rows}, layout_of(model), [7, 3])
    return jax.jit(lambda x: jax.nn.softmax(model.apply(unravel(rows[1]), x)))


@pytest.mark.parametrize("case", CASES)
def test_pytorch_predicts_the_same(case, tmp_path):
    torch = pytest.importorskip("torch", reason="needs pip install torch")
    build, shape, module_of = CASES[case]
    predict = trained(build, shape, tmp_path)
    example = runpy.run_path(str(EXAMPLE))
    module = example["load"](module_of(example), tmp_path, "FedAvg", seed=3)
    x = np.random.default_rng(0).random((6, *shape), np.float32)
    with torch.no_grad():
        found = module(torch.from_numpy(x)).softmax(dim=1).numpy()
    wanted = np.asarray(predict(x))
    assert wanted.std(axis=0).max() > 1e-4  # predictions that depend on the sample
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.skipif(find_spec("onnxruntime") is None or find_spec("torch") is None, reason="needs onnxruntime, torch")
def test_onnx_predicts_the_same(tmp_path):
    torch, runtime = pytest.importorskip("torch"), pytest.importorskip("onnxruntime")
    predict, example = trained(models.lenet5, (8, 8), tmp_path), runpy.run_path(str(EXAMPLE))
    module = example["load"](example["lenet5"]((8, 8), 5), tmp_path, "FedAvg", seed=3)
    x = np.random.default_rng(0).random((6, 8, 8), np.float32)
    torch.onnx.export(module, (torch.from_numpy(x),), tmp_path / "model.onnx", input_names=["x"])
    (logits,) = runtime.InferenceSession(tmp_path / "model.onnx").run(None, {"x": x})
    np.testing.assert_allclose(jax.nn.softmax(logits), predict(x), atol=1e-6)
