"""The engine's laws: what may change a number, and what may not."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import fedtide
from fedtide.methods import CATALOGUE
from fedtide.problems.models import Model
from fedtide.simulation import engine
from fedtide.simulation.setup import Setup, batch
from fedtide.simulation.traces import segments
from fedtide.solvers import Momentum, Sgd
from fedtide.work import Epochs, FullBatch, StepsPerClient

ROUNDS = 12


def all_methods():
    small = {"f3ast": {"clients": 4}}
    return {name: entry.build(**small.get(name, {})) for name, entry in CATALOGUE.items()}


# One of each kind; all of them take a minute and a half to compile.
SOME = ["fedavg", "ca_fed", "mifa", "scaffold", "fedawe", "pow_d", "fed_cvar_avg"]


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.slow)])
def result(request, blobs, chains):
    methods = {n: m for n, m in all_methods().items() if request.param == "all" or n in SOME}
    return fedtide.simulate(blobs, chains, methods, rounds=ROUNDS, seeds=3, evaluate_every=4)


def names_of(result) -> list[str]:
    return [method["label"] for method in result.about["methods"]]


def final_models(setup: Setup, method, capacity: int | None = None, chunk: int | None = None) -> np.ndarray:
    segment = setup.plan[0]
    shape = setup.shape(method, segment, chunk)._replace(evaluates=False)
    if capacity is not None:
        shape = shape._replace(capacity=capacity, query_capacity=capacity if shape.query_capacity else 0)
    settings = batch([method])
    carry = engine.start(settings, setup.problem, setup.population, setup.seeds, setup.traces.past, 0)
    carry, _ = engine.run_segment(
        settings, setup.problem, setup.population, setup.seeds, carry, jnp.int32(0), setup.traces[segment], shape
    )
    return np.asarray(carry.w[0])


def setup_for(blobs, chains, method, seeds=2):
    options = {"evaluate_every": 8, "history": 0, "record_clients": False, "chunk": None}
    return Setup(blobs, chains, {"m": method}, rounds=8, seeds=seeds, **options)


def test_every_method_saw_the_same_trace(result, chains):
    wide = result.clients.pivot(on="method", index=["seed", "round", "client"], values="active")
    first, *others = names_of(result)
    for other in others:
        assert wide[first].equals(wide[other], null_equal=False), other
    for seed in range(3):
        active = result.clients.filter(pl.col("method") == first, pl.col("seed") == seed)["active"].to_numpy()
        np.testing.assert_array_equal(active.reshape(ROUNDS, 12), chains.sample(seed, ROUNDS))


def test_every_method_started_from_the_same_models(result):
    start = result.rounds.filter(pl.col("round") == 0).pivot(on="method", index="seed", values="objective")
    for name in names_of(result)[1:]:
        assert start[name].to_list() == start["fedavg"].to_list()


def test_invited_are_active_and_others_have_no_weight(result):
    assert result.clients.filter(pl.col("invited") & ~pl.col("active")).is_empty()
    assert result.clients.filter(~pl.col("invited") & (pl.col("weight") != 0)).is_empty()
    assert result.clients.filter(pl.col("invited") & pl.col("loss").is_null()).is_empty()


def test_tables_agree(result):
    totals = result.clients.group_by("method", "seed", "round").agg(
        pl.col("active").sum().alias("a"), pl.col("invited").sum().alias("i"), pl.col("weight").sum().alias("w")
    )
    both = result.rounds.filter(pl.col("round") > 0).join(totals, on=["method", "seed", "round"])
    assert len(both) == len(names_of(result)) * 3 * ROUNDS
    assert (both["a"] == both["available"]).all()
    assert (both["i"] == both["invited"]).all()
    np.testing.assert_allclose(both["w"], both["weight"], rtol=1e-5)


def test_evaluations_come_when_asked_and_at_the_end(blobs, chains):
    found = fedtide.simulate(blobs, chains, fedtide.methods.fedavg(), rounds=10, seeds=1, evaluate_every=4)
    assert found.rounds.filter(pl.col("objective").is_not_null())["round"].to_list() == [0, 4, 8, 10]


def test_equal_runs_are_equal_to_the_bit(result, blobs, chains):
    methods = {name: all_methods()[name] for name in names_of(result)}
    again = fedtide.simulate(blobs, chains, methods, rounds=ROUNDS, seeds=3, evaluate_every=4)
    assert again.rounds.equals(result.rounds)
    assert again.clients.equals(result.clients)


@pytest.mark.parametrize("name", ["fedavg", "ca_fed"])
def test_the_capacity_changes_no_bit(as_shipped, blobs, chains, name):
    method = all_methods()[name]
    setup = setup_for(blobs, chains, method)
    least = setup.traces.most
    models = [final_models(setup, method, capacity) for capacity in (least, least + 1, 12)]
    np.testing.assert_array_equal(models[0], models[1])
    np.testing.assert_array_equal(models[0], models[2])


def test_the_replica_axis_changes_no_bit(as_shipped, blobs, chains):
    method = fedtide.methods.fedavg()
    together = final_models(setup_for(blobs, chains, method, seeds=[3, 5, 8]), method)
    alone = final_models(setup_for(blobs, chains, method, seeds=[5]), method)
    np.testing.assert_array_equal(together[1], alone[0])


@pytest.mark.parametrize("work", [None, StepsPerClient(np.arange(12) % 4, batch=5), Epochs(1, batch=8)])
def test_the_chunk_changes_no_number(blobs, chains, work):
    method = fedtide.methods.fedavg() if work is None else fedtide.methods.fedavg(work=work)
    setup = setup_for(blobs, chains, method)
    whole = final_models(setup, method)
    np.testing.assert_allclose(final_models(setup, method, chunk=1), whole, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(final_models(setup, method, chunk=5), whole, rtol=2e-6, atol=1e-7)


def test_settings_side_by_side_equal_one_by_one(as_shipped, blobs, chains):
    rates = (0.05, 0.2)
    methods = [fedtide.methods.fedavg(rate=rate) for rate in rates]
    setup = setup_for(blobs, chains, methods[0])
    segment, settings = setup.plan[0], batch(methods)
    shape = setup.shape(methods[0], segment, None)._replace(evaluates=False)
    carry = engine.start(settings, setup.problem, setup.population, setup.seeds, setup.traces.past, 0)
    carry, _ = engine.run_segment(
        settings, setup.problem, setup.population, setup.seeds, carry, jnp.int32(0), setup.traces[segment], shape
    )
    for i, method in enumerate(methods):
        np.testing.assert_array_equal(np.asarray(carry.w[i]), final_models(setup, method))


def test_history_moves_the_trace_and_feeds_the_estimator(blobs, chains):
    method = fedtide.methods.unbiased()
    found = fedtide.simulate(blobs, chains, method, rounds=4, seeds=1, evaluate_every=4, history=30)
    trace = chains.sample(0, 34)
    active = found.clients["active"].to_numpy().reshape(4, 12)
    np.testing.assert_array_equal(active, trace[30:])
    first = found.clients.filter(pl.col("round") == 1, pl.col("active"))
    expected = (1 / 12) / ((trace[:31].sum(0) + 1) / (31 + 2))
    np.testing.assert_allclose(first["weight"], expected[first["client"].to_numpy()], rtol=1e-6)


def test_clients_do_their_own_number_of_steps(blobs):
    """A client of zero steps trains nothing: it has no loss, and the round's mean loss is that of the others."""
    counts = np.arange(12) % 3
    method = fedtide.methods.fedavg(work=StepsPerClient(counts, batch=4))
    found = fedtide.simulate(blobs, fedtide.availability.Always(12), method, rounds=1, seeds=1, evaluate_every=1)
    losses = found.clients["loss"]
    assert losses.is_null().to_list() == (counts == 0).tolist()
    np.testing.assert_allclose(found.rounds["loss"][1], losses.mean(), rtol=1e-6)


