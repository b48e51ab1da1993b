"""The page of a fitted fleet, from a model and a diagnosis."""

import html
import re

import numpy as np
import polars as pl
import pytest

from fedtide.fleet.diagnosis.diagnose import diagnose
from fedtide.fleet.diagnosis.findings import Check, Diagnosis, Finding, Rates, RatesFigure
from fedtide.fleet.diagnosis.resemblance import resemble
from fedtide.fleet.fitted import FittedFleet
from fedtide.fleet.log import Account, Issue
from fedtide.fleet.model import Cluster, Distribution, FleetModel, Profile
from fedtide.fleet.page import figures as fleet_figures
from fedtide.fleet.page import findings as fleet_findings
from fedtide.fleet.page import words as fleet_words
from fedtide.fleet.page.page import render
from fedtide.fleet.page.words import sentences

DAYS, DEVICES = 15, 20
ROUNDS = 24 * DAYS
MONDAY = 1_772_409_600  # 2 March 2026, 0 h UTC
NASTY = '<b>phone & "co"'
ISSUE = Issue("rows <i>of</i> ghosts", 10, "left out", ("line 7: <u>x</u>",))
ACCOUNT = Account("log.csv", "intervals", 1000, 990, (ISSUE,), ("times are taken as seconds",))
NOTHING_READ = Account("", "", 0, 0)
QUESTIONS = ("order", "homogeneity", "week", "dwell", "day_later", "together", "together_after_clock")


def chains(seed: int) -> np.ndarray:
    """bool [rounds, devices]: chains that follow the day, all but the first device, which is never here."""
    drawn = np.random.default_rng(0)
    pi, lam = drawn.uniform(0.15, 0.5, DEVICES), drawn.uniform(0.3, 0.7, DEVICES)
    pi[0] = 0
    random = np.random.default_rng([seed, 1])
    p = pi * (1 + 0.7 * np.cos(2 * np.pi * np.arange(ROUNDS + 1) / 24))[:, None]
    here = np.empty((ROUNDS, DEVICES), bool)
    here[0] = random.random(DEVICES) < p[0]
    for t in range(1, ROUNDS):
        here[t] = random.random(DEVICES) < np.clip(p[t] + lam * (here[t - 1] - p[t - 1]), 0, 1)
    return here


def table(record: np.ndarray, names: list[str]) -> pl.DataFrame:
    """By counting, with made-up intervals."""
    seen, here = (record >= 0).sum(0), (record == 1).sum(0)
    both = (record[1:] >= 0) & (record[:-1] >= 0)
    before, after = record[:-1] == 1, record[1:] == 1
    pairs = {
        f"{'on' if a else 'off'}_{'on' if b else 'off'}": (both & (before == a) & (after == b)).sum(0)
        for a in (False, True)
        for b in (False, True)
    }
    lam = pairs["on_on"] / np.maximum(pairs["on_on"] + pairs["on_off"], 1)
    lam = np.clip(lam - pairs["off_on"] / np.maximum(pairs["off_on"] + pairs["off_off"], 1), 0.05, 0.95)
    pi = here / np.maximum(seen, 1)
    return pl.DataFrame(
        {
            "device": names,
            "kind": np.select([seen < 24, here == 0, here == seen], ["brief", "never", "always"], "regular"),
            "observed": seen,
            "here": here,
            "visits": pairs["off_on"],
            **pairs,
            "raw_availability": pi,
            "availability": pi,
            "availability_low": 0.8 * pi,
            "availability_high": np.minimum(1.2 * pi, 1),
            "correlation": lam,
            "correlation_low": lam - 0.05,
            "correlation_high": lam + 0.05,
            "hours": -1 / np.log(lam),
        }
    )


