"""From a configuration to objects."""

import inspect
import re

import numpy as np
import pytest

from fedtide import aggregation, availability, estimators, methods, participation, problems, servers, solvers
from fedtide.availability import Clusters, Markov
from fedtide.errors import FedtideError
from fedtide.estimators import Discounted
from fedtide.experiments import as_written, build, demo, dumps, loads, settings
from fedtide.experiments.build import located
from fedtide.participation import Subsample
from fedtide.partitioners import CATALOGUE
from fedtide.solvers import Proximal
from fedtide.work import Epochs, FullBatch, RandomEpochs, RandomSteps, Steps, StepsPerClient


def test_what_is_named_is_built(small):
    experiment = build(loads(small))
    assert len(experiment.problem.sizes) == 8
    assert isinstance(experiment.availability, Markov)
    assert experiment.availability.clients == 8  # the problem's, as none was written
    assert list(experiment.methods) == ["FedAvg", "two clients"]
    assert experiment.methods["FedAvg"].solver.rate == 0.1
    assert experiment.methods["two clients"].participation.capacity(8) == 2
    assert experiment.options == {"rounds": 4, "seeds": 2, "evaluate_every": 2}


@pytest.mark.parametrize(
    ("shared", "own", "work"),
    [
        ("steps = 2\nbatch = 8", "", Steps(2, 8)),
        ("", "", Steps(5, 32)),
        ("batch = 8", "", Steps(5, 8)),
        ("steps = {low = 1, high = 3}\nbatch = 8", "", RandomSteps(1, 3, 8)),
        ("steps = 2", "local = {steps = {low = 1, high = 3, fixed = true}}", RandomSteps(1, 3, 32, True)),
        ("epochs = 3", "", Epochs(3, 32)),
        ("epochs = {low = 2, high = 5}\nbatch = 8", "", RandomEpochs(2, 5, 8)),
        ('steps = 3\nbatch = "all"', "", FullBatch(3)),
        ("steps = 2\nbatch = 8", "local = {epochs = 1}", Epochs(1, 8)),
        ("epochs = 2\nbatch = 8", "local = {batch = 4}", Epochs(2, 4)),
    ],
)
def test_local_work(small, shared, own, work):
    text = small.replace("steps = 2\nbatch = 8", shared).replace(
        'label = "two clients"', f'label = "two clients"\n{own}'
    )
    built = build(loads(text)).methods["two clients"].solver.work
    assert (type(built), vars(built)) == (type(work), vars(work))


@pytest.mark.parametrize(("name", "work"), [("fedsgd", FullBatch), ("fednova", Steps), ("fedavg", Steps)])
def test_work_that_is_not_written_is_the_method_s_own(small, name, work):
    text = small.replace("[local]\nsteps = 2\nbatch = 8\n", "").replace(
        'name = "fedavg"\nrate', f'name = "{name}"\nlabel = "own"\nrate'
    )
    assert "steps" not in text
    assert isinstance(build(loads(text)).methods["own"].solver.work, work)


def test_steps_for_each_client(small):
    work = build(loads(small.replace("steps = 2", "steps = [1, 2, 3, 4, 5, 6, 7, 8]"))).methods["FedAvg"].solver.work
    assert isinstance(work, StepsPerClient)
    np.testing.assert_array_equal(work.counts, np.arange(1, 9))


def test_parts_are_replaced_by_tables(small):
    text = small + (
        'estimator = {name = "discounted", half_life = 50}\n'
        'participation = {name = "subsample", clients = 3, policy = {name = "unbiased"}}\n'
        'solver = {name = "proximal", rate = 0.2, mu = 0.5}\n'
        'server = {name = "projected", radius = 2, server = {name = "optimiser", rate = 0.5}}\n'
    )
    method = build(loads(text.replace("clients = 2\n", ""))).methods["two clients"]
    assert isinstance(method.estimator, Discounted)
    assert method.estimator.half_life == 50.0
    assert isinstance(method.participation, Subsample)
    assert isinstance(method.participation.policy, participation.Unbiased)
    assert isinstance(method.solver, Proximal)
    assert (method.solver.mu, method.solver.work.count) == (0.5, 2)
    assert method.server.server.rate == 0.5


