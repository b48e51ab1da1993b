import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedtide.availability import Phones
from fedtide.errors import InvalidInput

RULES = {  # Beta(a, b) of π; median hours and σ of τ; share never on
    "idle_charging_wifi": (1.69, 9.99, 1.19, 0.67, 0.29),
    "charging": (2.41, 8.20, 1.53, 0.56, 0.0),
    "charging_or_battery75": (3.01, 3.07, 2.62, 0.52, 0.0),
    "charging_or_battery50": (4.41, 2.06, 2.73, 0.58, 0.0),
}
MANY = 40_000


@pytest.mark.parametrize("rule", RULES)
def test_population_has_the_fitted_moments(rule: str):
    # Independent phones: each band is 5.5 standard errors, exceeded with probability 4e-8.
    a, b, median, sigma, never = RULES[rule]
    phones = Phones(rule, round_minutes=30, clients=MANY)
    pi = np.asarray(phones.availability)
    absent = pi == 0
    assert abs(absent.mean() - never) <= 5.5 * (never * (1 - never) / MANY) ** 0.5
    pi = pi[~absent]
    mean, variance = a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))
    assert abs(pi.mean() - mean) < 5.5 * (variance / len(pi)) ** 0.5
    squares = (pi - mean) ** 2
    assert abs(squares.mean() - variance) < 5.5 * squares.std() / len(pi) ** 0.5
    hours = -0.5 / np.log(np.asarray(phones.persistence))
    assert abs(np.log(hours).mean() - np.log(median)) < 5.5 * sigma / MANY**0.5
    assert abs(np.log(hours).std() - sigma) < 5.5 * sigma / (2 * MANY) ** 0.5


@pytest.mark.parametrize(("minutes", "expected"), [(1, 0.99), (5, 0.95), (10, 0.89), (30, 0.72), (60, 0.5)])
def test_persistence_follows_the_length_of_a_round(minutes: int, expected: float):
    # What was measured for a median charging phone, to two digits.
    phones = Phones("charging", minutes, clients=MANY)
    assert abs(np.median(phones.persistence) - expected) < 0.025


def test_half_a_round_keeps_the_root():
    hour, half = Phones(round_minutes=60), Phones(round_minutes=30)
    np.testing.assert_array_equal(hour.availability, half.availability)
    np.testing.assert_allclose(hour.persistence, np.asarray(half.persistence) ** 2, rtol=1e-12)


@pytest.mark.parametrize("minutes", [60, 40, 20, 480])
@pytest.mark.parametrize("rule", ["idle_charging_wifi", "charging"])
def test_the_average_over_a_day_is_each_phones_own(rule, minutes: int):
    phones = Phones(rule, minutes, clients=2000, start_hour=3.5)
    day = np.asarray(jax.vmap(phones.marginal)(jnp.arange(24 * 60 // minutes)), float)
    assert day.min() >= 0
    assert day.max() <= 1 + 1e-6
    np.testing.assert_allclose(day.mean(0), phones.availability, atol=1e-6)


def test_the_hours_of_the_day_are_those_measured():
    # At the middle of an hour a rarely available phone follows the measured shares in proportion.
    phones = Phones("charging", 60, clients=1000, start_hour=0.5)
    k = int(np.argmin(phones.availability))
    day = np.asarray(jax.vmap(phones.marginal)(jnp.arange(24)))[:, k]
    assert day.argmax() == 3
    assert day.argmin() == 12
    assert day[3] / day[12] == pytest.approx(0.293 / 0.168, rel=1e-4)
    assert day[17] / day[0] == pytest.approx(0.210 / 0.245, rel=1e-4)
    noon = Phones("charging", 60, clients=1000, start_hour=12.5)
    np.testing.assert_allclose(noon.marginal(0), phones.marginal(12), rtol=1e-5)


def test_the_clock_stays_exact_for_years():
    phones = Phones("charging", 10, clients=3)
    np.testing.assert_array_equal(phones.marginal(5), phones.marginal(5 + 144 * 365 * 100))


def test_without_the_day_phones_are_two_state_chains():
    phones = Phones("charging", daily=False)
    np.testing.assert_array_equal(phones.marginal(0), phones.marginal(20))
    np.testing.assert_allclose(phones.correlation, phones.persistence, atol=1e-12)
    battery = Phones("charging_or_battery75")
    assert battery.daily is False
    np.testing.assert_array_equal(battery.marginal(0), battery.marginal(20))


def test_another_population():
    first, second = Phones(population_seed=0), Phones(population_seed=1)
    assert not np.array_equal(first.availability, second.availability)
    np.testing.assert_array_equal(first.availability, Phones(population_seed=0).availability)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "wifi"}, "rule = 'wifi': must be one of idle_charging_wifi, charging"),
        ({"round_minutes": 0}, "round_minutes = 0"),
        ({"round_minutes": 0.001}, "a whole number of seconds"),
        ({"round_minutes": 1000}, "up to 720 minutes"),
        ({"start_hour": 24}, r"start_hour = 24: must be in \[0, 24\)"),
        ({"population_seed": -1}, "population_seed = -1"),
        ({"clients": 0}, "clients = 0"),
        ({"rule": "charging_or_battery50", "daily": True}, "daily = True: must be False for charging_or_battery50"),
    ],
)
def test_bad_phones(arguments, message: str):
    with pytest.raises(InvalidInput, match=message):
        Phones(**arguments)
