"""Devices, barriers, jitter and staleness on their own, and what they refuse."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedtide
from fedtide import staleness
from fedtide.aggregation import AgeWeighted, LatestUpdates
from fedtide.availability import Always
from fedtide.clock import (
    Buffer,
    Clock,
    Deadline,
    Devices,
    Exponential,
    FirstOf,
    Lognormal,
    Steady,
    WaitForAll,
    Window,
    device_table,
    tiers,
)
from fedtide.problems.quadratic import random_quadratic
from fedtide.types import Cohort, Updates


def test_the_duration_of_a_task():
    devices = Devices([0.1, 0.2], download=100.0, upload=[50.0, np.inf], latency=1.0).fit(2)
    np.testing.assert_allclose(devices.seconds(10, 200, 100), [1 + 2 + 1 + 2, 1 + 2 + 2 + 0])


@pytest.mark.parametrize("jitter", [Steady(), Lognormal(0.8), Exponential()])
def test_jitter_has_mean_one(jitter):
    uniform = (np.arange(100_000, dtype=np.float32) + 0.5) / 100_000
    factor = np.asarray(jitter.factor(jnp.asarray(uniform)))
    assert factor.min() >= 0
    assert factor.mean() == pytest.approx(1, rel=0.01)
    assert np.isfinite(jitter.factor(jnp.asarray([0.0, 1 - 2.0**-24]))).all()


def test_tiers_have_their_shares():
    devices = tiers(10, [0.3, 0.7], seconds_per_step=[1.0, 2.0], upload=5.0, seed=1)
    assert sorted(np.asarray(devices.seconds_per_step)) == [1.0] * 3 + [2.0] * 7
    assert (np.asarray(devices.upload) == 5).all()


def test_a_table_of_devices(tmp_path):
    file = tmp_path / "devices.csv"
    file.write_text("seconds_per_step,upload\n0.1,1e6\n0.5,2e6\n")
    devices = device_table(file, Lognormal())
    np.testing.assert_allclose(devices.seconds_per_step, [0.1, 0.5])
    np.testing.assert_allclose(devices.upload, [1e6, 2e6])
    file.write_text("seconds_per_stp\n0.1\n")
    with pytest.raises(fedtide.FedtideError, match="unknown column 'seconds_per_stp'; did you mean"):
        device_table(file)
    file.write_text("latency\nslow\n")
    with pytest.raises(fedtide.FedtideError, match="column 'latency' is String; must be a number in every row"):
        device_table(file)


def test_staleness_by_hand():
    age = jnp.asarray([0, 3, 4, 6])
    np.testing.assert_allclose(staleness.Constant().discount(age), 1)
    np.testing.assert_allclose(staleness.Hinge(10, 4).discount(age), [1, 1, 1, 1 / 21], rtol=1e-6)
    np.testing.assert_allclose(staleness.Polynomial(0.5).discount(age), [1, 0.5, 5**-0.5, 7**-0.5], rtol=1e-6)


def test_old_updates_have_less_weight():
    weight, delta = jnp.asarray([0.5, 0.5]), jnp.asarray([[2.0], [4.0]])
    cohort = Cohort(jnp.arange(2), jnp.ones(2, bool), weight, weight)
    updates = Updates(delta, weight, jnp.ones(2, int), jnp.ones(2), jnp.ones(2))
    rule = AgeWeighted()
    assert rule.combine((), cohort, updates)[0] == 3.0  # without a clock updates have no age
    aged = cohort._replace(age=jnp.asarray([0, 3]))
    assert rule.combine((), aged, updates)[0] == 0.5 * 2 + 0.5 * 4 / 2
    assert AgeWeighted(LatestUpdates()).moves_when_empty


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Devices(-1.0), "devices.seconds_per_step = -1.0: must be finite, 0 or more seconds"),
        (lambda: Devices(1.0, download=[1.0, 0.0]), r"devices.download\[1\] = 0.0: must be positive, in bytes"),
        (lambda: Devices([1.0, 2.0], latency=[1.0]), "length of devices.latency = 1: must be 2, as devices.sec"),
        (lambda: Devices(1.0, jitter=Lognormal), "must be a jitter such as Lognormal"),
        (lambda: Devices([1.0]).fit(3), "devices.seconds_per_step = '1 entries': must be one for each of 3 clients"),
        (lambda: Lognormal(-1.0), "jitter.spread = -1.0: must be 0 or more"),
        (lambda: tiers(3, [0.5, 0.6]), "tiers.shares = .*: must be a share for each tier, with sum 1"),
        (lambda: tiers(3, [0.5, 0.5], latency=[1.0]), "length of tiers.latency = 1: must be 2, one number for"),
        (lambda: Clock("fast"), "clock.devices = 'fast': must be devices such as Devices"),
        (lambda: Clock(Devices(), "buffer"), "clock.barrier = 'buffer': must be a barrier such as WaitForAll"),
        (lambda: Clock(Devices(), slot=0), "clock.slot = 0: must be positive"),
        (lambda: Clock(Devices(), leaving="gone"), "clock.leaving = 'gone': must be one of finished offline, lost"),
        (lambda: WaitForAll(limit=0.0), "barrier.limit = 0.0: must be positive"),
        (lambda: WaitForAll(late="counted"), "barrier.late = 'counted': must be \"dropped\" without barrier.limit"),
        (lambda: Deadline(-1.0), "barrier.seconds = -1.0: must be positive"),
        (lambda: FirstOf(3, invited=2), "barrier.invited = 2: must be 3 or more, as barrier.k"),
        (lambda: Buffer(0, concurrency=2), "barrier.k = 0: must be a whole number, 1 or more"),
        (lambda: Window(0.0), "barrier.seconds = 0.0: must be positive"),
        (lambda: Clock(Devices(), Buffer(9, 9)).fit(3), "barrier.k = 9: must be 3 or less, the number of clients"),
        (lambda: AgeWeighted(staleness="old"), "aggregation.staleness = 'old': must be a function of staleness"),
        (lambda: staleness.Hinge(slope=-1.0), "staleness.slope = -1.0: must be 0 or more"),
    ],
)  # fmt: skip
def test_what_is_refused(build, message):
    with pytest.raises(fedtide.FedtideError, match=message):
        build()


m = fedtide.methods
COUNTED = Deadline(9.0, late="counted")


@pytest.mark.parametrize(
    ("method", "barrier", "message"),
    [
        (m.fedpbc, WaitForAll(), r"m: cannot run with a clock: its clients also train while .* \(OwnModel\)"),
        (m.ca_fed, Buffer(2, 3), r"cannot run with Buffer: it asks clients for a loss before .* \(CorrelationAware\)"),
        (m.pow_d, FirstOf(2, 3), "cannot run with FirstOf: it asks clients for a loss"),
        (m.scaffold, Window(9.0), r"cannot run with Window: its clients keep a state .* \(ControlVariate\)"),
        (m.fedawe, COUNTED, r"cannot run with Deadline: its clients keep a state .* \(Echo\)"),
    ],
)
def test_methods_that_make_no_sense_are_refused_with_the_reason(method, barrier, message):
    problem, clock = random_quadratic(4, 2, seed=0), Clock(Devices(), barrier)
    with pytest.raises(fedtide.FedtideError, match=message):
        fedtide.simulate(problem, Always(4), {"m": method()}, rounds=2, clock=clock)


def test_history_is_refused_where_estimates_are_of_arrivals():
    problem, clock = random_quadratic(4, 2, seed=0), Clock(Devices(), Buffer(2, 3))
    with pytest.raises(fedtide.FedtideError, match="history = 5: must be 0 with Buffer"):
        fedtide.simulate(problem, Always(4), m.fedavg(), rounds=2, history=5, clock=clock)
    with pytest.raises(fedtide.FedtideError, match="clock = 3: must be a clock such as Clock"):
        fedtide.simulate(problem, Always(4), m.fedavg(), rounds=2, clock=3)