def test_a_process_inside_another(small):
    text = small.replace(
        'name = "paper_population"',
        'name = "clusters"\nmembership = [0, 0, 0, 0, 1, 1, 1, 1]\n'
        'process = {name = "bernoulli", availability = [0.2, 0.9]}',
    )
    process = build(loads(text)).availability
    assert isinstance(process, Clusters)
    np.testing.assert_array_equal(process.availability, np.repeat([0.2, 0.9], 4))


def test_a_trace_is_found_beside_the_configuration(small, tmp_path):
    matrix = np.random.default_rng(0).random((5, 8)) < 0.5
    np.save(tmp_path / "who.npy", matrix)
    text = small.replace('name = "paper_population"', 'name = "trace"\npath = "who.npy"')
    process = build(loads(text, folder=tmp_path)).availability
    np.testing.assert_array_equal(process.sample(0, 5), matrix)


IMAGES = """\
name = "images"
clients = 6
samples = 300
partition = {name = "label_skew", classes = 3}
model = {name = "softmax_regression"}
"""


def test_a_partition_and_a_model_are_tables(small):
    text = small.replace('name = "synthetic_leaf"\nclients = 8\nlargest = 60\n', IMAGES)
    problem = build(loads(text)).problem
    assert ((problem.label_counts > 0).sum(axis=1) == 3).all()
    assert problem.model == problems.softmax_regression((8, 8), 10)
    assert located(loads(text))["problem"]["partition"] == {"name": "label_skew", "classes": 3}
    groups = '{name = "super_clusters", concentration = 1, smallest = 5, groups = [[0, 1, 2], [3, 4, 5, 6, 7, 8, 9]]}'
    problem = build(loads(re.sub("partition = .*", f"partition = {groups}", text))).problem
    assert (problem.label_counts[:2, 3:] == 0).all()


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ('"iid"', "problem.partition = 'iid': must be a table with a name and its arguments"),
        ('{name = "idd"}',
         f"problem.partition.name: 'idd' is unknown; did you mean 'iid'? known: {', '.join(sorted(CATALOGUE))}"),
        ('{name = "dirichlet"}', "problem.partition.concentration: missing; must be a number"),
        ('{name = "dirichlet", concentration = 0}', "problem: concentration = 0.0: must be positive and finite"),
        ('{name = "dirichlet", concentration = 1, clients = 3}',
         "problem.partition.clients: unknown; known: concentration, equal, name, smallest"),
        ('{name = "super_clusters", concentration = 1, groups = 3}',
         "problem.partition.groups = 3: must be a list of lists of whole numbers or text"),
        ('{name = "iid"}\nmodel = {name = "softmax_regression", inputs = 3}',
         "problem.model.inputs: unknown; known: name"),
    ],
)  # fmt: skip
def test_errors_of_a_partition_or_model_name_their_path(small, partition, message):
    text = small.replace("largest = 60", f"partition = {partition}").replace("synthetic_leaf", "images")
    with pytest.raises(FedtideError) as error:
        build(loads(text, "a.toml"))
    assert str(error.value) == f"a.toml: {message}"


