import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from fedtide.availability import Phones, Trace, find
from fedtide.errors import FedtideError, InvalidInput
from fedtide.experiments import build, loads
from fedtide.fleet import Cluster, Fleet, Slots, fit
from fedtide.fleet.process.normal import both_here
from fedtide.fleet.process.replay import filled

fleet = find("fleet").build
WEEK = [0.1, 0.1, 0.1, 0.1, 0.0, -0.2, -0.2]


@pytest.fixture(scope="module")
def model():
    generator = np.random.default_rng(0)
    state = (generator.random((100, 6)) < 0.4).astype(np.int8)
    state[generator.random(state.shape) < 0.2] = -1
    found = fit(Slots(state, tuple("abcdef"), 1800, 5 * 3600, "UTC"))
    members = pl.Series("cluster", [0, 0, 0, -1, -1, -1], pl.Int32)
    cluster = Cluster("cluster 1", (0, 1, 2), 0.5, (0.1, 0.2), 0.6, 2.0)
    profile = found.profile._replace(hour=0.3 * np.sin(np.arange(24)), weekday=np.array(WEEK))
    return found._replace(devices=found.devices.with_columns(members), clusters=(cluster,), profile=profile)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("fitted") / "my-fleet"
    model.save(path)
    return path


def test_without_clusters_it_is_the_process_of_phones():
    phones = Phones("charging", 60, clients=12, start_hour=3)
    hours = -1 / np.log(phones.correlation)
    same = Fleet(phones.availability, hours, phones.profile, round_seconds=3600, start_second=3 * 3600)
    np.testing.assert_allclose(same.persistence, phones.persistence, rtol=1e-6)
    np.testing.assert_allclose(same.correlation, phones.correlation, rtol=1e-9)
    np.testing.assert_array_equal(same.sample(1, 50), phones.sample(1, 50))


def test_the_wanted_correlation_is_reached_with_clock_and_clusters():
    process = Fleet([0.2, 0.3, 0.5, 0.6], 1.5, np.linspace(-0.4, 0.4, 24), WEEK, [0, 0, 1, -1], [0.4, 0.7], 2.0)
    np.testing.assert_allclose(process.correlation, np.exp(-0.5 / 1.5), rtol=1e-9)
    # What is common lasts so long that no draw of one's own can undo it: then as little as there can be.
    stuck = Fleet([0.3, 0.3], 0.1, membership=[0, 0], coupling=[0.9], cluster_hours=50.0)
    assert (np.asarray(stuck.persistence) == 0).all()
    assert (stuck.correlation > 0.5).all()
    # What is common is forgotten at once: one's own part does not last for ever to make up for it.
    loose = Fleet([0.3, 0.3], 4.0, membership=[0, 0], coupling=[0.9], cluster_hours=0.1)
    np.testing.assert_allclose(loose.persistence, np.exp(-0.5 / 20))
    assert (loose.correlation < np.exp(-0.5 / 4)).all()


def test_a_week_averages_to_each_clients_own():
    process = Fleet([0.1, 0.5, 0.95], 2.0, np.linspace(-0.6, 0.8, 24), WEEK, round_seconds=3600, start_second=7200)
    week = np.asarray(jax.vmap(process.marginal)(jnp.arange(168)), float)
    np.testing.assert_allclose(week.mean(0), process.availability, atol=1e-6)
    assert week.min() >= 0
    assert week.max() <= 1 + 1e-6
    monday, saturday = week[10, 0], week[10 + 5 * 24, 0]
    assert saturday / monday == pytest.approx(0.8 / 1.1, rel=1e-5)
    np.testing.assert_array_equal(process.marginal(5), process.marginal(5 + 168 * 1000))


def test_members_of_a_cluster_move_together():
    pi, r = np.array([0.3, 0.5, 0.4]), 0.6
    process = Fleet(pi, 0.5, membership=[0, 0, -1], coupling=[r], cluster_hours=0.5, round_seconds=3600)
    here = process.sample(0, 30_000)
    both = (here[:, 0] & here[:, 1]).mean()
    # Rounds an hour apart are nearly independent (correlation < .4): 5.5 standard errors of 10,000 independent ones.
    assert abs(both - both_here(pi[0], pi[1], r)) < 5.5 * (0.2 * 0.8 / 10_000) ** 0.5
    alone = (here[:, 0] & here[:, 2]).mean()
    assert abs(alone - pi[0] * pi[2]) < 5.5 * (0.12 * 0.88 / 10_000) ** 0.5


def test_the_devices_themselves_or_as_many_as_wanted(model, folder):
    own = fleet(path=folder)
    np.testing.assert_array_equal(own.availability, model.devices["spread_availability"])
    np.testing.assert_array_equal(own.hours, model.devices["spread_hours"])
    np.testing.assert_array_equal(own.membership, model.devices["cluster"])
    assert own.round_seconds == 1800
    assert own.start_second == 3 * 86_400 + 5 * 3600  # 1970 began on a Thursday
    np.testing.assert_array_equal(fleet(path=folder, clients=6).availability, own.availability)

    many = fleet(path=folder, clients=4000)
    a, b = model.distribution.beta
    there = np.asarray(many.availability)[np.asarray(many.availability) > 0]
    # Independent draws: 5.5 standard errors.
    assert abs(there.mean() - a / (a + b)) < 5.5 * there.std() / len(there) ** 0.5
    assert abs(np.log(many.hours).mean() - np.log(model.distribution.hours[0])) < 0.1 * model.distribution.hours[1]
    assert abs((np.asarray(many.membership) == 0).mean() - 0.5) < 5.5 * 0.5 / 4000**0.5
    other = fleet(path=folder, clients=4000, population_seed=1)
    assert not np.array_equal(many.availability, other.availability)


