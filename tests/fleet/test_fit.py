import itertools

import numpy as np
import pytest
from scipy.stats import beta, norm

from fedtide.errors import InvalidInput
from fedtide.fleet import Account, Issue, Slots, fit
from fedtide.fleet.fitting.chain import PosteriorGrid, Prior, grid, log_likelihood, posterior, weights
from fedtide.fleet.fitting.counts import Pairs, count
from fedtide.fleet.fitting.population import population
from fedtide.fleet.fitting.profile import profile

HALF_HOUR = 0.5


def chains(pi, lam, rounds: int, seed: int, missing: float = 0.0, follow=None) -> np.ndarray:
    """int8 [rounds, devices]: chains that start where they settle; entries missing at random."""
    generator = np.random.default_rng([seed, 77])
    pi, lam = np.broadcast_arrays(np.asarray(pi, float), lam)
    drawn, state = generator.random(len(pi)), np.empty((rounds, len(pi)), np.int8)
    for t in range(rounds):
        state[t] = drawn < pi * (1 if follow is None else follow[t])
        drawn = np.where(generator.random(len(pi)) < lam, drawn, generator.random(len(pi)))
    state[generator.random(state.shape) < missing] = -1
    return state


def population_of(devices: int, seed: int):
    generator = np.random.default_rng([seed, 78])
    hours = 1.5 * np.exp(0.56 * generator.standard_normal(devices))
    return generator.beta(2.4, 8.2, devices), np.exp(-HALF_HOUR / hours)


def slots(state, round_seconds: int = 1800, start: int = 0, zone: str | None = "UTC") -> Slots:
    state = np.asarray(state, np.int8)
    return Slots(state, tuple(f"d{k}" for k in range(state.shape[1])), round_seconds, start, zone)


def test_counts_are_those_of_a_loop():
    state = np.random.default_rng(0).integers(-1, 2, (60, 40)).astype(np.int8)
    state[:, 0] = -1
    state[8:30, 1] = -1  # a long gap
    found = count(state)
    assert found.observed[0] == found.visits[0] == 0
    for k in range(state.shape[1]):
        known = np.flatnonzero(state[:, k] >= 0)
        pairs = np.zeros((len(found.pairs.gaps), 4), int)
        for a, b in itertools.pairwise(known):
            group = np.abs(found.pairs.gaps - (b - a)).argmin()
            pairs[group, 2 * state[a, k] + state[b, k]] += 1
        np.testing.assert_array_equal(found.pairs.counts[:, :, k], pairs)
        before = np.r_[-1, state[:-1, k]]
        assert found.visits[k] == ((state[:, k] == 1) & (before != 1)).sum()
        assert found.pairs.first[:, k].tolist() == (
            [0, 0] if k == 0 else [int(state[known[0], k] == s) for s in (0, 1)]
        )