def test_persistent_momentum_differs_from_restarted_and_only_then(blobs):
    always = fedtide.availability.Always(12)
    base = fedtide.methods.fedavg()

    def run(solver, rounds):
        method = fedtide.compose(base, solver=solver)
        return fedtide.simulate(blobs, always, {"m": method}, rounds=rounds, seeds=1, evaluate_every=rounds).models["m"]

    np.testing.assert_array_equal(run(Momentum(persistent=True), 1), run(Momentum(), 1))
    assert np.abs(run(Momentum(persistent=True), 2) - run(Momentum(), 2)).max() > 1e-4
    np.testing.assert_array_equal(run(Momentum(decay=0.0), 2), run(Sgd(), 2))


def test_an_empty_round_leaves_model_and_server_alone(blobs):
    trace = np.ones((4, 12), bool)
    trace[1:3] = False
    method = fedtide.compose(fedtide.methods.fedavg(), server=fedtide.servers.Optimiser("adam", 0.1))
    found = fedtide.simulate(blobs, fedtide.availability.Trace(trace), method, rounds=4, seeds=1, evaluate_every=1)
    steps = found.rounds.filter(pl.col("round") > 0)["step"].to_list()
    assert steps[1:3] == [0.0, 0.0]
    assert steps[0] > 0
    assert steps[3] > 0
    objective = found.rounds["objective"].to_list()
    assert objective[1] == objective[2] == objective[3]


