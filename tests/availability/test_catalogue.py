import inspect

import pytest

from fedtide.availability import CATALOGUE, Markov, find
from fedtide.errors import FedtideError


def test_names():
    assert list(CATALOGUE) == [
        "always",
        "bernoulli",
        "markov",
        "finite_chain",
        "clusters",
        "cyclic",
        "random_access",
        "diurnal",
        "phones",
        "trace",
        "paper_population",
        "spatial_population",
        "fleet",
    ]


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.name)
def test_an_entry_explains_itself(entry):
    assert CATALOGUE[entry.name] is entry
    assert entry.summary.endswith(".")
    assert set(entry.example) <= set(inspect.signature(entry.build).parameters)


def test_find():
    assert find("markov").build is Markov
    with pytest.raises(FedtideError, match=r"'markow'.*random_access.*did you mean 'markov'\?") as error:
        find("markow")
    assert "\n" not in str(error.value)
