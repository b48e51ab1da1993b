"""Commands that show things."""

import re
import subprocess
import sys
import tomllib

import pytest

from fedtide import availability, methods
from fedtide.experiments import build, loads
from fedtide.tomls import toml

COMMANDS = ("demo", "run", "tune", "resume", "report", "check", "theory", "methods", "availability", "cite", "data",
            "experiments", "reproduce")  # fmt: skip


REST = """
problem = {name = "quadratic", clients = 4}
availability = {name = "always"}
run = {rounds = 1}
"""


def lines_of(table: str) -> str:
    """The inline table's keys, a line each."""
    return "\n".join(f"{key} = {toml(value)}" for key, value in tomllib.loads(f"x = {table}")["x"].items())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(fedtide, command):
    result = fedtide(command, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert f"  fedtide {command}" in result.stdout


def test_help_names_every_command(fedtide):
    result = fedtide("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)
    assert "fedtide demo" in result.stdout


def test_version(fedtide):
    result = fedtide("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("fedtide ")


def test_methods_lists_all_by_purpose(fedtide):
    result = fedtide("methods")
    assert result.exit_code == 0
    words = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ") and line[2] != " "]
    assert words == [entry.name for entries in methods.by_purpose().values() for entry in entries]
    assert sorted(words) == sorted(methods.CATALOGUE)
    assert "\nHeterogeneous data" in result.stdout


@pytest.mark.parametrize("name", ["fednova", "stochastic_approximation", "scaffold"])
def test_a_method_shows_its_own_local_work(fedtide, name):
    text = " ".join(fedtide("methods", name).stdout.split())
    local = re.search(r"a client's local work in a round: (\{.*?\}) unless", text)
    assert local is not None
    written = REST + f'[local]\n{lines_of(local[1])}\n[[methods]]\nname = "{name}"\n'
    (method,) = build(loads(written)).methods.values()
    own = methods.find(name).build()
    assert (type(method.solver.work), vars(method.solver.work)) == (type(own.solver.work), vars(own.solver.work))


def test_a_method_is_explained(fedtide):
    result = fedtide("methods", "ca_fed")
    assert result.exit_code == 0
    for part in (
        "CA-Fed",
        "kappa_squared",
        "unbiased when",
        "the price of bias",
        "@article",
        '[[methods]]\nname = "ca_fed"\nrate = ',
    ):
        assert part in result.stdout


def test_availability_lists_all(fedtide):
    result = fedtide("availability")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in availability.CATALOGUE)


@pytest.mark.parametrize("name", sorted(availability.CATALOGUE))
def test_a_process_is_explained_and_drawn(fedtide, name):
    result = fedtide("availability", name)
    assert result.exit_code == 0
    snippet = result.stdout.split("In a configuration")[1].split("Availability in this example")[0]
    assert tomllib.loads(snippet)["availability"]["name"] == name
    assert any(block in result.stdout for block in "█▀▄")


def test_cite_prints_bibtex_once(fedtide):
    result = fedtide("cite", "fedavg", "ca_fed", "fedavg")
    assert result.exit_code == 0
    assert result.stdout == f"{methods.find('fedavg').bibtex}\n\n{methods.find('ca_fed').bibtex}\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("methods", "fedagv"), "error: 'fedagv' is unknown; did you mean 'fedavg'? known: "),
        (("cite", "fedavg", "xyzzy"), "error: 'xyzzy' is unknown; known: "),
        (("availability", "markow"), "error: 'markow' is unknown; did you mean 'markov'? known: "),
        (("experiments", "ca_fed_fig1x"), "error: 'ca_fed_fig1x' is unknown; did you mean 'ca_fed_fig1"),
    ],
)
def test_an_unknown_name_is_one_line(fedtide, arguments, line):
    result = fedtide(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1


def test_help_does_not_wait_for_jax():
    code = "import sys, fedtide.cli; print([m for m in ('jax', 'optax', 'polars', 'scipy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_package_imports_what_is_used_and_knows_its_names():
    code = """if True:
        import sys, fedtide
        assert "jax" not in sys.modules
        assert sorted(dir(fedtide)) == sorted(fedtide.__all__)
        for name in fedtide.__all__:
            getattr(fedtide, name)
        try:
            fedtide.simulation_of_nothing
        except AttributeError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "module 'fedtide' has no attribute 'simulation_of_nothing'\n"