def test_a_diverging_seed_is_reported_and_the_rest_goes_on(blobs, chains):
    methods = {"wild": fedtide.methods.fedavg(rate=1e30), "tame": fedtide.methods.fedavg()}
    with pytest.warns(RuntimeWarning, match="wild, seed 1: diverged"):
        found = fedtide.simulate(blobs, chains, methods, rounds=8, seeds=2, evaluate_every=4)
    last = found.rounds.filter(pl.col("round") == 8)
    assert last.filter(pl.col("method") == "tame")["objective"].is_finite().all()
    assert not last.filter(pl.col("method") == "wild")["objective"].is_finite().any()
    assert [w.split(":")[0] for w in found.about["warnings"]] == ["wild, seed 0", "wild, seed 1"]


def test_an_adaptive_server_and_projection_compose(blobs, chains):
    server = fedtide.servers.Projected(fedtide.servers.Optimiser("adam", 0.3), radius=0.5)
    method = fedtide.compose(fedtide.methods.ca_fed(), server=server)
    found = fedtide.simulate(blobs, chains, method, rounds=8, seeds=2, evaluate_every=4)
    assert list(found.models) == ["CA-Fed with Projected"]
    assert (np.linalg.norm(found.models["CA-Fed with Projected"], axis=1) <= 0.5 * (1 + 1e-6)).all()


@pytest.mark.parametrize(
    ("rounds", "every", "longest"), [(1, 1, 1), (10, 3, 6), (200, 5, 50), (7, 10, 4), (120, 100, 50)]
)
def test_spans_cover_all_rounds_once(rounds, every, longest):
    plan = list(segments(rounds, every, longest))
    covered = [t for segment in plan for t in range(segment.first, segment.end)]
    assert covered == list(range(rounds))
    assert all(segment.length <= max(longest, 1) for segment in plan)
    ends = [s.first + s.rounds * (i + 1) for s in plan if s.evaluates for i in range(s.blocks)]
    assert ends == [*range(every, rounds + 1, every), *([rounds] if rounds % every else [])]


def test_pieces_of_a_block_are_the_block(as_shipped, blobs, chains):
    """More rounds between evaluations than a segment has: the model is that of frequent evaluations."""
    method = fedtide.methods.fedavg()
    rare = fedtide.simulate(blobs, chains, method, rounds=100, seeds=1, evaluate_every=100)
    often = fedtide.simulate(blobs, chains, method, rounds=100, seeds=1, evaluate_every=10)
    np.testing.assert_array_equal(rare.models["FedAvg"], often.models["FedAvg"])
    assert rare.rounds.filter(pl.col("objective").is_not_null())["round"].to_list() == [0, 100]
    assert rare.rounds["loss"].equals(often.rounds["loss"])