@pytest.mark.parametrize("counts", [[0, 0, 0, 0], [5, 1, 1, 3], [40, 0, 0, 0], [7000, 900, 900, 2000]])
def test_posteriors_are_those_of_numerical_integration(counts):
    prior = Prior(2.4, 8.2, 1.5, 0.56, 0.0)
    pairs = Pairs(np.array([[1], [0]]), np.array([1.0]), np.array(counts)[None, :, None])
    found = posterior(pairs, prior, HALF_HOUR)
    points, weights = np.polynomial.legendre.leggauss(300)
    v = np.log(-HALF_HOUR / np.log(found.correlation[0]))
    reach = 4.0 if sum(counts) < 1000 else 0.6
    low, high = (np.clip(found.availability[0] + s * 12 * found.availability_se[0], 1e-9, 1 - 1e-9) for s in (-1, 1))
    p, log_hours = (low + high) / 2 + (high - low) / 2 * points, v + reach * points
    away = 1 - np.exp(-HALF_HOUR * np.exp(-log_hours))
    here = p[:, None]
    probabilities = 1 - away * here, away * here, away * (1 - here), 1 - away * (1 - here)
    mass = sum(c * np.log(q) for c, q in zip(counts, probabilities, strict=True)) + np.log(1 - here)
    mass = mass + beta.logpdf(here, 2.4, 8.2) + norm.logpdf(log_hours, np.log(1.5), 0.56)
    mass = np.exp(mass - mass.max()) * weights[:, None] * weights
    mass /= mass.sum()
    lam = np.exp(-HALF_HOUR * np.exp(-log_hours))
    assert found.availability[0] == pytest.approx((mass.sum(1) * p).sum(), rel=1e-3)
    assert found.correlation[0] == pytest.approx((mass.sum(0) * lam).sum(), rel=1e-3)
    spread = np.sqrt((mass.sum(1) * p**2).sum() - (mass.sum(1) * p).sum() ** 2)
    assert found.availability_se[0] == pytest.approx(spread, rel=5e-3)
    stay = lam + p[:, None] * (1 - lam)
    assert found.on_given_on[0] == pytest.approx((mass * stay).sum(), rel=1e-3)
    below = np.interp(found.availability_low[0], p, np.cumsum(mass.sum(1)))
    assert below == pytest.approx(0.025, abs=0.005)  # the quadrature's own steps


@pytest.mark.parametrize(("rounds", "fleets"), [(300, 1), (50, 2)])
def test_intervals_cover_at_their_level(rounds: int, fleets: int):
    # Devices are drawn anew from the fleet, so that coverage is binomial but for the error of the fitted fleet that
    # all devices of one share; 3 standard deviations and 1 % for it: fails by chance in less than 1 of 100.
    inside = []
    for seed in range(fleets):
        pi, lam = population_of(400, seed)
        counts = count(chains(pi, lam, rounds, seed, missing=0.2))
        fleet = population(counts.pairs, HALF_HOUR)
        found = posterior(counts.pairs, fleet.prior, HALF_HOUR, fleet.others)
        inside.append((found.availability_low <= pi) & (pi <= found.availability_high))
        inside.append((found.correlation_low <= lam) & (lam <= found.correlation_high))
    for share in (np.mean(inside[0::2]), np.mean(inside[1::2])):
        assert abs(share - 0.95) < 3 * (0.95 * 0.05 / (400 * fleets)) ** 0.5 + 0.01


def test_devices_that_never_move_do_not_narrow_the_fleet():
    # 45 devices that were always here say nothing about τ: five chains of λ = .8 do. (The interval of one parameter of
    # five chains of 500 rounds each: misses in less than 1 of 20; the seed is fixed.)
    state = np.ones((500, 50), np.int8)
    state[:, :5] = chains(np.full(5, 0.4), 0.8, 500, 0)
    pairs = count(state).pairs
    fleet = population(pairs, HALF_HOUR)
    found = posterior(pairs, fleet.prior, HALF_HOUR, fleet.others)
    assert ((found.correlation_low < 0.8) & (found.correlation_high > 0.8)).all()
    assert (found.correlation_high - found.correlation_low)[5:].min() > 0.1
    # The maximum is one of the integral too, not of its quadrature: on a dense grid no σ below it is better.
    u = np.tile(np.linspace(-8, 60, 171), (50, 1))
    values = []
    for sigma in (fleet.prior.sigma, fleet.prior.sigma / 5):
        v = np.tile(np.log(fleet.prior.hours) + sigma * np.linspace(-6, 6, 41), (50, 1))
        dense = PosteriorGrid(u, v, log_likelihood(pairs, u, v, HALF_HOUR))
        values.append(weights(dense, fleet.prior._replace(sigma=sigma))[1].sum())
    own = weights(grid(pairs, fleet.prior, HALF_HOUR), fleet.prior)[1].sum()
    assert own == pytest.approx(values[0], abs=1)
    weak = 0.5 * ((np.log(fleet.prior.sigma / 0.6 / 5)) ** 2 - np.log(fleet.prior.sigma / 0.6) ** 2)
    assert values[1] - weak < values[0]