def model_of(record: np.ndarray, names: list[str], **changes) -> FleetModel:
    with np.errstate(invalid="ignore"):
        share = np.array([(record[h::24] == 1).sum() / (record[h::24] >= 0).sum() for h in range(24)])
    made = FleetModel(
        source="a <log>.csv",
        devices=table(record, names),
        record=record,
        round_seconds=3600,
        start=MONDAY,
        zone="UTC",
        distribution=Distribution((3.0, 8.0), (0.5, 1.5), (1.5, 0.5), (0.1, 0.05), 0.05, 0.02, 1),
        profile=Profile(
            share, np.full(24, 0.02), np.cos(np.arange(24) / 24 * 2 * np.pi), np.array([0.1, 0, 0, 0, 0, -0.05, -0.05])
        ),
        clusters=(Cluster("cluster <1>", (1, 2, 3), 0.3, (0.02, 0.08), 0.4, 5.0),),
        pair_correlation=(0.001, -0.002, 0.002),
        account=ACCOUNT,
    )
    return made._replace(**changes)


@pytest.fixture(scope="module")
def model() -> FleetModel:
    record = chains(0).astype(np.int8)
    record[:40, 1] = record[-60:, 2] = -1
    record[10:, 3] = -1
    return model_of(record, [f"{NASTY} {k}" for k in range(DEVICES)])


@pytest.fixture(scope="module")
def diagnosis(model) -> Diagnosis:
    checks, curves = resemble(model, [chains(seed) for seed in range(1, 5)])
    return diagnose(model, simulated=39)._replace(checks=checks, curves=curves)


@pytest.fixture(scope="module")
def advice() -> pl.DataFrame:
    rows = {
        "round_seconds": [1800, 3600, 7200],
        "rounds": [720, 360, 180],
        "rounds_a_day": [48.0, 24.0, 12.0],
        "devices": [DEVICES] * 3,
        "fleet": [DEVICES] * 3,
        "available": [0.3, 0.3, None],
        "number": [6.0, 6.0, None],
        "correlation": [0.8, 0.6, None],
        "stay": [0.95, 0.85, None],
        "away_rounds": [8.0, 4.0, None],
        "enough": [True, True, False],
    }
    return pl.DataFrame(rows)


@pytest.fixture(scope="module")
def page(model, diagnosis, advice, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("a fleet")
    path = FittedFleet(model, diagnosis, advice).report(folder / "fleet.html", {"command": "fedtide fleet fit <log>"})
    assert path == folder / "fleet.html"
    return path.read_text("utf-8")


def test_every_question_has_its_answer_and_its_figure(page, diagnosis):
    assert [found.name for found in diagnosis.findings] == list(QUESTIONS)
    for found in diagnosis.findings:
        assert found.holds is not None  # 15 days of 19 devices are enough for all
        assert f'<h3 id="q-{found.name}">' in page
        assert f'id="figure-{found.name}"' in page
    drawn = {"presence", "devices", "differences", "clock", "groups", "generated", *QUESTIONS}
    assert set(re.findall(r'<figure id="figure-([^"]+)"', page)) == drawn
    assert page.count('role="img" aria-label="') == 2 * len(drawn)  # wide and narrow
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL).lower()


def test_sections_come_in_order(page):
    heads = re.findall(r'<h2 id="h-(\w+)">', page)
    assert heads == ["read", "fleet", "clock", "chain", "theory", "generator", "length", "use"]


def test_what_is_written_is_escaped(page):
    for bad in ("<b>", "<log>", "<i>of", "<u>x", "cluster <1>", "<script"):
        assert bad not in page
    assert page.count("&lt;b&gt;phone &amp; &#34;co&#34; 0") == 1  # the one that was never here, among its kind
    assert "fedtide fleet fit &lt;log&gt;" in page
    assert "cluster &lt;1&gt;" in page


def test_what_was_read_is_told(page):
    assert "1,000 rows of intervals were read; 990 are used (99%)." in page
    assert "times are taken as seconds" in page


