"""Small problems in the plane, with classes that only rarely available users have."""

import functools
import math
from typing import Literal

import jax
import numpy as np
from jax import Array

from fedtide.errors import check_one_of, require, whole
from fedtide.kinds import kinds_checked
from fedtide.partitioners.rare_pattern import rare_pattern
from fedtide.problems.classification import Classification, ModelBuilder, classification
from fedtide.problems.images import dealt
from fedtide.problems.importance import Importance
from fedtide.problems.models import Model
from fedtide.types import Params

Case = Literal["three_users", "four_classes", "thirty_users"]

_SPREAD, _HIDDEN = 0.1, 64


@kinds_checked
def blobs(
    case: Case = "three_users",
    seed: int = 0,
    *,
    model: ModelBuilder | None = None,
    published: bool = False,
    ridge: float = 0.0,
    importance: Importance = "uniform",
    points: int = 1000,
) -> Classification:
    """Gaussian blobs in the plane, with the last class held only by the rarest users: three cases of the CVaR paper.

    Every class has `points` points around its centre, with standard deviation 0.1 in both directions.

    * three_users: centres (1, 1), (2, 3), (2.3, 1.5), one user each; 80 % train.
    * four_classes: centres (1, 1), (2, 3), (3, 1.5), (2, 0.5); the last of three users has the last two; 90 % train.
    * thirty_users: the centres of the first; the last 6 of 30 users share the last class, the other 24 the two others,
      equal sizes in each set; 80 % train.

    The paper's users are available with probabilities (0.5, 0.4, 0.1), or 30 descending ones: `random_access`. The
    model is a 2-64-C ReLU network unless given, initialised as in PyTorch (uniform within ± 1/√inputs). `published`
    follows the authors' code: weights start at 0 (biases do not: no gradient would flow), the cross-entropy is applied
    to a softmax, and the last user of four_classes has its first class twice.

    Reference: Theodoropoulos, Nikolakakis and Kalogerias, "Federated learning under restricted user availability",
    2023, with the authors' notebooks for the centres and splits.
    """
    check_one_of("case", case, Case)
    require(seed >= 0, "seed", seed, "0 or more")
    points = whole("points", points, 10, 100_000_000)
    require(not (published and model is not None), "model", model, "left out where published = True, which has its own")
    last = [(3.0, 1.5), (2.0, 0.5)] if case == "four_classes" else [(2.3, 1.5)]
    centres = np.array([(1.0, 1.0), (2.0, 3.0), *last])
    rng = np.random.default_rng([seed, 0])
    x = (centres[:, None] + _SPREAD * rng.standard_normal((len(centres), points, 2))).astype(np.float32)
    y = np.repeat(np.arange(len(centres))[:, None], points, axis=1)
    cut = round((0.9 if case == "four_classes" else 0.8) * points)
    (train_x, train_y), (test_x, test_y) = (
        (x[:, part].reshape(-1, 2), y[:, part].ravel()) for part in (slice(cut), slice(cut, None))
    )
    users = _users(case, train_y, seed, twice=published)
    labels = [train_y[mine] for mine in users]
    build = functools.partial(relu_network, published=published) if model is None else model
    return classification(
        build((2,), len(centres)),
        [(train_x[mine], mine_y) for mine, mine_y in zip(users, labels, strict=True)],
        [(test_x[mine], test_y[mine]) for mine in dealt(test_y, labels, [seed, 1])],
        ridge=ridge,
        importance=importance,
    )


def _users(case: Case, labels: np.ndarray, seed: int, *, twice: bool) -> list[np.ndarray]:
    if case == "thirty_users":
        return rare_pattern(labels, 30, (2,), 6, seed=seed)
    owned = [(0,), (1,), ((2, 2, 3) if twice else (2, 3)) if case == "four_classes" else (2,)]
    return [np.concatenate([np.flatnonzero(labels == label) for label in mine]) for mine in owned]


@functools.cache
def relu_network(inputs: tuple[int, ...], classes: int, *, published: bool = False) -> Model:
    """One hidden layer of 64 ReLU units; `published` as in `blobs`."""
    size = math.prod(inputs)

    def init(key: Array) -> Params:
        shapes = {"hidden": (_HIDDEN, size), "out": (classes, _HIDDEN)}
        params = {}
        for own, (name, (units, fan_in)) in zip(jax.random.split(key), shapes.items(), strict=True):
            drawn = jax.random.uniform(own, (units, fan_in + 1), minval=-1, maxval=1) / math.sqrt(fan_in)
            weight = drawn[:, :-1]
            params[name] = {"bias": drawn[:, -1], "weight": 0 * weight if published else weight}
        return params

    def apply(params: Params, x: Array) -> Array:
        hidden, out = params["hidden"], params["out"]
        active = jax.nn.relu(hidden["weight"] @ x.reshape(len(x), -1).T + hidden["bias"][:, None])
        logits = (out["weight"] @ active + out["bias"][:, None]).T
        return jax.nn.softmax(logits) if published else logits

    return Model(init, apply)
