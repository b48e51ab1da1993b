"""Sizes that cannot be meant, or do not fit, are refused in one line before anything is drawn."""

import pytest

import fedtide
from fedtide import methods, problems
from fedtide.availability import Always, Phones
from fedtide.errors import DoesNotFit, InvalidInput
from fedtide.participation import Everyone, Subsample, UniformSample
from fedtide.simulation import memory
from fedtide.work import Epochs, Steps


@pytest.mark.parametrize(
    ("argument", "value", "allowed"),
    [
        ("rounds", 10**20, "a whole number, 10,000,000 or less"),
        ("history", 10**9, "a whole number, 10,000,000 or less"),
        ("seeds", 10**9, "a whole number, 1,000,000 or less"),
        ("seeds", range(10**7), "1 to 1,000,000"),
        ("seeds", [0, 2**32], "a whole number, 4,294,967,295 or less"),
        ("evaluate_every", 10**20, "a whole number, 2,147,483,647 or less"),
        ("chunk", 10**20, "a whole number, 2,147,483,647 or less"),
        ("record_clients", "no", "True or False"),
    ],
    ids=["rounds", "history", "seeds", "many seeds", "large seed", "evaluate_every", "chunk", "record_clients"],
)
def test_absurd_arguments_are_refused_at_once(argument, value, allowed, blobs, chains):
    with pytest.raises(InvalidInput) as raised:
        fedtide.simulate(blobs, chains, methods.fedavg(), **{"rounds": 1, argument: value})
    assert str(raised.value).startswith(f"{argument} = ")
    assert str(raised.value).endswith(f": must be {allowed}")


@pytest.mark.parametrize("build", [problems.synthetic_leaf, problems.synthetic_clustered, problems.random_quadratic])
def test_absurd_numbers_of_clients_are_refused_at_once(build):
    with pytest.raises(InvalidInput, match=r"^clients = 100000000: must be a whole number, 1,000,000 or less$"):
        build(clients=100_000_000)


@pytest.mark.parametrize(
    ("build", "sizes", "field"),
    [
        (problems.random_quadratic, {"dimension": 10**9}, "dimension"),
        (problems.synthetic_leaf, {"inputs": 10**9}, "inputs"),
        (problems.synthetic_leaf, {"classes": 10**9}, "classes"),
        (problems.synthetic_leaf, {"clients": 10**6}, "clients"),
        (problems.synthetic_clustered, {"samples": 10**11}, "samples"),
        (problems.synthetic_clustered, {"test_samples": 10**11}, "test_samples"),
    ],
    ids=["dimension", "inputs", "classes", "clients", "samples", "test samples"],
)
def test_problems_of_too_many_numbers_are_refused_at_once(build, sizes, field):
    words = rf"^{field} = \d+: must be less: .* must be at most 10,000,000,000 numbers$"
    with pytest.raises(InvalidInput, match=words):
        build(**sizes)


@pytest.mark.parametrize("process", [Always, Phones])
def test_so_they_are_by_processes(process):
    with pytest.raises(
        InvalidInput, match=r"^availability\.clients = 10+: must be a whole number, 100,000,000 or less$"
    ):
        process(clients=10**20)


def test_integers_too_long_to_write_are_refused(blobs, chains):
    with pytest.raises(InvalidInput, match=r"^rounds = an integer of more than 4,300 digits: must be a whole number"):
        fedtide.simulate(blobs, chains, methods.fedavg(), rounds=10**5000)


def test_what_was_observed_before_must_fit(blobs, chains, monkeypatch):
    monkeypatch.setattr(memory, "device_memory", lambda: 1_000_000)
    words = "^history = 100000: needs about 2.4 MB for 2 seeds and 12 clients, the device has 1 MB$"
    with pytest.raises(DoesNotFit, match=words.replace(".", r"\.")):
        fedtide.simulate(blobs, chains, methods.fedavg(), rounds=1, history=100_000, seeds=2)


def test_minibatches_drawn_ahead_must_fit(blobs, chains):
    with pytest.raises(DoesNotFit, match=r"^FedAvg: needs about .* TB"):
        fedtide.simulate(blobs, chains, methods.fedavg(work=Steps(10**9, 1000)), rounds=1)


def test_steps_are_counted_in_32_bits(blobs, chains):
    # The largest of the twelve clients has 43 samples: 22 minibatches of 2.
    with pytest.raises(
        InvalidInput, match=r"^work\.count = 100000000: must be at most 97,612,893: a client has 22 mini"
    ):
        fedtide.simulate(blobs, chains, methods.fedavg(work=Epochs(10**8, 2)), rounds=1)


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        (methods.fedavg(clients=50), 50),
        (fedtide.compose(methods.fedavg(), participation=Subsample(Everyone(), 7)), 7),
        (fedtide.compose(methods.ca_fed(), participation=UniformSample(7)), 7),
    ],
)
def test_more_clients_per_round_than_there_are_are_refused(method, wanted):
    problem, availability = problems.random_quadratic(clients=6), fedtide.availability.Bernoulli(0.5, clients=6)
    with pytest.raises(InvalidInput, match=rf": clients = {wanted}: must be at most 6, the number of clients$"):
        fedtide.simulate(problem, availability, method, rounds=1)


@pytest.mark.parametrize(
    "method",
    [
        methods.f3ast(),
        methods.fedlaavg(),
        methods.fedavg(clients=6),
        methods.fedavg(clients=9, weights="with_replacement"),
    ],
)
def test_defaults_and_draws_with_replacement_are_not(method):
    """Nobody has chosen ten clients."""
    federation = problems.random_quadratic(clients=6), fedtide.availability.Bernoulli(0.5, clients=6)
    assert fedtide.simulate(*federation, method, rounds=1).rounds["round"].to_list() == [0, 1]