def test_the_way_to_use_it_names_its_folder(page, model, diagnosis, advice):
    assert re.search(r"path = &#34;[^&]*a fleet0&#34;", page)
    assert re.search(r"fedtide fleet recommend &#39;[^&]*a fleet0&#39;", page)


def test_the_terminal_shows_all_findings(model, diagnosis):
    said = sentences(model, diagnosis)
    assert len(said) == 2 + len(QUESTIONS) + 1
    assert said[0].startswith("20 devices over 15 days, in rounds of 1 hour. The median device is available in ")
    assert "1 was never available and 1 was observed too briefly to judge." in said[0]
    for line, found in zip(said[2:], diagnosis.findings, strict=False):
        verdict = "holds" if found.holds else "does not hold"
        assert line.startswith(f"{fleet_words.SHORT[found.name]} ({verdict}): ")
    assert not any(" %" in line for line in said)


def test_a_single_device_of_which_nothing_is_known(advice):
    """No groups, no date, no weekdays, no checks, nothing decided, no theory, no account, no advice."""
    record = np.zeros((30, 1), np.int8)
    record[20:] = -1
    flat = Profile(np.full(24, np.nan), np.full(24, np.nan), np.zeros(24), None)
    lonely = model_of(
        record,
        ["one"],
        zone=None,
        start=0,
        clusters=(),
        pair_correlation=(0.0, 0.0, 0.0),
        account=Account("", "", 0, 0),
        profile=flat,
    )
    found = diagnose(lonely, simulated=39)
    assert all(each.holds is None for each in found.findings)
    page = render(lonely, found._replace(theory=()), advice.clear(), {})
    assert re.findall(r'<figure id="figure-([^"]+)"', page) == ["presence"]
    assert page.count("undecided</td>") == len(QUESTIONS)
    assert page.count("This record cannot answer the question: ") == 1  # not seven times
    assert "This record is too small to test whether" in page
    assert "The generator was not compared with the record." in page
    assert "Too few devices arrived and left to test whether some are correlated" in page
    assert 'id="h-length"' not in page
    assert "path = &#34;my-fleet&#34;" in page


@pytest.mark.parametrize("kind", ["regular", "always", "seldom", "never", "brief"])
def test_a_fleet_of_one_kind_can_be_told(model, kind):
    one = model._replace(devices=model.devices.with_columns(kind=pl.lit(kind)))
    said = fleet_words.answer(one)
    told = {
        "regular": "Every device was available at some time.",
        "always": "Of all devices, 20 were always available.",
        "seldom": "Of all devices, 20 were almost never available.",
        "never": "Of all devices, 20 were never available.",
        "brief": "Of all devices, 20 were observed too briefly to judge.",
    }
    assert told[kind] in said
    assert ("No device was available for long enough" in said) == (kind in ("never", "brief"))


def test_what_a_chain_can_be_trusted_for(model, diagnosis):
    def judged(**holds) -> str:
        found = tuple(each._replace(holds=holds.get(each.name)) for each in diagnosis.findings)
        return fleet_words.trust(model, diagnosis._replace(findings=found))

    assert "too small to test" in judged()
    assert "agrees with this record in everything that could be tested" in judged(order=True, dwell=True)
    assert "it does not describe which devices are available in the next round." in judged(order=False)
    assert (
        "describes which devices are available in the next round. It does not describe weekends and how many devices"
        " are available at once." in judged(order=True, together=False, week=False)
    )


