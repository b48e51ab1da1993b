"""Losses, evaluation and optima of classification problems, against references and by hand."""

import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from sklearn.linear_model import LogisticRegression

from fedtide.errors import FedtideError, InvalidInput
from fedtide.problems import Model, Samples, classification, softmax_regression
from fedtide.problems import classification as build

RIDGE = 1e-2
SIZES = np.array([30, 50, 45])

evaluate = jax.jit(lambda problem, w: problem.evaluate(w))


def clients(sizes=SIZES, inputs=4, classes=3, seed=0):
    """Clients with noisy linear labels; every class occurs at each."""
    rng = np.random.default_rng([seed])
    pairs = []
    for size in sizes:
        x = rng.normal(size=(size, inputs))
        y = (x @ rng.normal(size=(inputs, classes)) + rng.gumbel(size=(size, classes))).argmax(axis=1)
        y[:classes] = np.arange(classes)[:size]
        pairs.append((x, y))
    return pairs


@pytest.fixture(scope="module")
def problem():
    return build(softmax_regression(4, 3), clients(), clients((6, 0, 9), seed=1), ridge=RIDGE)


def reference(x, y, sample_weight=None, ridge=RIDGE):
    """scikit-learn's minimiser of Σ weight · cross-entropy + (ridge/2) ‖w‖²: (W, the bias its last column; value)."""
    weight = np.full(len(y), 1 / len(y)) if sample_weight is None else sample_weight
    x = np.hstack([x, np.ones((len(x), 1))])  # the bias is penalised too
    # scikit-learn minimises Σ weight · loss + ‖w‖² / (2C); weights of mean 1 keep its tolerances meaningful.
    fit = LogisticRegression(C=1 / (ridge * len(y)), fit_intercept=False, tol=1e-12, max_iter=10_000)
    fit.fit(x, y, sample_weight=weight * len(y))
    logits = x @ fit.coef_.T
    top = logits.max(axis=1)
    loss = top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) - logits[np.arange(len(y)), y]
    return fit.coef_, weight @ loss + ridge / 2 * (fit.coef_**2).sum()


def test_client_optima_agree_with_scikit_learn(problem):
    expected = [reference(x, y)[1] for x, y in clients()]
    np.testing.assert_allclose(problem.client_optima(), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("weights", "p"), [(None, np.ones(3) / 3), ("size", SIZES / 125), ([1.4, 0.0, 0.6], np.array([0.7, 0.0, 0.3]))]
)
def test_optimum_agrees_with_scikit_learn(problem, weights, p):
    x, y = (np.concatenate(v) for v in zip(*clients(), strict=True))
    w, _ = reference(x, y, np.repeat(p / SIZES, SIZES))
    found = problem.optimum(weights)
    np.testing.assert_allclose(found["weight"], w[:, :-1], atol=2e-6)
    np.testing.assert_allclose(found["bias"], w[:, -1], atol=2e-6)


@pytest.mark.parametrize("ridge", [1e-2, 1e-5])
def test_the_gradient_vanishes_at_the_optimum(ridge):
    problem = build(softmax_regression(4, 3), clients(), ridge=ridge)
    found = problem.optimum([0.2, 0.3, 0.5])
    with jax.enable_x64(True):

        def objective(w):
            return (jnp.array([0.2, 0.3, 0.5]) * problem.evaluate(w).train_loss).sum()

        gradient, _ = ravel_pytree(jax.jit(jax.grad(objective))(found))
    assert gradient.dtype == np.float64
    assert np.linalg.norm(gradient) < 1e-11


def test_optima_are_in_float64_for_models_that_make_float32_parameters(problem):
    exact = problem.client_optima()
    model = softmax_regression(4, 3)
    single = Model(lambda key: jax.tree.map(lambda p: p.astype(jnp.float32), model.init(key)), model.apply)
    other = build(single, clients(), ridge=RIDGE)
    np.testing.assert_allclose(other.client_optima(), exact, rtol=1e-10)


