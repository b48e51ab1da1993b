"""The example that runs every method holds every method, and can be built."""

from pathlib import Path

from fedtide.experiments import build, load
from fedtide.methods import CATALOGUE

EXAMPLE = Path(__file__).parents[2] / "examples" / "all_methods.toml"


def test_every_method_is_in_the_example():
    config = load(EXAMPLE)
    assert sorted(choice.name for choice in config.methods) == sorted(CATALOGUE)
    experiment = build(config)
    assert len(experiment.methods) == len(CATALOGUE)
    assert experiment.options["seeds"] == 10