@pytest.mark.parametrize("state", [0, 1])
def test_a_fleet_that_never_moves_knows_nothing_of_memory(state: int):
    pairs = count(np.full((200, 20), state, np.int8)).pairs
    fleet = population(pairs, HALF_HOUR)
    found = posterior(pairs, fleet.prior, HALF_HOUR, fleet.others)
    assert found.correlation_low.max() < 0.3
    assert found.correlation_high.min() > 0.99
    assert fleet.prior.sigma > 0.3


def test_who_is_never_there_keeps_the_width_of_the_fleet():
    state = np.zeros((300, 50), np.int8)
    state[:, :10] = chains(np.full(10, 0.4), 0.8, 300, 0)
    pairs = count(state).pairs
    found = posterior(pairs, Prior(20.0, 30.0, 2.24, 0.3, 0.8), HALF_HOUR)
    low, high = (np.exp(-HALF_HOUR / (2.24 * np.exp(z * 0.3))) for z in (-1.96, 1.96))
    np.testing.assert_allclose(found.correlation_low[10:], low, atol=0.01)
    np.testing.assert_allclose(found.correlation_high[10:], high, atol=0.01)


def test_intervals_cover_where_few_come_or_go():
    # Devices that are nearly always on, most of them without a transition. Binomial, and 4 % for the fitted fleets'
    # own errors, which devices share: fails by chance in less than 1 of 100.
    inside = []
    for seed in (2, 50):
        generator = np.random.default_rng(seed)
        lam, pi = np.exp(-HALF_HOUR / (4 * np.exp(generator.standard_normal(60)))), generator.beta(60, 1, 60)
        pairs = count(chains(pi, lam, 100, seed)).pairs
        fleet = population(pairs, HALF_HOUR)
        found = posterior(pairs, fleet.prior, HALF_HOUR, fleet.others)
        inside.append((found.correlation_low <= lam) & (lam <= found.correlation_high))
    assert np.mean(inside) > 0.95 - 2.5 * (0.95 * 0.05 / 120) ** 0.5 - 0.04


def test_the_fleet_is_recovered_with_its_errors():
    # Four estimates within 4 standard errors: fails by chance in 3 of 10,000; and the errors are not idle.
    pi, lam = population_of(600, 5)
    pi[:90] = 0
    found = population(count(chains(pi, lam, 200, 5, missing=0.1)).pairs, HALF_HOUR).distribution
    for value, error, truth in (
        (found.beta[0], found.beta_se[0], 2.4),
        (found.beta[1], found.beta_se[1], 8.2),
        (found.hours[0], found.hours_se[0], 1.5),
        (found.hours[1], found.hours_se[1], 0.56),
        (found.never, found.never_se, 0.15),
    ):
        assert abs(value - truth) < 4 * error
        assert error < 0.25 * truth


def test_the_model_of_a_record():
    pi, lam = population_of(60, 1)
    state = chains(pi, lam, 240, 1)
    state[:, 0], state[:, 1], state[:, 2] = 0, 1, -1
    state[:, 3], state[5:7, 3] = 0, 1
    state[10:, 4] = -1
    state[:, 5] = np.arange(240) % 2  # alternates: λ = −1
    account = Account(
        "log.csv", "intervals", 12, 9, (Issue("ends before it starts", 3, "left out", ("row 4",)),), ("n",)
    )
    model = fit(slots(state), account=account)
    table = model.devices
    assert table["kind"][:6].to_list() == ["never", "always", "brief", "seldom", "brief", "regular"]
    assert model.source == "log.csv"
    assert model.account.issues[0].examples == ("row 4",)
    assert model.account.notes[0] == "n"
    assert model.distribution.negative == 1
    assert table["raw_correlation"][5] == -1
    assert table["raw_correlation"][0] is None
    assert table["raw_availability"][2] is None
    # Never observed: the fleet's own mean. Never here: less than that. Always: below 1.
    a, b = model.distribution.beta
    mean = (1 - model.distribution.never) * a / (a + b)
    assert table["availability"][2] == pytest.approx(mean, rel=0.05)
    assert table["availability"][0] < mean / 2
    assert table["availability_low"][0] < 0.01
    assert mean < table["availability"][1] < 1
    between = (table["availability_low"] <= table["availability"]) & (
        table["availability"] <= table["availability_high"]
    )
    assert between.all()
    np.testing.assert_allclose(table["correlation"], np.exp(-HALF_HOUR / table["hours"]))
    on, off = table["on_given_on"].to_numpy(), table["on_given_off"].to_numpy()
    assert (on > off).all()
    for name in ("off_off", "off_on", "on_off", "on_on"):
        assert table[name][2] == 0