def test_the_record_replayed(model, folder):
    replayed = fleet(path=folder, recorded=True)
    assert isinstance(replayed, Trace)
    assert replayed.matrix.shape == (96, 6)  # two whole days
    known = model.record[:96] >= 0
    np.testing.assert_array_equal(np.asarray(replayed.matrix)[known], model.record[:96][known] == 1)
    assert fleet(path=folder, recorded=True, clients=4).clients == 4
    with pytest.raises(InvalidInput, match=r"clients = 9: must be 6 or fewer.*without recorded = true"):
        fleet(path=folder, recorded=True, clients=9)


def test_gaps_are_filled_from_both_sides(model):
    # One hidden round between two observed: P(here | a, b) of a chain, by Bayes.
    pi, lam, devices = 0.3, 0.8, 20_000
    table = pl.DataFrame(
        {
            "device": [str(k) for k in range(devices)],
            "availability": np.full(devices, pi),
            "correlation": np.full(devices, lam),
        }
    )
    flat = model.profile._replace(hour=np.zeros(24), weekday=None)
    on, off = pi + lam * (1 - pi), (1 - lam) * pi
    for a, b in ((1, 1), (1, 0), (0, 0)):
        record = np.array([[a], [-1], [b]], np.int8).repeat(devices, axis=1)
        found = filled(model._replace(devices=table, record=record, profile=flat))[1].mean()
        first, here, away = (on if a else off), (on if b else 1 - on), (off if b else 1 - off)
        expected = first * here / (first * here + (1 - first) * away)
        assert abs(found - expected) < 5.5 * (expected * (1 - expected) / devices) ** 0.5


def test_gaps_are_filled_at_the_devices_own_hours(model):
    # Nothing observed of 3,000 devices for 20 days, half of them there by night, half by day: the mean of 30,000 draws
    # at an hour is π_k(t), within 5 times twice the standard error of independent draws (days hardly depend).
    devices, rounds = 3000, 48 * 20
    habit = np.zeros((devices, 8))
    habit[:, 0] = np.where(np.arange(devices) < devices // 2, 1.5, -1.5)
    table = pl.DataFrame(
        {
            "device": [str(k) for k in range(devices)],
            "availability": np.full(devices, 0.3),
            "correlation": np.full(devices, np.exp(-0.25)),
        }
    )
    table = table.with_columns(pl.Series("habit", habit.tolist(), pl.List(pl.Float64)))
    flat = model.profile._replace(hour=np.zeros(24), weekday=None)
    record = np.full((rounds, devices), -1, np.int8)
    found = filled(model._replace(devices=table, record=record, profile=flat, start=0)).reshape(-1, 48, 2, devices // 2)
    process = Fleet(table["availability"].to_numpy()[:2], 2.0, habit=habit[[0, -1]])
    wanted = np.stack([np.asarray(process.marginal(t)) for t in range(48)])
    np.testing.assert_allclose(found.mean((0, 3)), wanted, atol=5 * 2 * 0.5 / (20 * devices // 2) ** 0.5)


def test_in_a_configuration(folder):
    text = """
    problem = {{name = "quadratic", clients = {}}}
    availability = {{name = "fleet", path = "my-fleet"}}
    methods = [{{name = "fedavg"}}]
    run = {{rounds = 2}}
    """
    process = build(loads(text.format(9), folder=folder.parent)).availability
    assert isinstance(process, Fleet)
    assert process.clients == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"availability": [0.1, 1.2]}, r"availability\[1\] = 1.2"),
        ({"availability": 0.5}, "availability = 0.5"),
        ({"availability": [0.5], "hours": 0}, r"hours\[0\] = 0"),
        ({"availability": [0.5], "profile": [0.1] * 23}, "profile = '23 numbers': must be 24"),
        ({"availability": [0.5], "profile": [-1.0] * 24}, "profile = .* no client is ever available"),
        ({"availability": [0.5], "weekday": [0.1]}, "weekday = .* 7 numbers"),
        ({"availability": [0.5], "round_seconds": 0}, "round_seconds = 0"),
        ({"availability": [0.5], "membership": [0]}, "coupling = None"),
        ({"availability": [0.5], "coupling": [0.3]}, "together with membership"),
        ({"availability": [0.5], "membership": [1], "coupling": [0.3]}, "membership = .* 0 … 0"),
        ({"availability": [0.5], "membership": [0], "coupling": [1.3]}, r"coupling\[0\] = 1.3"),
    ],
)
def test_bad_fleets(arguments, message: str):
    with pytest.raises(InvalidInput, match=message):
        fleet(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either path"),
        ({"path": "x", "availability": [0.5]}, "give either path"),
        ({"path": "x", "hours": 2.0}, "hours is for a fleet without a path"),
        ({"availability": [0.5], "recorded": True}, "replays the log of a path"),
        ({"path": "nowhere"}, "nowhere/fleet.toml: No such file"),
    ],
)
def test_bad_combinations(arguments, message: str):
    with pytest.raises(FedtideError, match=message):
        fleet(**arguments)
