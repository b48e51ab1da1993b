"""A small configuration to start from."""

import pytest

SMALL = """\
title = "Small"

[problem]
name = "synthetic_leaf"
clients = 8
largest = 60

[availability]
name = "paper_population"

[run]
rounds = 4
seeds = 2
evaluate_every = 2

[local]
steps = 2
batch = 8

[[methods]]
name = "fedavg"
rate = 0.1

[[methods]]
name = "fedavg"
label = "two clients"
clients = 2
"""


@pytest.fixture
def small() -> str:
    return SMALL