def test_losses_and_evaluation_agree_with_their_definition(problem):
    rng = np.random.default_rng(5)
    w = {"bias": jnp.asarray(rng.normal(size=3)), "weight": jnp.asarray(rng.normal(size=(3, 4)))}

    def by_hand(x, y):
        logits = x @ np.asarray(w["weight"], float).T + np.asarray(w["bias"], float)
        loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y]
        return loss, logits.argmax(axis=1) == y

    penalty = RIDGE / 2 * sum((np.asarray(p) ** 2).sum() for p in w.values())
    assert float(problem.penalty(w)) == pytest.approx(penalty, rel=1e-6)
    found = evaluate(problem, w)
    train = [by_hand(x, y)[0].mean() + penalty for x, y in clients()]
    np.testing.assert_allclose(found.train_loss, train, rtol=1e-5)
    for k, (x, y) in enumerate(clients((6, 0, 9), seed=1)):
        if k == 1:  # no test samples
            assert np.isnan(found.test_loss[k])
            assert np.isnan(found.test_accuracy[k])
        else:
            loss, correct = by_hand(x, y)
            assert float(found.test_loss[k]) == pytest.approx(loss.mean(), rel=1e-5)
            assert float(found.test_accuracy[k]) == pytest.approx(correct.mean(), rel=1e-6)
    x, y = clients()[1]
    losses = jax.jit(lambda s: problem.losses(w, s))(np.array([30, 33]))
    np.testing.assert_allclose(losses, by_hand(x, y)[0][[0, 3]], rtol=1e-5)


