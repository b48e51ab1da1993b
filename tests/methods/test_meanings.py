"""Every argument is explained."""

import pytest

from fedtide.experiments import settings
from fedtide.methods import CATALOGUE
from fedtide.methods.meanings import _MEANINGS, meaning

KNOWN = {name: set(settings(entry.build)) for name, entry in CATALOGUE.items()}


@pytest.mark.parametrize("name", KNOWN)
def test_every_argument_has_a_meaning(name):
    assert [argument for argument in KNOWN[name] if meaning(name, argument) is None] == []


def test_every_meaning_is_of_an_argument():
    everywhere = set().union(*KNOWN.values()) | {f"{name}.{argument}" for name in KNOWN for argument in KNOWN[name]}
    assert sorted(set(_MEANINGS) - everywhere) == []


def test_an_unknown_argument_has_none():
    assert meaning("fedavg", "nothing_like_it") is None
