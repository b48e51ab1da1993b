import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fedtide.errors import InvalidInput
from fedtide.streams import Purpose, Stream
from fedtide.work import Epochs, FullBatch, RandomEpochs, RandomSteps, Steps, StepsPerClient

SIZES = np.array([1, 2, 7, 8, 9, 16, 63])


def minibatches(work, size: int, steps: int, client: int = 3, t: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(positions [steps, b], mask [steps, b]) of a client's first steps in a round."""
    position, present = drawn(work, client, size, t, steps=steps)
    return np.asarray(position), np.asarray(present)


@functools.partial(jax.jit, static_argnames="steps")
def drawn(work, client, size, t, steps: int):
    stream = Stream(1, Purpose.MINIBATCH, t)
    return jax.vmap(lambda i: work.minibatch(stream, client, size, i))(jnp.arange(steps))


def steps_of(work, t: int = 0):
    """Steps of all clients in a round."""
    return work.steps(Stream(1, Purpose.WORK, t), jnp.arange(len(SIZES)), jnp.asarray(SIZES))


def test_steps_are_the_same_for_all():
    assert steps_of(Steps(4, 8)) == 4
    assert steps_of(FullBatch(3).fit(SIZES)) == 3


def test_a_full_batch_is_as_large_as_the_largest_client():
    assert FullBatch(3).fit(SIZES).largest == 63
    assert FullBatch(3, largest=70).fit(SIZES).largest == 70
    with pytest.raises(InvalidInput, match=r"work.largest = 5: must be 63 or more"):
        FullBatch(largest=5).fit(SIZES)


def test_random_steps_are_uniform_over_both_ends():
    drawn = np.array([steps_of(RandomSteps(2, 5), t) for t in range(400)])
    assert stats.chisquare(np.bincount(drawn.ravel(), minlength=6)[2:]).pvalue > 1e-7  # the chance of a false alarm
    assert (drawn != drawn[0]).any()
    fixed = np.array([steps_of(RandomSteps(2, 5, fixed=True), t) for t in range(5)])
    np.testing.assert_array_equal(fixed, np.tile(fixed[0], (5, 1)))
    assert len(np.unique(fixed[0])) > 1


def test_the_most_steps_a_client_can_be_asked_for():
    sizes = jnp.asarray(SIZES)
    for work, most in (
        (Steps(4), 4),
        (FullBatch(3), 3),
        (RandomSteps(2, 9), 9),
        (Epochs(3, batch=8), 24),
        (RandomEpochs(1, 3, batch=8), 24),
    ):
        assert int(work.most(sizes)) == most
    assert int(StepsPerClient(np.array([1, 7, 2])).most(sizes[:3])) == 7


def test_a_pass_is_all_samples_once():
    np.testing.assert_array_equal(Steps(4, 8).steps_per_epoch(SIZES), [1, 1, 1, 1, 2, 2, 8])
    assert FullBatch().steps_per_epoch(SIZES) == 1


def test_steps_draw_with_replacement_and_evenly():
    position, present = minibatches(Steps(4000, batch=6), size=13, steps=4000)
    assert position.shape == (4000, 6)
    assert present.all()
    counts = np.bincount(position.ravel(), minlength=13)
    assert len(counts) == 13
    assert stats.chisquare(counts).pvalue > 1e-7  # the chance of a false alarm
    repeats = [len(np.unique(row)) < 6 for row in position]
    # Six draws from 13 hold a repeat with probability 0.744; 5.5 standard errors: 4e-8.
    expected = 1 - np.prod(1 - np.arange(6) / 13)
    assert abs(np.mean(repeats) - expected) < 5.5 * (expected * (1 - expected) / 4000) ** 0.5


@pytest.mark.parametrize("batch", [3, 4, 6])
def test_steps_share_no_numbers(batch: int):
    # With a large client two equal minibatches would mean a shared address.
    position, _ = minibatches(Steps(50, batch), size=2**20, steps=50)
    assert len(np.unique(position, axis=0)) == 50
    other_client, _ = minibatches(Steps(50, batch), size=2**20, steps=50, client=4)
    other_round, _ = minibatches(Steps(50, batch), size=2**20, steps=50, t=1)
    assert not (position == other_client).all(1).any()
    assert not (position == other_round).all(1).any()


def test_a_client_may_have_its_own_number_of_steps():
    counts = np.array([0, 1, 2, 3, 5, 8, 13])
    work = StepsPerClient(counts, batch=6)
    np.testing.assert_array_equal(steps_of(work), counts)
    same = minibatches(Steps(13, batch=6), size=63, steps=13)
    np.testing.assert_array_equal(minibatches(work, size=63, steps=13), same)
    with pytest.raises(InvalidInput, match=r"work.counts = '7 entries': must be one for each of 3 clients"):
        work.fit(SIZES[:3])


def test_epochs_take_as_many_steps_as_the_data_need():
    np.testing.assert_array_equal(steps_of(Epochs(3, batch=8)), [3, 3, 3, 3, 6, 6, 24])


@pytest.mark.parametrize("size", SIZES)
def test_each_epoch_covers_every_sample_exactly_once(size: int):
    steps_per_epoch = -(-int(size) // 8)
    position, present = minibatches(Epochs(24, batch=8), int(size), steps=24)
    for epoch in range(24 // steps_per_epoch):
        steps = slice(epoch * steps_per_epoch, (epoch + 1) * steps_per_epoch)
        np.testing.assert_array_equal(np.sort(position[steps][present[steps]]), np.arange(size))
        # Only the last minibatch of a pass may be smaller.
        np.testing.assert_array_equal(
            present[steps].sum(1), [8] * (steps_per_epoch - 1) + [size - 8 * (steps_per_epoch - 1)]
        )


def test_random_epochs_are_passes_whose_number_is_drawn_as_that_of_random_steps():
    steps, epochs = RandomSteps(2, 5), RandomEpochs(2, 5, batch=8)
    passes = -(-SIZES // 8)
    for t in range(20):
        np.testing.assert_array_equal(steps_of(epochs, t), steps_of(steps, t) * passes)
    fixed = RandomEpochs(2, 5, batch=8, fixed=True)
    np.testing.assert_array_equal(steps_of(fixed, 1), steps_of(fixed, 7))
    np.testing.assert_array_equal(minibatches(epochs, 63, steps=24), minibatches(Epochs(3, batch=8), 63, steps=24))
    # FedNova's experiments: with 256 to 6,528 samples in minibatches of 32, 2 to 5 epochs are 16 to 1,020 steps.
    assert [int(RandomEpochs(2, 5).most(jnp.array([size]))) for size in (256, 6528)] == [40, 1020]
    with pytest.raises(InvalidInput, match=r"work.high = 400000000: must be at most"):
        RandomEpochs(2, 400_000_000, batch=8).fit(SIZES)


def test_epochs_are_reshuffled():
    position, present = minibatches(Epochs(24, batch=8), 63, steps=24)
    orders = [tuple(position[8 * e : 8 * e + 8][present[8 * e : 8 * e + 8]]) for e in range(3)]
    for other in ({"client": 4}, {"t": 1}):
        position, present = minibatches(Epochs(24, batch=8), 63, steps=24, **other)
        orders.append(tuple(position[:8][present[:8]]))
    assert len(set(orders)) == 5


@pytest.mark.parametrize("size", SIZES)
def test_full_batches_are_all_samples(size: int):
    position, present = minibatches(FullBatch(largest=63, count=2), int(size), steps=2)
    for row, mask in zip(position, present, strict=True):
        np.testing.assert_array_equal(row[mask], np.arange(size))
        assert row.max() < size


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Steps(-1), "work.count = -1: must be a whole number, 0 or more"),
        (lambda: Steps(1, batch=0), "work.batch = 0: must be a whole number, 1 or more"),
        (lambda: Epochs(-1), "work.count = -1"),
        (lambda: Epochs(1, batch=0), "work.batch = 0"),
        (lambda: StepsPerClient([1.5, 2.0]), "work.counts = .*: must be one integer per client"),
        (lambda: StepsPerClient([1, -2]), "0 or more steps for every client"),
        (lambda: StepsPerClient([1], batch=0), "work.batch = 0"),
        (lambda: FullBatch(largest=0), "work.largest = 0"),
        (lambda: FullBatch(-1), "work.count = -1"),
        (lambda: RandomSteps(3, 2), "work.high = 2: must be 3 or more"),
        (lambda: RandomSteps(-1, 2), "work.low = -1"),
        (lambda: RandomEpochs(3, 2), "work.high = 2: must be 3 or more"),
    ],
)
def test_bad_work(build, message: str):
    with pytest.raises(InvalidInput, match=message):
        build()