SOLVERS = [
    re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    for name in solvers.__all__
    if isinstance(getattr(solvers, name), type)
]
_BUILD_ERRORS = [
    ('name = "synthetic_leaf"', 'name = "synthetic_leav"',
     "problem.name: 'synthetic_leav' is unknown; did you mean 'synthetic_leaf'? known: "
     f"{', '.join(sorted(problems.CATALOGUE))}"),
    ("largest = 60", "gama = 0.5",
     "problem.gama: unknown; did you mean 'gamma'? known: classes, clients, delta, gamma, iid, importance, "
     "inputs, largest, name, ridge, seed"),
    ("largest = 60", "gamma = -0.5", "problem: gamma = -0.5: must be 0 or more"),
    ('name = "paper_population"', 'name = "paper_population"\nclients = 6',
     "availability: 6 clients, but the problem has 8: both must have the same number"),
    ('name = "paper_population"', 'name = "bernoulli"',
     "availability.availability: missing; must be a number or a list of numbers"),
    ('name = "paper_population"', 'name = "markov"\navailability = 0.9\ncorrelation = -0.9',
     "availability: correlation[0] = -0.9: must be in [-0.1111, 1) for availability 0.9"),
    ('name = "paper_population"', 'name = "clusters"\nprocess = "markov"\nmembership = [0]',
     "availability.process = 'markov': must be a table with a name and its arguments"),
    ('name = "paper_population"', 'name = "clusters"\nmembership = [0]',
     "availability.process: missing; must be a table with a name"),
    ("clients = 2\n", "kapa_squared = 2\n",
     "methods[1].kapa_squared: unknown; known: aggregation, clients, estimator, label, local, name, participation, "
     "rate, schedule, server, server_rate, solver, tune, weights"),
    ("clients = 2\n", "rate = \"0.1\"\n", "methods[1].rate = '0.1': must be a number"),
    ("clients = 2\n", 'solver = {name = "proximal", nu = 1}\n',
     "methods[1].solver.nu: unknown; known: decay, mu, name, rate, schedule"),
    ("clients = 2\n", 'solver = {name = "adam"}\n',
     f"methods[1].solver.name: 'adam' is unknown; known: {', '.join(sorted(SOLVERS))}"),
    ("clients = 2\n", "server = 3\n", "methods[1].server = 3: must be a table with a name and its arguments"),
    ('label = "two clients"\n', "",
     "methods[1].label: 'FedAvg' is also the label of methods[0]; labels must be unique"),
    ("steps = 2", "steps = 2\nepochs = 1", "local: steps and epochs are mutually exclusive; give one"),
    ("steps = 2", "steps = [1, 2]", "local: work.counts = '2 entries': must be one for each of 8 clients"),
    ("batch = 8", 'batch = "all"\nsteps = [1]',
     'local: batch = "all" requires a single number of steps for all clients'),
    ("steps = 2\nbatch = 8", 'steps = {low = 1, high = 3}\nbatch = "all"',
     'local: batch = "all" requires a single number of steps for all clients'),
    ("steps = 2", "steps = {low = 3, high = 1}", "local: work.high = 1: must be 3 or more, as work.low"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), _BUILD_ERRORS)
def test_errors_are_one_line_with_the_path(small, old, new, message):
    if new.endswith("steps = [1]"):
        small = small.replace("steps = 2\n", "")
    assert old in small
    with pytest.raises(FedtideError) as error:
        build(loads(small.replace(old, new), "a.toml"))
    assert str(error.value) == f"a.toml: {message}"


def test_a_near_miss_of_an_argument_is_offered(small):
    text = small.replace('name = "fedavg"\nrate = 0.1', 'name = "ca_fed"\nkapa_squared = 1.0')
    with pytest.raises(
        FedtideError, match=r"^a.toml: methods\[0\].kapa_squared: unknown; did you mean 'kappa_squared'\?"
    ):
        build(loads(text, "a.toml"))


def test_the_demo_names_what_exists():
    config = demo()
    assert (config.run.rounds, config.run.seeds) == (200, 10)
    names = [choice.name for choice in config.methods]
    assert names == ["fedavg", "unbiased", "most_available", "adafed", "f3ast", "ca_fed"]
    assert len(build(config).methods) == 6


@pytest.mark.parametrize("name", sorted(methods.CATALOGUE))
def test_every_method_can_be_written(small, name):
    """The defaults that `fedtide methods NAME` prints are a configuration that builds that method."""
    defaults = {key: p.default for key, p in settings(methods.CATALOGUE[name].build).items()}
    table = dumps({"methods": [{"name": name, **as_written(defaults)}]})
    (method,) = build(loads(small.split("[[methods]]")[0] + table)).methods.values()
    assert method.name == name