def test_a_diverged_model_looks_diverged_everywhere(blobs, chains):
    with pytest.warns(RuntimeWarning, match="diverged"):
        found = fedtide.simulate(blobs, chains, fedtide.methods.fedavg(rate=1e38), rounds=4, seeds=1, evaluate_every=4)
    last = found.rounds.row(-1, named=True)
    assert not any(
        np.isfinite(last[name]) for name in ("loss", "objective", "test_loss", "test_accuracy", "worst_decile")
    )
    trained = found.clients.filter(pl.col("round") == 4, pl.col("invited"))
    assert trained["loss"].is_not_null().all()
    assert not trained["loss"].is_finite().any()


def test_an_empty_round_has_no_loss(blobs):
    trace = np.ones((2, 12), bool)
    trace[1] = False
    found = fedtide.simulate(blobs, fedtide.availability.Trace(trace), fedtide.methods.fedavg(), rounds=2)
    assert found.rounds["loss"].is_null().to_list() == [True, False, True]


def test_a_fraction_keeps_its_number_of_clients():
    """0.3 of 100 is 30, also in float32."""
    problem = fedtide.problems.random_quadratic(clients=100, dimension=2, seed=0)
    method = fedtide.methods.most_available(fraction=0.3)
    found = fedtide.simulate(problem, fedtide.availability.Always(100), method, rounds=1, evaluate_every=1)
    assert found.rounds["invited"][1] == 30


def test_work_is_checked_before_the_run(blobs, chains):
    for work, line in (
        (FullBatch(largest=3), r"work\.largest = 3: must be 43 or more"),
        (StepsPerClient(np.ones(5, int)), r"work\.counts = '5 entries': must be one for each of 12 clients"),
    ):
        with pytest.raises(fedtide.FedtideError, match=line):
            fedtide.simulate(blobs, chains, fedtide.methods.fedavg(work=work), rounds=1)


def test_other_types_of_parameters_are_refused(blobs, chains):
    half = Model(lambda key: jnp.zeros((2, 3), jnp.bfloat16), lambda params, x: x @ params)
    problem = dataclasses.replace(blobs, model=half)
    with pytest.raises(fedtide.FedtideError, match="parameters of type bfloat16; all must be float32 here"):
        fedtide.simulate(problem, chains, fedtide.methods.fedavg(), rounds=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 0}, "rounds = 0: must be a whole number, 1 or more"),
        ({"rounds": 2.0}, r"rounds = 2\.0: must be a whole number, 1 or more"),
        ({"rounds": True}, "rounds = True: must be a whole number"),
        ({"seeds": []}, "seeds = '0 of them': must be 1 to 1,000,000"),
        ({"resume": True}, "out = None: must be the folder of the run to resume"),
        ({"seeds": [1, 1]}, "different from each other"),
        ({"seeds": [-1]}, "seeds = -1: must be a whole number, 0 or more"),
        ({"seeds": [2**32]}, "seeds = 4294967296: must be a whole number, 4,294,967,295 or less"),
        ({"evaluate_every": 0}, "evaluate_every = 0"),
        ({"chunk": 0}, "chunk = 0"),
        ({"history": -1}, "history = -1"),
    ],
)
def test_bad_arguments_are_named(blobs, chains, arguments, message):
    with pytest.raises(fedtide.FedtideError, match=message):
        fedtide.simulate(blobs, chains, fedtide.methods.fedavg(), **({"rounds": 2} | arguments))


def test_numbers_of_clients_must_agree(blobs):
    with pytest.raises(fedtide.FedtideError, match=r"availability\.clients = 5: must be 12"):
        fedtide.simulate(blobs, fedtide.availability.Always(5), fedtide.methods.fedavg(), rounds=1)


def test_two_methods_need_labels(blobs, chains):
    twice = [fedtide.methods.fedavg(), fedtide.methods.fedavg(rate=0.2)]
    with pytest.raises(fedtide.FedtideError, match="two called 'FedAvg'"):
        fedtide.simulate(blobs, chains, twice, rounds=1)


def test_the_engine_leaves_the_precision_to_the_user(blobs, chains, float64):
    found = fedtide.simulate(blobs, chains, fedtide.methods.fedavg(), rounds=2, seeds=1, evaluate_every=2)
    assert found.models["FedAvg"].dtype == np.float64
    assert jax.config.jax_enable_x64
