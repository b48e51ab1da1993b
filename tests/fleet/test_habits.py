"""Devices' own days: measured, drawn, and kept by a generator."""

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from fedtide.errors import InvalidInput
from fedtide.fleet import Fleet, Habits, Slots, fit
from fedtide.fleet.fitting.habits import Recurring, clock_without, habits, own_days
from fedtide.fleet.model import Profile
from fedtide.fleet.process.simulable import simulable
from fedtide.fleet.process.waves import RANGE, balance, bent, drawn, waves

DEVICES, ROUNDS = 80, 48 * 7
DAY = 0.4 * np.sin(2 * np.pi * np.arange(24) / 24)
CLOCK = Profile(np.zeros(24), np.zeros(24), DAY, None)
WEEK = [0.1, 0.1, 0.1, 0.1, 0.0, -0.2, -0.2]


def record(sigma: float, seed: int, hide=None) -> tuple[Slots, np.ndarray, np.ndarray, np.ndarray]:
    """A fleet whose habits are known: its rounds, π, hours and habits."""
    generator = np.random.default_rng([seed, 3])
    pi, hours = generator.uniform(0.15, 0.7, DEVICES), generator.uniform(1, 3, DEVICES)
    habit = drawn(sigma, DEVICES, generator)
    here = Fleet(pi, hours, DAY, habit=habit if sigma else None).sample(seed, ROUNDS)
    state = here.astype(np.int8) if hide is None else hide(here, seed)
    return Slots(state, tuple(map(str, range(DEVICES))), 1800, 0, None), pi, hours, habit


@pytest.mark.parametrize("weekday", [None, WEEK])
def test_a_day_averages_to_each_clients_own(weekday):
    pi = np.array([0.0, 0.05, 0.5, 0.97, 1.0])
    process = Fleet(pi, 2.0, 2 * DAY, weekday, habit=drawn(2.0, 5, np.random.default_rng(0)), start_second=7200)
    found = np.asarray(jax.vmap(process.marginal)(jnp.arange(48 if weekday is None else 336)), float)
    np.testing.assert_allclose(found.mean(0), pi, atol=2e-6)
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-6
    assert np.ptp(found[:48, 2]) > 0.5
    np.testing.assert_array_equal(process.marginal(5), process.marginal(5 + 336 * 1000))


def test_no_habits_and_habits_of_nothing_are_the_same_process():
    arguments = {"availability": [0.2, 0.5, 0.9], "hours": 2.0, "profile": DAY}
    plain, nothing = Fleet(**arguments), Fleet(**arguments, habit=np.zeros((3, 8)))
    assert plain.balance is None
    np.testing.assert_allclose(nothing.balance, 0, atol=1e-12)
    np.testing.assert_allclose(nothing.persistence, plain.persistence, rtol=1e-9)
    np.testing.assert_array_equal(nothing.sample(0, 200), plain.sample(0, 200))


def test_the_wanted_correlation_is_reached_with_habits_and_clusters():
    process = Fleet(
        [0.2, 0.3, 0.5, 0.6], 3.0, DAY, None, [0, 0, -1, -1], [0.4], 4.0, habit=drawn(0.5, 4, np.random.default_rng(1))
    )
    np.testing.assert_allclose(process.correlation, np.exp(-0.5 / 3), rtol=1e-9)


def test_runs_of_devices_with_habits_have_the_wanted_correlation():
    classes = ((0.25, 0.6, 1.5, 6.0, 12.0), (0.3, 0.3, 0.1, 0.3))
    process = Fleet(
        np.full(400, 0.4), 3.0, DAY, stays=classes, absences=classes, habit=drawn(0.6, 400, np.random.default_rng(2))
    )
    here = process.sample(0, 48 * 10)
    again = (here[1:] & here[:-1]).mean()
    assert process.correlation == pytest.approx(np.full(400, np.exp(-0.5 / 3)), rel=1e-9)
    # 400 clients, ten days, forgotten in three hours: 30,000 independent rounds and more; 5.5 standard errors.
    assert abs(again - (0.16 + np.exp(-0.5 / 3) * 0.24)) < 5.5 * np.sqrt(0.24 / 30_000)