def test_evaluation_in_chunks_changes_nothing(problem, monkeypatch):
    w = {"bias": jnp.arange(3.0), "weight": jnp.arange(12.0).reshape(3, 4) / 10}
    whole = evaluate(problem, w)
    for chunk in (25, 7):  # whole chunks only; chunks and a rest
        monkeypatch.setattr(sys.modules["fedtide.problems.classification"], "_EVALUATION_CHUNK", chunk)
        for a, b in zip(whole, jax.jit(lambda problem, w: problem.evaluate(w))(problem, w), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_class_accuracy_is_over_all_test_samples_of_a_class(problem):
    w = {"bias": jnp.arange(3.0), "weight": jnp.arange(12.0).reshape(3, 4) / 10}
    x, y = (np.concatenate(v) for v in zip(*clients((6, 0, 9), seed=1), strict=True))
    right = (x @ np.asarray(w["weight"]).T + np.asarray(w["bias"])).argmax(axis=1) == y
    expected = [right[y == label].mean() for label in range(3)]
    np.testing.assert_allclose(evaluate(problem, w).class_accuracy, expected, rtol=1e-6)
    without = [(x, np.where(y == 2, 1, y)) for x, y in clients((6, 0, 9), seed=1)]
    found = evaluate(build(softmax_regression(4, 3), clients(), without, ridge=RIDGE), w).class_accuracy
    assert np.isnan(found).tolist() == [False, False, True]


def test_padding_changes_nothing(problem):
    padded = problem.padded(160, 20)
    assert (len(padded.x), len(padded.y), len(padded.test_x), len(padded.test_y)) == (160, 160, 20, 20)
    w = {"bias": jnp.arange(3.0), "weight": jnp.arange(12.0).reshape(3, 4) / 10}
    for a, b in zip(evaluate(problem, w), evaluate(padded, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_array_equal(problem.label_counts, padded.label_counts)
    np.testing.assert_array_equal(problem.client_optima(), padded.client_optima())
    for a, b in zip(problem.optimum().values(), padded.optimum().values(), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(*(jax.tree.leaves(p.hold_out(0.3)) for p in (problem, padded)), strict=True):
        np.testing.assert_array_equal(a, b)
    again = padded.padded(130, 15)  # what is nobody's may go again
    assert (len(again.x), len(again.test_x)) == (130, 15)
    with pytest.raises(InvalidInput, match=r"^samples = 100: must be 125 or more, the number of samples"):
        problem.padded(100, 20)
    with pytest.raises(InvalidInput, match=r"^test_samples = 14: must be 15 or more, the number of samples"):
        problem.padded(160, 14)
    untested = evaluate(build(softmax_regression(4, 3), clients(), ridge=RIDGE).padded(160, 20), w)
    assert not untested.tested.any()
    assert np.isnan(untested.test_accuracy).all()
    assert np.isnan(untested.class_accuracy).all()


def test_any_pair_of_functions_is_a_model():
    def init(key):
        return [jnp.sin(jnp.arange(32.0)).reshape(4, 8), {"out": jnp.cos(jnp.arange(24.0)).reshape(8, 3)}]

    def apply(params, x):
        return jnp.tanh(x @ params[0]) @ params[1]["out"]

    problem = build((init, apply), clients(), ridge=RIDGE)
    w = problem.init(jax.random.key(0))
    losses = jax.jit(lambda problem, w: problem.losses(w, jnp.arange(30)) + problem.penalty(w))(problem, w)
    start = np.asarray(evaluate(problem, w).train_loss)
    assert start[0] == pytest.approx(float(losses.mean()), rel=1e-5)
    assert (problem.client_optima() < start / 2).all()


def test_samples_of_any_shape_and_whole_numbers():
    images = np.random.default_rng(0).integers(0, 255, (5, 2, 2), dtype=np.uint8)
    problem = build(softmax_regression((2, 2), 2), [(images, [0, 1, 0, 1, 1])])
    assert problem.x.dtype == np.uint8
    loss = evaluate(problem, problem.init(jax.random.key(0))).train_loss
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-6)
    assert build(softmax_regression(1, 2), [([[0.5]], [1])]).x.dtype == np.float64
    assert build(softmax_regression(1, 2), [(np.ones((1, 1), np.float16), [1])]).x.dtype == np.float32


def test_importance_uniform_by_size_or_given():
    def alpha(importance):
        return np.asarray(build(softmax_regression(4, 3), clients(), importance=importance).importance)

    np.testing.assert_allclose(alpha("uniform"), [1 / 3] * 3)
    np.testing.assert_allclose(alpha("size"), SIZES / 125)
    np.testing.assert_allclose(alpha([2, 0, 6]), [0.25, 0, 0.75])


def test_equal_models_are_one_object():
    assert softmax_regression(4, 3) is softmax_regression(4, 3)


def changed(client, x=None, y=None):
    pairs = clients()
    pairs[client] = (pairs[client][0] if x is None else x, pairs[client][1] if y is None else y)
    return {"train": pairs}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (changed(1, x=np.full((50, 4), np.nan)), "train[1]: NaN or infinite values in x or y; all must be finite"),
        (changed(2, y=np.full(45, np.nan)), "train[2]: NaN or infinite values in x or y; all must be finite"),
        (changed(1, x=np.ones((0, 4)), y=np.ones(0)), "train[1] = '0 samples': must be 1 or more for each client"),
        (changed(1, y=np.zeros(49, int)), "train[1] = '50 x, 49 y': must be as many x as y"),
        (changed(1, x=np.ones((50, 5))), "shape of a sample of train[1] = (5,): must be (4,), as train[0]"),
        (changed(0, y=np.full(30, 3)), "train y = array([3], dtype=int32): must be in 0 … 2: the model has 3 logits"),
        (changed(0, y=np.full(30, -1)), "train y = array([-1], dtype=int32): must be in 0 … 2: the model has 3 logits"),
        (changed(0, y=np.full((30, 1), 1)), "shapes of train[0] = ((30, 4), (30, 1)): must be x [n, …] and y [n]"),
        (changed(0, y=np.array(["a"] * 30)), "types of train[0] = ('float64', 'str32'): must be numbers"),
        ({"train": []}, "train = 'no clients': must be one (x, y) pair for each client"),
        ({"test": clients()[:2]}, "test = '2 clients': must be 3, as train"),
        ({"test": clients(inputs=2)}, "shape of test x = (2,): must be (4,), as train"),
        ({"ridge": -1.0}, "ridge = -1.0: must be 0 or more"),
        ({"importance": "sizes"}, "importance = 'sizes': must be uniform, size, or one number for each client"),
        ({"importance": [1.0, 1.0]}, "shape of importance = (2,): must be (3,): one number for each client"),
        ({"importance": [1.0, -1.0, 1.0]}, "importance = array([ 1., -1., 1.]): must be ≥ 0, finite, not all 0"),
        ({"importance": [1.0, np.nan, 1.0]}, "importance = array([ 1., nan, 1.]): must be ≥ 0, finite, not all 0"),
        (
            {"model": (lambda key: jnp.zeros(4), lambda w, x: x @ w)},
            "model.apply(params, x [1, …]) = (1,): must be logits of shape (1, classes)",
        ),
    ],
)
def test_errors_are_one_line_that_names_what_is_wrong(arguments, line):
    with pytest.raises(FedtideError) as caught:
        classification(**{"model": softmax_regression(4, 3), "train": clients(), **arguments})
    assert str(caught.value) == line


def test_fractional_labels_and_a_model_of_another_shape_are_refused():
    with pytest.raises(InvalidInput, match="whole numbers: the classes"):
        classification(softmax_regression(4, 3), **changed(0, y=np.full(30, 0.5)))
    with pytest.raises(FedtideError, match=r"^model: cannot be applied to x of shape \(1, 4\): [^\n]*$"):
        classification(softmax_regression(5, 3), clients())
    with pytest.raises(InvalidInput, match=r"^shape of weights = \(2,\)"):
        build(softmax_regression(4, 3), clients()).optimum([0.5, 0.5])


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.99])
def test_hold_out_partitions_every_client_s_samples(blobs, fraction):
    held = blobs.hold_out(fraction, seed=3)
    np.testing.assert_array_equal(held.sizes + held.test_sizes, blobs.sizes)
    assert held.sizes.min() >= 1
    assert held.test_sizes.min() >= 1
    edges = [np.cumsum([0, *sizes]) for sizes in (blobs.sizes, held.sizes, held.test_sizes)]
    for client in range(len(blobs.sizes)):
        whole, kept, out = (
            np.column_stack([x[a[client] : a[client + 1]], y[a[client] : a[client + 1]]])
            for (x, y), a in zip(((blobs.x, blobs.y), (held.x, held.y), (held.test_x, held.test_y)), edges, strict=True)
        )
        together = np.concatenate([kept, out])
        np.testing.assert_array_equal(together[np.lexsort(together.T)], whole[np.lexsort(whole.T)])
    again, other = blobs.hold_out(fraction, seed=3), blobs.hold_out(fraction, seed=4)
    np.testing.assert_array_equal(held.test_x, again.test_x)
    assert not np.array_equal(held.test_x, other.test_x)
    assert held.importance is blobs.importance