def test_a_fleet_of_one_device():
    model = fit(slots(chains([0.3], [0.7], 100, 0)))
    assert 0 < model.devices["availability"][0] < 1
    assert np.isfinite([*model.distribution.beta_se, *model.distribution.hours_se]).all()


@pytest.mark.parametrize("state", [np.full((5, 3), -1), np.zeros((0, 3)), np.zeros((4, 0))])
def test_nothing_to_fit(state):
    with pytest.raises(InvalidInput, match="slots = "):
        fit(slots(state))


def test_the_hours_of_the_day():
    # A tent-shaped day, which is linear between middles of hours. Who is observed at night only is mostly there: a
    # share of the counted would take that for a cycle.
    hour = 0.4 * (1 - np.abs(np.arange(24) - 12) / 6)
    at = (np.arange(48 * 10) * 0.5) % 24
    follow = 1 + np.interp(at - 0.5, np.arange(24), hour, period=24)
    pi = np.r_[np.full(300, 0.2), np.full(100, 0.6)]
    state = chains(pi, 0.6, len(at), 3, follow=follow)
    state[(at > 6)[:, None] & (np.arange(400) >= 300)] = -1
    found, notes = profile(slots(state))
    assert found.weekday is None
    assert "too short for a weekly profile" in notes[0]
    assert found.share[3] > found.share[7] - 0.01  # the counted share is fooled: d rises by .27 in between
    # Each hour has 10 days × 2 rounds of 300 devices or more: a standard error of about .03 of d, 4.5 of them.
    np.testing.assert_allclose(found.hour, hour - hour.mean(), atol=0.14)
    assert np.corrcoef(found.hour, hour)[0, 1] > 0.98
    assert (found.share_se > 0).all()
    assert abs(found.relative(np.arange(48) * 1800, None).mean()) < 1e-3


def test_no_cycle_is_not_taken_for_one_and_short_records_have_none():
    flat, _ = profile(slots(chains(np.full(60, 0.3), 0.7, 48 * 6, 4)))
    assert np.abs(flat.hour).max() < 0.15  # pure noise has a standard deviation of about .12 before shrinkage
    short, notes = profile(slots(chains(np.full(20, 0.3), 0.7, 60, 4)))
    assert not short.hour.any()
    assert "too short for a daily profile" in notes[0]


@pytest.mark.parametrize("zone", ["UTC", None])
def test_days_of_the_week(zone):
    day = np.arange(24 * 28) // 24
    follow = np.where((day + 3) % 7 >= 5, 0.5, 1.0)  # the clock starts on a Thursday
    state = chains(np.full(120, 0.3), 0.5, len(day), 6, follow=follow)
    found, notes = profile(slots(state, 3600, 0, zone))
    if zone is None:
        assert found.weekday is None
        assert "no date" in notes[0]
        return
    expected = np.array([1, 1, 1, 1, 1, 0.5, 0.5]) * 7 / 6 - 1
    np.testing.assert_allclose(found.weekday, expected, atol=0.06)