def test_balance_keeps_means_and_odds():
    generator = np.random.default_rng(3)
    presence, wave = generator.uniform(0, 1, (20, 48)), 3 * generator.standard_normal((20, 48))
    presence[0], presence[1] = 0, 1
    off = balance(presence, wave)
    found = bent(presence, wave - off[:, None])
    np.testing.assert_allclose(found.mean(1), presence.mean(1), atol=1e-11)
    inner, before = found[2:], presence[2:]
    odds = inner / (1 - inner) / (before / (1 - before))
    np.testing.assert_allclose(np.log(odds), (wave - off[:, None])[2:], rtol=1e-6)


def test_habits_are_measured(hide):
    slots, pi, hours, truth = record(0.6, 0, hide)
    found = habits(slots, CLOCK, pi, hours)
    assert found is not None
    own = found[0]
    assert 0.01 < own.sigma_se < 0.12
    # Normal, as sums over devices are: outside of four standard errors with probability 1e-4.
    assert abs(own.sigma - 0.6) < 4 * own.sigma_se
    days = own_days(slots, CLOCK, pi, hours, own.sigma)
    first, second = np.sqrt((days[:, :2] ** 2).mean()), np.sqrt((days[:, 2:4] ** 2).mean())
    assert first == pytest.approx(0.6, rel=0.3)
    assert second == pytest.approx(0.3, rel=0.3)
    # Drawn around what the record says: half of their variance or so is the truth's. Null: ± 0.08.
    assert np.corrcoef(days[:, :2].ravel(), truth[:, :2].ravel())[0, 1] > 0.35


def test_a_fit_finds_habits_of_devices_that_differ():
    """Through the whole fit: some devices are hardly ever there, and all have runs of their own."""
    generator = np.random.default_rng([4, 3])
    pi, hours = generator.beta(1, 3, DEVICES).clip(0.005, 0.95), generator.lognormal(0.5, 0.5, DEVICES)
    habit = drawn(0.7, DEVICES, generator)
    state = Fleet(pi, hours, DAY, habit=habit).sample(4, 48 * 10).astype(np.int8)
    found = fit(Slots(state, tuple(map(str, range(DEVICES))), 1800, 0, None))
    assert found.habits is not None
    assert found.habits.sigma == pytest.approx(0.7, abs=0.25)
    often = np.flatnonzero((pi > 0.1) & (pi < 0.9))
    days = np.array(found.devices["habit"].to_list())
    assert np.corrcoef(days[often, :2].ravel(), habit[often, :2].ravel())[0, 1] > 0.4  # null: ± .1
    again = Fleet.of(found)
    assert again.habit is not None
    assert found.stays is None  # chains: their runs are geometric, whatever their hours
    assert again.turns is None


def test_a_record_that_recurs_no_more_than_plain_fleets_has_no_sigma():
    slots, pi, hours, _ = record(0.0, 3)
    found = Recurring(slots, CLOCK, pi, hours)
    found.recorded = -1.0
    assert found.sigma() is None


def test_one_rare_device_decides_nothing():
    """A device of π = .005 that stays for two days says nothing of habits."""
    slots, pi, hours, _ = record(0.0, 4)
    found = Recurring(slots, CLOCK, pi, hours).recorded
    state, rare = slots.state.copy(), pi.copy()
    state[:, 0], rare[0] = 0, 0.005
    state[100:196, 0] = 1
    other = Recurring(Slots(state, slots.devices, 1800, 0, None), CLOCK, rare, hours).recorded
    assert abs(other - found) < 0.01  # habits of σ = .6 make .05 of it


def test_records_in_many_rounds_of_a_day_are_those_in_their_counts():
    """The own days of a device follow from how often it was there at each time of day: in any order of the days."""
    slots, pi, hours, _ = record(0.6, 5)
    other = slots.state.reshape(7, 48, DEVICES)[::-1].reshape(slots.state.shape)
    found = [own_days(Slots(s, slots.devices, 1800, 0, None), CLOCK, pi, hours, 0.6) for s in (slots.state, other)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)
    assert found[0].shape == (DEVICES, 8)


