"""What a notebook shows: results with a table and a figure, short parts, and progress where somebody looks."""

import io
import re
import sys
import types
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest

import fedtide
from fedtide import availability, methods, problems
from fedtide.errors import InvalidInput
from fedtide.fleet.model import FleetModel
from fedtide.simulation.progress import reporter


@pytest.fixture(scope="module")
def result(blobs, chains):
    both = {"FedAvg": methods.fedavg(rate=0.1), "<b>": methods.fedavg(rate=0.2)}
    return fedtide.simulate(blobs, chains, both, rounds=6, seeds=2, evaluate_every=2)


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_result_is_a_table_and_a_figure(result):
    page = result._repr_html_()
    tags = Tags(page)
    assert tags.open == []
    assert (tags.seen.count("table"), tags.seen.count("svg")) == (1, 1)
    assert tags.seen.count("tr") == 3
    assert "b" not in tags.seen  # labels are escaped
    assert len(page) < 60_000


def test_a_plot_is_axes_that_can_be_changed(result):
    with matplotlib.rc_context({"backend": "agg"}):
        axes = result.plot()
        assert [line.get_label() for line in axes.get_lines()] == ["FedAvg", "<b>"]
        assert axes.get_ylabel() == "Test accuracy"
        wanted = result.rounds.filter(method="FedAvg", round=6)["test_accuracy"].mean()
        assert axes.get_lines()[0].get_ydata()[-1] == pytest.approx(wanted)
        assert result.plot("invited", ax=axes) is axes
        axes.set_title("mine")
        matplotlib.pyplot.close(axes.figure)
    with pytest.raises(InvalidInput, match=r"^measure = 'accuracy': must be one of available, .*test_accuracy"):
        result.plot("accuracy")


def test_a_run_that_diverged_everywhere_can_be_shown():
    problem = problems.random_quadratic(clients=3, dimension=2)
    with pytest.warns(RuntimeWarning, match="diverged"):
        found = fedtide.simulate(problem, availability.Always(3), methods.fedavg(rate=1e20), rounds=4)
    assert Tags(found._repr_html_()).open == []
    with matplotlib.rc_context({"backend": "agg"}):
        assert found.plot().get_lines() == []
        matplotlib.pyplot.close("all")


def test_representations_are_short(blobs, chains):
    assert repr(methods.fedavg(rate=0.3)) == (
        "Method(name='fedavg', estimator=Blind(), participation=Everyone(), "
        "solver=Sgd(rate=0.3), aggregation=WeightedSum(), server=Optimiser())"
    )
    assert repr(availability.Bernoulli([0.5, 0.9])) == "Bernoulli(availability=[0.5, 0.9], clients=2)"
    many = [
        blobs, chains, problems.random_quadratic(clients=50), problems.digits(), availability.Phones(clients=1000),
        availability.Trace(np.ones((20, 500), bool)), *(entry.build() for entry in methods.CATALOGUE.values()),
    ]  # fmt: skip
    for part in many:
        assert len(repr(part)) < 500, part
        assert "\n" not in repr(part)
        assert not re.search(r"0x|<locals>", repr(part)), part


def test_a_fitted_fleet_is_one_line():
    fields = dict.fromkeys(FleetModel._fields) | {"source": "log.csv", "round_seconds": 3600}
    model = FleetModel(**fields | {"record": np.zeros((300, 20), np.int8)})
    assert repr(model) == "FleetModel('log.csv'; 20 devices, 300 rounds of 3,600 s)"


def reports(reporting):
    with reporting as report:
        report("FedAvg", 0, 50)
        report("FedAvg", 50, 50)


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    reports(reporter(None, ["FedAvg"], 50))
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", terminal := io.StringIO())
    terminal.isatty = lambda: True
    reports(reporter(False, ["FedAvg"], 50))
    assert terminal.getvalue() == ""
    reports(reporter(None, ["FedAvg"], 50))
    assert "50/50 rounds" in terminal.getvalue()
    with pytest.raises(InvalidInput, match=r"^progress = 1: must be True, False, None or a function"):
        reporter(1, ["FedAvg"], 50)


def test_progress_in_a_notebook_is_one_output_that_changes(monkeypatch):
    shown = []

    def display(item, display_id):
        shown.append(item._repr_html_())
        return types.SimpleNamespace(update=lambda item: shown.append(item._repr_html_()))

    shell = types.SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    reports(reporter(None, ["FedAvg"], 50))
    assert len(shown) == 2
    assert 'value="50" max="50"' in shown[-1]
