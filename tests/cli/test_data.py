"""The commands `data`, `data fetch` and `data show`."""

import os
import tomllib

import numpy as np
import pytest

from fedtide.data import CATALOGUE, user_cache

IMAGES = """
problem = {name = "digits", clients = 6, seed = 3}
availability = {name = "always"}
run = {rounds = 1}
methods = [{name = "fedavg"}]
"""


@pytest.fixture(autouse=True)
def alone(tmp_path_factory, monkeypatch):
    """No data but the test's."""
    home = str(tmp_path_factory.mktemp("home"))
    monkeypatch.delenv("FEDTIDE_DATA", raising=False)
    for variable in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, home)


@pytest.fixture
def own(tmp_path):
    """A folder with a small data set of two classes."""
    y = np.repeat([0, 1], 30)
    np.savez(tmp_path / "own.npz", x=np.zeros((60, 4), np.uint8), y=y, is_test=np.arange(60) % 6 == 0)
    return tmp_path


def words(result) -> str:
    return " ".join(result.stdout.split())


@pytest.mark.parametrize("command", [(), ("fetch",), ("show",)])
def test_help_has_examples(fedtide, command):
    result = fedtide("data", *command, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert " ".join(("  fedtide data", *command)) in result.stdout


def test_the_list_names_every_set_what_it_needs_and_where_it_looked(fedtide, own, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    result = fedtide("data", "--data-dir", own)
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert set(CATALOGUE) <= lines.keys()
    assert lines["digits"].rstrip().endswith("included in scikit-learn")
    assert "missing: stl10_binary.tar.gz, or the files in it; 2,640 MB to download" in lines["stl10"]
    assert "missing: mnist10k.npz, or the files of mnist" in lines["mnist10k"]
    assert lines["own"].rstrip().endswith(str(own / "own.npz"))
    assert "--data-dir" in lines[str(own)]
    assert "the user's cache (no such folder)" in lines[str(user_cache())]
    assert "fedtide data fetch NAME" in result.stdout


def test_what_is_there_is_listed_with_its_place(fedtide, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "cifar-10-binary.tar.gz").touch()
    monkeypatch.setenv("FEDTIDE_DATA", str(tmp_path))
    lines = {line.split()[0]: line.rstrip() for line in fedtide("data").stdout.splitlines() if line}
    assert lines["cifar10"].endswith(str(tmp_path / "cifar-10-binary.tar.gz"))
    assert lines["cifar10_12k"].endswith(f"cut from cifar10 in {tmp_path / 'cifar-10-binary.tar.gz'}")
    assert lines[str(tmp_path)].endswith("FEDTIDE_DATA")


def test_fetch_says_what_came_and_under_which_terms(fedtide, tmp_path, monkeypatch):
    asked = []

    def fetch(name, folder, bar):
        asked.append((name, folder))
        shown = bar(CATALOGUE[name].remotes[0])
        shown.total = 3
        shown.update(2)
        shown.reset()
        shown.close()
        return [tmp_path / "mnist" / remote.name for remote in CATALOGUE[name].remotes]

    monkeypatch.setattr("fedtide.data.fetching.fetch", fetch)
    result = fedtide("data", "fetch", "mnist10k", "mnist", "--data-dir", tmp_path)
    assert result.exit_code == 0
    assert asked == [("mnist", tmp_path)]
    assert result.stdout.startswith(f"mnist: 4 files in {tmp_path / 'mnist'}\nLicence: CC BY-SA 3.0. Cite: LeCun,")
    assert fedtide("data", "--data-dir", tmp_path / "a", "fetch", "mnist").exit_code == 0
    assert asked[-1] == ("mnist", tmp_path / "a")


def test_show_counts_every_sample_once(fedtide, own, tmp_path):
    result = fedtide("data", "show", "own", "--data-dir", own, "--clients", 5, "--partition", "iid")
    assert result.exit_code == 0
    assert result.stdout.startswith("own over 5 clients by iid(), seed 0\n")
    rows = [line.split() for line in result.stdout.splitlines() if line[:6].strip().isdigit()]
    counts = np.array([[0 if cell == "·" else int(cell) for cell in row] for row in rows])
    assert counts[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert (counts[:, 1] == counts[:, 2:].sum(1)).all()
    assert counts[:, 2:].sum(0).tolist() == [25, 25]
    assert "5 clients, 50 samples: 10 to 10 per client" in result.stdout


def test_show_takes_the_arguments_of_a_partition(fedtide, own):
    same = ("data", "show", "own", "--data-dir", own, "--clients", 4, "--seed", 1)
    by_option = fedtide(*same, "--concentration", 0.5)
    by_set = fedtide(*same, "--partition", "dirichlet", "--set", "concentration=0.5")
    assert by_option.exit_code == 0
    assert by_option.stdout == by_set.stdout
    assert by_option.stdout.startswith("own over 4 clients by dirichlet(concentration = 0.5), seed 1\n")
    assert fedtide(*same[:-1], 2, "--concentration", 0.5).stdout != by_option.stdout
    grouped = fedtide(*same, "--partition", "super_clusters", "--set", "groups=[[0], [1]]", "--concentration", 1,
                      "--set", "smallest=2")  # fmt: skip
    assert grouped.exit_code == 0
    assert "from 1 to 1 classes" in grouped.stdout


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_show_writes_a_picture(fedtide, own, tmp_path, suffix):
    path = tmp_path / "pictures" / f"who.{suffix}"
    result = fedtide("data", "show", "own", "--data-dir", own, "--out", path)
    assert result.exit_code == 0
    assert result.stdout.endswith(f"Figure: {path}\n")
    assert path.read_bytes().startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix])
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_show_of_a_configuration_is_of_its_problem(fedtide, tmp_path):
    from fedtide.problems import digits

    path = tmp_path / "my.toml"
    path.write_text(IMAGES, "utf-8")
    result = fedtide("data", "show", path)
    assert result.exit_code == 0
    assert result.stdout.startswith("my.toml: digits over 6 clients\n")
    sizes = [int(line.split()[1]) for line in result.stdout.splitlines() if line[:6].strip().isdigit()]
    assert sizes == np.asarray(digits(**{k: v for k, v in tomllib.loads(IMAGES)["problem"].items() if k != "name"}).sizes).tolist()  # fmt: skip  # noqa: E501


def test_show_of_a_configuration_looks_in_the_folder_and_leaves_the_environment(fedtide, own, tmp_path_factory):
    path = tmp_path_factory.mktemp("elsewhere") / "my.toml"
    path.write_text(IMAGES.replace('"digits"', '"images", data = "own"'), "utf-8")
    assert fedtide("data", "show", path).exit_code == 2
    result = fedtide("data", "show", path, "--data-dir", own)
    assert result.exit_code == 0
    assert "6 clients, 50 samples" in result.stdout
    assert "FEDTIDE_DATA" not in os.environ
    assert fedtide("data", "show", path).exit_code == 2


def test_many_classes_become_a_summary(fedtide, tmp_path):
    y = np.arange(600) % 60
    np.savez(tmp_path / "many.npz", x=np.zeros((600, 1), np.uint8), y=y, is_test=np.zeros(600, bool))
    result = fedtide("data", "show", "many", "--data-dir", tmp_path, "--clients", 30)
    assert result.exit_code == 0
    assert "client  samples  classes  largest classes" in result.stdout
    assert "Shown: 24 of 30 clients, evenly spaced." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("show", "mnist"), "error: mnist: train-images-idx3-ubyte, "),
        (("show", "mnits"), "error: 'mnits' is no .npz at "),
        (("show", "digits", "--partition", "iidd"), "error: --partition: name: 'iidd' is unknown; did you mean 'iid'?"),
        (("show", "digits", "--concentration", "-1"), "error: concentration = -1.0: must be positive and finite"),
        (
            ("show", "digits", "--partition", "iid", "--concentration", "1"),
            "error: --partition: concentration: unknown;",
        ),
        (
            ("show", "digits", "--set", "concentration=0.5", "--concentration", "0.1"),
            "error: --set = 'concentration=0.5': concentration is given twice",
        ),
        (
            ("show", "digits", "--set", "smallest=1", "--set", "smallest=2"),
            "error: --set = 'smallest=2': smallest is given twice",
        ),
        (
            ("show", "digits", "--partition", "iid", "--clients", "5000"),
            "error: --clients = 5000: must be at most 1,438, the samples of digits",
        ),
        (("show", "digits", "--set", "smallest"), "error: --set = 'smallest': must be KEY=VALUE"),
        (("show", "digits", "--set", "smallest=]"), "error: --set = 'smallest=]': ']' is not a TOML value such as 2,"),
        (
            ("show", "digits", "--out", "who.txt"),
            "error: file = 'who.txt': must be a file name ending in .svg, .png or",
        ),
        (("show", "nowhere.toml"), "error: nowhere.toml: "),
        (("show", "my.toml", "--clients", "3"), "error: --clients: only for a data set; a configuration"),
        (("fetch", "mnist", "digits"), "error: digits: nothing to download; it is included in scikit-learn"),
        (("fetch", "mnits"), "error: 'mnits' is not a data set; did you mean 'mnist'? known: "),
    ],
)
def test_a_fault_is_one_line(fedtide, arguments, line):
    result = fedtide("data", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(line)
    assert result.stderr.count("\n") == 1


def test_a_problem_without_classes_is_one_line(fedtide, config, tmp_path):
    path = tmp_path / "q.toml"
    path.write_text(IMAGES.replace('name = "digits", clients = 6, seed = 3', 'name = "quadratic"'), "utf-8")
    result = fedtide("data", "show", path)
    assert result.exit_code == 2
    assert result.stderr == f"error: {path}: problem 'quadratic' has no classes\n"
