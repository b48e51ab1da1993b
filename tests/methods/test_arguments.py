"""Every argument is explained: under `Args:` in the method's docstring, or once for all methods."""

import inspect

import pytest

from fedtide import methods


@pytest.mark.parametrize("name", methods.CATALOGUE)
def test_every_argument_is_explained(name):
    entry = methods.find(name)
    assert [
        argument for argument in inspect.signature(entry.build).parameters if not entry.explained.get(argument)
    ] == []


@pytest.mark.parametrize("name", methods.CATALOGUE)
def test_every_explanation_is_of_an_argument(name):
    entry, of_all = methods.find(name), {"rate", "server_rate", "work", "schedule", "estimator"}
    assert set(entry.explained) - of_all <= set(inspect.signature(entry.build).parameters)


def test_what_the_docstring_says_comes_before_what_holds_for_all():
    assert methods.find("fedavg").explained["server_rate"] == "η_s, the server's learning rate"
    assert methods.find("focus").explained["server_rate"].startswith("η_s, for the mean over clients;")


def test_help_explains_and_equations_do_not():
    entry = methods.find("ca_fed")
    assert "kappa_squared: κ̄², the price of bias" in (inspect.getdoc(methods.ca_fed) or "")
    assert "price of bias" not in entry.equations
    assert entry.explained["kappa_squared"].endswith("0 keeps those that learn fastest")
