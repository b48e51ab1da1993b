"""Fleets whose stays and absences are not geometric."""

import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.fleet import Fleet, Slots, fit, resemble

STAYS = ((0.25, 0.6, 1.5, 6.0, 12.0), (0.3, 0.3, 0.1, 0.3))
ABSENCES = ((0.25, 1.0, 3.0, 10.0, 20.0), (0.2, 0.2, 0.1, 0.5))
ROUNDS, CLIENTS = 480, 60


def run_lengths(here: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of whole absences and stays of one client, in rounds."""
    last = np.flatnonzero(np.diff(here))
    return np.diff(last)[~here[last[1:]]], np.diff(last)[here[last[1:]]]


def test_lengths_of_one_client():
    # Means of π/a and (1 − π)/a rounds, a = π (1 − π)(1 − λ): here the typical ones, so that its runs are as written.
    # Half of the stays last 1 round, half about 9 (8 to 10, log-uniform); absences 6 to 24.
    long, absence = 2 / np.log(10 / 8), 18 / np.log(4)
    stay = 0.5 * 1.0 + 0.5 * long
    pi = stay / (stay + absence)
    lam = 1 - 1 / (stay * (1 - pi))
    process = Fleet(
        [pi], -1 / np.log(lam), stays=((0.5, 1.0, 7.999, 8.0, 10.0), (0.5, 0, 0, 0.5)),
        absences=((6.0, 24.0), (1.0,)), round_seconds=3600,
    )  # fmt: skip
    here = process.sample(0, 60_000)[:, 0]
    absences, stays = run_lengths(here)
    # 3400 stays: 5.5 standard errors of a share.
    error = 5.5 * np.sqrt(0.25 / len(stays))
    assert abs((stays == 1).mean() - 0.5) < error
    assert set(np.unique(stays)) == {1, 8, 9, 10}
    assert absences.min() == 6
    assert absences.max() == 24
    assert abs((absences <= 12).mean() - 0.5) < error + 0.03  # log-uniform; rounded
    assert abs(here.mean() - pi) < 5.5 * np.sqrt(pi * (1 - pi) / len(stays))
    assert process.correlation == pytest.approx([lam])


def test_a_run_that_goes_on_at_the_start_is_as_at_any_later_time():
    # Without a clock every round is alike: shares there, and about to change, of 20,000 clients in the first rounds.
    process = Fleet(np.full(20_000, 0.3), 3.0, stays=STAYS, absences=ABSENCES)
    here = process.sample(1, 40)
    share, change = here.mean(1), (here[1:] != here[:-1]).mean(1)
    wanted = 2 * 0.3 * 0.7 * (1 - np.exp(-0.5 / 3))
    assert np.abs(share - 0.3).max() < 5.5 * np.sqrt(0.21 / 20_000)
    assert np.abs(change - wanted).max() < 5.5 * np.sqrt(wanted / 20_000)


@pytest.mark.parametrize("hours", [1.0, 100.0, 1e4])
def test_always_and_never_are_exactly_that(hours):
    pi = np.repeat([1.0, 0.0, 0.9999999], 100)
    here = Fleet(pi, hours, stays=STAYS, absences=ABSENCES).sample(0, 300)
    assert here[:, :100].all()
    assert not here[:, 100:200].any()
    assert here[:, 200:].mean() > 0.99


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
    assert model.stays is not None
    assert model.habits is None  # there are none: a chance of 1/60 to see some


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
    for mine, other in ((loaded.stays, model.stays), (loaded.absences, model.absences)):
        assert mine.hours == pytest.approx(other.hours, rel=1e-5)
        assert mine.share == pytest.approx(other.share, abs=1e-6)
    assert (loaded.sample(0, ROUNDS) == generated[0]).mean() > 0.99  # the file has six digits


@pytest.mark.parametrize(
    "stays",
    [
        (0.5, 1.0, 2.0), ((1.0,), ()), ((1.0, 2.0), (0.5, 0.5)), ((2.0, 1.0), (1.0,)), ((0.0, 1.0), (1.0,)),
        ((1.0, 2.0), (-1.0,)), ((1.0, 2.0), (0.0,)), "long",
    ],
)  # fmt: skip
def test_bad_lengths(stays):
    with pytest.raises(InvalidInput, match=r"stays = .* increasing hours"):
        Fleet([0.5], stays=stays, absences=ABSENCES)


def test_stays_without_absences():
    with pytest.raises(InvalidInput, match="absences = None: must be given together"):
        Fleet([0.5], stays=STAYS)