def test_the_range_of_a_typical_day():
    """20,000 days: a median is known to .01; 5.5 of that."""
    days = drawn(1.0, 20_000, np.random.default_rng(7)) @ waves(np.arange(0, 86_400, 900)).T
    assert np.median(np.ptp(days, axis=1)) == pytest.approx(RANGE, abs=0.055)


@pytest.mark.parametrize("size", [20.0, 50.0])
def test_habits_of_any_size_are_numbers(size):
    pi = np.array([0.0, 0.01, 0.5, 0.99, 1.0])
    process = Fleet(pi, 2.0, habit=np.full((5, 8), size))
    found = np.asarray(jax.vmap(process.marginal)(jnp.arange(48)), float)
    np.testing.assert_allclose(found.mean(0), pi, atol=1e-4)
    assert (found[:, 0] == 0).all()
    assert (found[:, 4] == 1).all()


def test_fleets_without_habits_have_none(hide):
    """Each is taken to have some with probability 1/60: two of six with probability 0.4 %."""
    found = [habits(*record(0.0, seed, hide)[:1], CLOCK, *record(0.0, seed)[1:3], seed) for seed in range(6)]
    assert sum(each is not None for each in found) <= 1


def test_records_too_short_or_coarse_to_recur():
    slots, pi, hours, _ = record(0.6, 1)
    assert habits(Slots(slots.state[:120], slots.devices, 1800, 0, None), CLOCK, pi, hours) is None
    assert habits(Slots(slots.state, slots.devices, 10_800, 0, None), CLOCK, pi, hours) is None
    assert habits(Slots(0 * slots.state, slots.devices, 1800, 0, None), CLOCK, pi, hours) is None


def test_the_fleets_hours_stay_as_they_are():
    slots, pi, hours, habit = record(1.0, 2)
    wanted = simulable(slots, CLOCK, pi, hours, slots.state).threshold.mean(0)
    beside = clock_without(slots, CLOCK, pi, habit)
    found = simulable(slots, beside, pi, hours, slots.state, habit).threshold.mean(0)
    flattened = simulable(slots, CLOCK, pi, hours, slots.state, habit).threshold.mean(0)
    assert np.abs(found - wanted).max() < 0.02
    assert np.abs(found - wanted).max() < 0.4 * np.abs(flattened - wanted).max()


def test_a_fitted_fleet_has_the_devices_habits_and_draws_others(tmp_path):
    state = (np.random.default_rng(0).random((100, 6)) < 0.4).astype(np.int8)
    found = fit(Slots(state, tuple("abcdef"), 1800, 0, None))
    assert Fleet.of(found).habit is None
    habit = np.linspace(-1, 1, 48).reshape(6, 8)
    column = pl.Series("habit", habit.tolist(), pl.List(pl.Float64))
    found = found._replace(devices=found.devices.with_columns(column), habits=Habits(0.7, 0.1))
    found.save(tmp_path)
    np.testing.assert_allclose(np.asarray(Fleet.load(tmp_path).habit), habit)
    many = np.asarray(Fleet.load(tmp_path, clients=3000).habit)
    # 6000 normal values: a standard deviation is known to 0.9 %; 5.5 of that.
    for wave in range(4):
        assert many[:, 2 * wave : 2 * wave + 2].std() == pytest.approx(0.7 / (wave + 1), rel=0.05)


def test_waves_return_each_day():
    np.testing.assert_allclose(waves(np.array([0, 21_600])), [[1, 0] * 4, [0, 1, -1, 0, 0, -1, 1, 0]], atol=1e-12)


@pytest.mark.parametrize("habit", [[0.1, 0.2], np.zeros((2, 3)), np.zeros((3, 2)), np.full((2, 2), np.nan)])
def test_bad_habits(habit):
    with pytest.raises(InvalidInput, match=r"habit = .* 2 rows of 2, 4, … 24 numbers"):
        Fleet([0.5, 0.5], habit=habit)
