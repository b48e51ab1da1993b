"""Fleets whose stays and absences are not geometric."""

import numpy as np
import pytest

from fedtide.availability import Fleet
from fedtide.errors import InvalidInput
from fedtide.fleet import Slots, fit, resemble

STAYS, ABSENCES = (0.6, 0.7, 8.0, 5), (0.4, 1.0, 14.0, 4)
ROUNDS, CLIENTS = 480, 60


def run_lengths(here: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of whole absences and stays of one client, in rounds."""
    last = np.flatnonzero(np.diff(here))
    return np.diff(last)[~here[last[1:]]], np.diff(last)[here[last[1:]]]


def test_lengths_of_one_client():
    # Means of π/a and (1 − π)/a rounds, a = π (1 − π)(1 − λ): here the typical ones, so that its runs are as written.
    pi, stay = 0.25, 0.5 * 1.0 + 0.5 * 9.0
    lam = 1 - 1 / (stay * (1 - pi))
    absence = stay * (1 - pi) / pi
    process = Fleet(
        [pi], -1 / np.log(lam), stays=(0.5, 1.0, 9.0, 3), absences=(0, absence, absence, 1), round_seconds=3600
    )
    here = process.sample(0, 60_000)[:, 0]
    absences, stays = run_lengths(here)
    # Half of the stays last one round; of the others (three stages of 3 rounds on average) none less than three.
    # 3000 stays: 5.5 standard errors of a share.
    error = 5.5 * np.sqrt(0.25 / len(stays))
    assert abs((stays == 1).mean() - 0.5) < error
    assert not (stays == 2).any()
    assert abs((stays == 3).mean() - 0.5 / 27) < error
    assert abs((absences == 1).mean() - 1 / absence) < error
    assert process.correlation == pytest.approx([lam])


@pytest.fixture(scope="module")
def fitted():
    pi, hours = np.random.default_rng(0).uniform(0.1, 0.6, CLIENTS), np.geomspace(1.5, 6, CLIENTS)
    day = 0.4 * np.sin(2 * np.pi * np.arange(24) / 24)
    process = Fleet(pi, hours, day, stays=STAYS, absences=ABSENCES)
    record = process.sample(7, ROUNDS).astype(np.int8)
    model = fit(Slots(record, tuple(map(str, range(CLIENTS))), 1800, 0, "UTC"))
    again = Fleet.of(model)
    return model, [again.sample(seed, ROUNDS) for seed in range(40)]


def test_a_generated_fleet_has_runs_like_the_record(fitted):
    """Run lengths are fitted, so less than 5 % of seven are outside; two or more have a probability below 5 %, three
    below 1 %."""
    model, generated = fitted
    checks, _ = resemble(model, generated)
    named = [c for c in checks if c.name.startswith(("stay", "absence", "back"))]
    assert len(named) == 7
    assert sum(not c.inside for c in named) <= 2
    assert model.stays.long_hours > 3 * model.stays.brief_hours
    assert model.stays.stages > 1


def test_devices_differ_as_in_the_record(fitted):
    model, generated = fitted
    share = (model.record == 1).mean(0).std()
    others = np.array([g.mean(0).std() for g in generated])
    # Estimated spread: 5.5 standard deviations of what a record of this length shows.
    assert abs(share - others.mean()) < 5.5 * others.std()
    plain = model.devices["availability"].std(ddof=0)
    assert model.devices["spread_availability"].std(ddof=0) > plain


def test_lengths_are_saved_and_loaded(fitted, tmp_path):
    model, generated = fitted
    model.save(tmp_path)
    loaded = Fleet.load(tmp_path)
    assert loaded.stays == pytest.approx(model.stays, rel=1e-5)
    assert loaded.absences == pytest.approx(model.absences, rel=1e-5)
    assert (loaded.sample(0, ROUNDS) == generated[0]).mean() > 0.99  # the file has six digits


@pytest.mark.parametrize(
    "stays", [(0.5, 1.0, 2.0), (1.0, 1.0, 2.0, 1), (0.5, 2.0, 1.0, 1), (0.5, 1.0, 2.0, 0), (0.5, 1.0, 2.0, 1.5), "long"]
)
def test_bad_lengths(stays):
    with pytest.raises(InvalidInput, match=r"stays = .* share in"):
        Fleet([0.5], stays=stays)
