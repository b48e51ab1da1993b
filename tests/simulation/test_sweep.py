"""A sweep is the same runs, without their records."""

import numpy as np
import polars as pl
import pytest

import fedtide
from fedtide.errors import DoesNotFit
from fedtide.simulation import memory, setup
from fedtide.simulation.setup import Setup

OPTIONS = {"rounds": 8, "seeds": 3, "evaluate_every": 4}


def test_each_setting_is_its_own_simulation(as_shipped, blobs, chains, monkeypatch):
    monkeypatch.setattr(setup, "_SEGMENT", 4)  # two segments, of one evaluation each
    rates = (0.05, 0.2)
    found = fedtide.sweep(blobs, chains, [fedtide.methods.fedavg(rate=rate) for rate in rates], **OPTIONS)
    assert found.objective.shape == (2, 3, 2)
    assert found.class_accuracy.shape == (2, 3, 2, 3)
    for i, rate in enumerate(rates):
        alone = fedtide.simulate(blobs, chains, fedtide.methods.fedavg(rate=rate), **OPTIONS)
        evaluated = alone.rounds.filter(pl.col("round").is_in([4, 8])).sort("seed", "round")
        for name in ("objective", "test_accuracy", "worst_decile"):
            expected = evaluated[name].to_numpy().reshape(3, 2)
            np.testing.assert_array_equal(getattr(found, name)[i], expected)
    # Clients have the same number of test samples and the same importance: the mean over classes, by their samples,
    # is the mean over clients.
    share = np.bincount(blobs.test_y) / len(blobs.test_y)
    np.testing.assert_allclose(found.class_accuracy @ share, found.test_accuracy, rtol=1e-5)


def test_a_diverging_setting_leaves_the_others_alone(blobs, chains):
    found = fedtide.sweep(blobs, chains, [fedtide.methods.fedavg(rate=rate) for rate in (1e30, 0.1)], **OPTIONS)
    assert not np.isfinite(found.objective[0]).any()
    assert np.isfinite(found.objective[1]).all()


def test_finished_settings_are_passed_on_one_by_one(blobs, chains):
    settings, heard = [fedtide.methods.fedavg(rate=rate) for rate in (0.05, 0.2)], []
    found = fedtide.sweep(
        blobs, chains, settings, **OPTIONS, finished=heard.append, progress=lambda *what: heard.append(what)
    )
    whole = fedtide.sweep(blobs, chains, settings, **OPTIONS)
    parts = [part for part in heard if not isinstance(part[0], str)]
    assert [len(part.objective) for part in parts] == [1, 1]
    for name in ("objective", "test_accuracy", "class_accuracy"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    # Progress may end the process: it is reported once what has finished was passed on.
    assert [isinstance(call[0], str) for call in heard] == [True, False, True, False, True]


def test_settings_share_their_structure(blobs, chains):
    mixed = [fedtide.methods.fedavg(), fedtide.methods.fedavg(clients=3)]
    with pytest.raises(fedtide.FedtideError, match=r"settings\[1\] = 'fedavg': must be different from"):
        fedtide.sweep(blobs, chains, mixed, **OPTIONS)
    with pytest.raises(fedtide.FedtideError, match="settings = 'none'"):
        fedtide.sweep(blobs, chains, [], **OPTIONS)


def test_settings_that_do_not_fit_together_run_a_few_at_a_time(as_shipped, blobs, chains, monkeypatch):
    settings = [fedtide.methods.fedavg(rate=rate) for rate in (0.05, 0.1, 0.2)]
    whole = fedtide.sweep(blobs, chains, settings, **OPTIONS)
    fitting, asked = Setup.fitting, []

    def only_two(self, label, method, chunk, settings=1):
        asked.append(settings)
        if settings > 2:
            raise DoesNotFit("too large")
        return fitting(self, label, method, chunk, settings)

    monkeypatch.setattr(Setup, "fitting", only_two)
    heard = []
    found = fedtide.sweep(blobs, chains, settings, **OPTIONS, progress=lambda *what: heard.append(what))
    assert asked == [3, 2]
    for name in ("objective", "test_accuracy"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    assert heard == [("fedavg", done, 24) for done in (0, 16, 24)]


def test_what_does_not_fit_alone_is_refused(blobs, chains, monkeypatch):
    monkeypatch.setattr(memory, "device_memory", lambda: 1000)
    with pytest.raises(DoesNotFit, match="fedavg: needs about"):
        fedtide.sweep(blobs, chains, [fedtide.methods.fedavg(), fedtide.methods.fedavg()], **OPTIONS)