def test_hold_out_leaves_a_single_sample_where_it_is():
    x, y = np.zeros((1, 2), np.float32), np.zeros(1, int)
    problem = classification(softmax_regression(2, 2), [(x, y), (np.ones((2, 2), np.float32), np.array([0, 1]))])
    held = problem.hold_out(0.5)
    assert held.sizes.tolist() == [1, 1]
    assert held.test_sizes.tolist() == [0, 1]
    with pytest.raises(FedtideError, match=r"fraction = 1: must be in \(0, 1\)"):
        problem.hold_out(1)


def test_samples_of_all_clients_are_the_same_problem_as_pairs():
    split = clients((6, 3, 9))
    x, y = (np.concatenate(v) for v in zip(*split, strict=True))
    model, flat = softmax_regression(4, 3), Samples(x, y, [6, 3, 9])
    pairs, flat = (classification(model, one, one) for one in (split, flat))
    jax.tree.map(np.testing.assert_array_equal, pairs, flat)
    assert flat.test_sizes.tolist() == [6, 3, 9]
    assert classification(softmax_regression(4, 3), Samples(x, y, [6, 3, 9])).test_sizes.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([6, 3], "sum of train.sizes = 9: must be 18, the number of samples"),
        ([9, -1, 10], "train.sizes = -1: must be 0 or more"),
        ([9.0, 9.0], "train.sizes = [9.0, 9.0]: must be one whole number for each client"),
        ([], "train.sizes = []: must be one whole number for each client"),
        ([18, 0], "train[1] = '0 samples': must be 1 or more for each client"),
    ],
)
def test_bad_sizes_are_refused(sizes, message):
    x, y = (np.concatenate(v) for v in zip(*clients((6, 3, 9)), strict=True))
    with pytest.raises(FedtideError, match=f"^{re.escape(message)}$"):
        classification(softmax_regression(4, 3), Samples(x, y, sizes))