def test_what_the_generator_misses_is_named(diagnosis):
    good = Check("stay_50", "half of the stays (hours)", 1.5, 1.5, 1.0, 2.0, True)
    bad = Check("absence_90", "…", 19.5, 17.6, 17.0, 18.5, False)
    share = Check("back_in_an_hour", "…", 0.2, 0.1, 0.05, 0.15, False)
    none = Diagnosis((), (), (), None, 19, 0)
    assert fleet_words.generator(none._replace(checks=(good,))).endswith("the generator reproduces all.")
    said = fleet_words.generator(none._replace(checks=(good, bad, share)))
    assert said.endswith(
        "the generator reproduces 1. It deviates in long absences (recorded 19.5 h, generated 17 to 18.5 h) and quick"
        " returns (recorded 20.0%, generated 5.0 to 15.0%)."
    )
    kept = fleet_words.generator(none._replace(checks=(good._replace(fitted=True), bad)))
    assert kept.startswith("Of 1 statistic that it was not fitted on, the generator reproduces none.")
    assert kept.endswith("Of 1 statistic that it was fitted on, it reproduces all.")
    far = [Check(name, "…", 9.0, 1.0, 0.0, 2.0, False) for name in ("stay_10", "stay_50", "stay_90")]
    assert said.count("recorded ") == 2
    assert fleet_words.generator(none._replace(checks=(bad, *far))).endswith("2 h); less so in long absences.")
    assert "reproduces none." in fleet_words.generator(none._replace(checks=(bad,)))


def test_the_correction_for_several_questions_is_stated(model, diagnosis, page):
    asked = sum(found.holds is not None for found in diagnosis.findings)
    told = f"Verdicts use Holm's correction over {asked} questions, at 5% for all together"
    assert told in html.unescape(page)
    assert told in sentences(model, diagnosis)[1]


def test_one_reason_for_all_questions_is_told_once(monkeypatch, model, advice):
    for name in ("devices", "differences"):  # figures take long, and are no matter here
        monkeypatch.setattr(fleet_figures, name, lambda model: None)
    short = model._replace(record=model.record[:12])
    told = render(short, diagnose(short, simulated=39), advice, {})
    assert told.count("12 rounds are too few") == 1
    assert 'id="q-order"' not in told


def test_numbers_that_were_edited_are_told(monkeypatch, model, diagnosis, advice, page):
    for name in ("devices", "differences"):  # figures take long, and are no matter here
        monkeypatch.setattr(fleet_figures, name, lambda model: None)
    monkeypatch.setattr(fleet_findings, "finding", lambda model, found: None)
    edited = Diagnosis((), (), (), None, 39, 0, edited=True)
    assert fleet_words.EDITED not in page
    assert fleet_words.EDITED in render(model, edited, advice, {})
    assert sentences(model, edited)[-1] == fleet_words.EDITED


def test_a_figure_that_disagrees_with_its_test_says_why(model):
    rates = Rates(*(np.array([value, np.nan]) for value in (1.5, 0.9, 1.1)))
    shown = RatesFigure(np.array([0.5]), rates, rates)
    found = Finding("order", "?", "Yes.", True, 0.05, (0.0, 0.1), 0.5, shown)
    assert fleet_findings.finding(model, found).caption.endswith("does not reject.")
    assert fleet_findings.finding(model, found._replace(figure=None)) is None


def test_days_are_named_by_the_clock_of_the_log(model):
    dated = fleet_figures.presence(model).wide
    assert "Midnight, UTC" in dated
    assert ">2 Mar<" in dated
    shifted = fleet_figures.presence(model._replace(zone="Asia/Tokyo", start=MONDAY)).wide
    assert ">3 Mar<" in shifted  # the record begins at 9 h there
    assert ">2 Mar<" not in shifted
    short = model._replace(record=model.record[:20], zone=None)
    assert "Hours since the record began" in fleet_figures.presence(short).wide


def test_numbers_in_words():
    assert [fleet_words.decimal(x) for x in (-0.5, 0.25)] == ["−0.50", "0.25"]
    assert [fleet_words.share(x) for x in (0.0, 0.004, 0.5, 0.996, 1.0)] == ["0%", "0.4%", "50%", "99.6%", "100%"]
    assert [fleet_words.hours(x) for x in (0.5, 1.78, 96.0)] == ["30 minutes", "1.8 hours", "4 days"]