@pytest.mark.parametrize("name", sorted(availability.CATALOGUE))
def test_every_process_can_be_written(small, name):
    """The example that `fedtide availability NAME` prints is a configuration that builds that process."""
    entry = availability.CATALOGUE[name]
    clients = entry.build(**entry.example).clients
    table = dumps({"availability": {"name": name, **as_written(entry.example)}})
    text = small.replace('[availability]\nname = "paper_population"\n', table).replace(
        "clients = 8", f"clients = {clients}"
    )
    process = build(loads(text)).availability
    np.testing.assert_array_equal(process.sample(0, 9), entry.build(**entry.example).sample(0, 9))


@pytest.mark.parametrize("package", [estimators, participation, solvers, aggregation, servers])
def test_every_part_can_be_written(package):
    for name in package.__all__:
        value = getattr(package, name)
        if isinstance(value, type):
            needed = {n for n, p in inspect.signature(value).parameters.items() if p.default is inspect.Parameter.empty}
            assert needed <= settings(value).keys()


CLOCK = """
[problem]
name = "quadratic"
clients = 4
dimension = 2
[availability]
name = "always"
[run]
rounds = 3
[clock]
slot = 30
leaving = "paused"
devices = { name = "tiers", shares = [0.5, 0.5], seconds_per_step = [0.1, 1.0], jitter = { name = "lognormal" } }
barrier = { name = "buffer", k = 2, concurrency = 3 }
[[methods]]
name = "fedbuff"
staleness = { name = "hinge", slope = 2.0 }
"""


def test_a_clock_is_built_from_its_table():
    from fedtide.clock import Buffer, Lognormal
    from fedtide.staleness import Hinge

    experiment = build(loads(CLOCK))
    clock, method = experiment.options["clock"], experiment.methods["FedBuff"]
    assert (float(clock.slot), clock.leaving) == (30, "paused")
    assert isinstance(clock.barrier, Buffer)
    assert isinstance(clock.devices.jitter, Lognormal)
    assert sorted(np.asarray(clock.devices.seconds_per_step)) == [0.1, 0.1, 1.0, 1.0]
    assert isinstance(method.aggregation.staleness, Hinge)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"buffer"', '"bufer"', "clock.barrier.name: 'bufer' is unknown; did you mean 'buffer'?"),
        ("k = 2", "k = 9", "clock: barrier.k = 9: must be 4 or less, the number of clients"),
        ("slot = 30", "slots = 30", "clock.slots: unknown; did you mean 'slot'?"),
        ('"paused"', '"gone"', "clock.leaving = 'gone': must be"),
        (", concurrency = 3", "", "clock.barrier.concurrency: missing; must be a whole number"),
        ("slope = 2.0", "slope = -1.0", "staleness.slope = -1.0: must be 0 or more"),
    ],
)
def test_errors_in_a_clock_have_their_path(old, new, message):
    with pytest.raises(FedtideError, match=re.escape(message)) as caught:
        build(loads(CLOCK.replace(old, new)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            'name = "quadratic"',
            'name = "mnist"',
            'problem.name: \'mnist\' is a data set; write name = "images" and data = "mnist"',
        ),
        ("rate = 0.05", "learning_rate = 0.05", "methods[0].learning_rate: unknown; did you mean 'rate'? known: "),
        ("rate = 0.05", "lr = 0.05", "methods[0].lr: unknown; did you mean 'rate'? known: "),
    ],
)
def test_names_of_other_libraries_point_to_ours(old, new, line):
    text = """
[problem]
name = "quadratic"
[availability]
name = "always"
[run]
rounds = 1
[[methods]]
name = "fedavg"
rate = 0.05
"""
    with pytest.raises(FedtideError) as caught:
        build(loads(text.replace(old, new)))
    assert str(caught.value).startswith(f"configuration: {line}")


def test_a_data_set_is_no_problem():
    from fedtide.problems import find

    with pytest.raises(
        FedtideError, match=r"^problem = 'mnist': must be \"images\", with data = \"mnist\" for this data set$"
    ):
        find("mnist")
