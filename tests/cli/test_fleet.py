"""`fedtide fleet`, end to end on an invented log: example, fit, report, recommend, and a run on the fitted fleet."""

import contextlib
import inspect
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fedtide.cli import app
from fedtide.experiments import build, load
from fedtide.fleet import discretise, load_model
from fedtide.fleet import fitted as fleets
from fedtide.fleet import recommendation as recommending
from fedtide.fleet.recommendation import runs

RUN = """\
[problem]
name = "quadratic"
clients = 6

[availability]
name = "fleet"
path = "phones"

[run]
rounds = 4
seeds = 2
evaluate_every = 2

[[methods]]
name = "fedavg"
rate = 0.05
"""


def invoke(*arguments) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], prog_name="fedtide", env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    result = invoke("fleet", "example", folder, "--devices", 24, "--days", 4)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0] == f"Log: {folder / 'log.csv'}"
    return folder


@pytest.fixture(scope="module")
def fitted(log) -> tuple[Path, Result]:
    """The folder of a fitted fleet, to be copied, not changed; and what was said."""
    folder = log / "fleet"
    result = invoke(
        "fleet", "fit", log / "log.csv", "--windows", log / "windows.csv", "--round", "1h", "--simulated", 39,
        "--zone", "Europe/Paris", "--out", folder,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return folder, result


@pytest.fixture
def here(tmp_path, monkeypatch, log) -> Path:
    """An empty folder with the log in it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(log / "log.csv", tmp_path)
    return tmp_path


def test_fit(fitted):
    folder, result = fitted
    assert {path.name for path in folder.iterdir()} == {"fleet.toml", "devices.parquet", "diagnosis.json", "fleet.html"}
    for said in ("rows that are exact duplicates", "+01:00", "left out", "merged"):
        assert said in result.stdout
    *_, model, page = result.stdout.splitlines()
    assert (model, page) == (f"Model: {folder / 'fleet.toml'}", f"Page: {folder / 'fleet.html'}")
    loaded = load_model(folder)
    assert (loaded.devices.height, loaded.round_seconds, loaded.zone) == (24, 3600, "Europe/Paris")
    assert loaded.devices["kind"].to_list()[:3] == ["never"] * 3


def test_report_is_written_again(fitted, tmp_path):
    folder, first = fitted
    result = invoke("fleet", "report", folder, "--out", tmp_path / "again.html")
    assert result.exit_code == 0, result.stderr
    *findings, page = result.stdout.splitlines()
    assert page == f"Page: {tmp_path / 'again.html'}"
    assert "\n".join(findings) in first.stdout
    assert "phone-0001" in (tmp_path / "again.html").read_text("utf-8")


def test_example_overwrites_nothing(here):
    result = invoke("fleet", "example", ".")
    assert (result.exit_code, result.stderr) == (2, "error: log.csv: exists; choose another folder\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.csv", "--out", "a"], "none.csv: No such file"),
        (["log.csv", "--out", "a", "--round", "1 week"], "--round = '1 week': must be a number with a unit"),
        (["log.csv", "--out", "a", "--round", "0s"], "--round = '0s': must be"),
        (["log.csv", "--out", "a", "--zone", "Mars/Olympus"], "zone = 'Mars/Olympus': must be a time zone"),
        (["log.csv", "--out", "a", "--where", "kind"], "--where = 'kind': must be a name, =, and a value"),
        (["log.csv", "--out", "a", "--column", "device=phone"], "there is no column 'phone' (device)"),
        (["log.csv", "--out", "a", "--where", "device=nobody"], "rows excluded by where)"),
        (["header.csv", "--out", "a"], "header.csv: a table without rows"),
        (["log.csv", "--out", "full"], "full: exists and is not empty; choose another --out"),
        (["log.csv", "--out", "log.csv"], "log.csv: exists and is not empty; choose another --out"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(here, arguments, said):
    Path("header.csv").write_text("device,start,end\n", "utf-8")
    Path("full").mkdir()
    Path("full/thesis.tex").write_text("mine", "utf-8")
    result = invoke("fleet", "fit", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert {str(path) for path in Path().rglob("*")} == {"log.csv", "header.csv", "full", "full/thesis.tex"}


@pytest.mark.parametrize("where", ["fit_fleet", "report"])
@pytest.mark.parametrize(
    ("fault", "status", "line"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (OSError(28, "No space left on device", "fleet.html"), 1, "error: fleet.html: No space left on device"),
    ],
)
def test_what_is_stopped_leaves_nothing(here, fitted, monkeypatch, where, fault, status, line):
    """While fitting, or when all but the page is written."""

    def stop(*arguments, **options):
        raise fault

    done = fleets.FittedFleet.load(fitted[0])
    monkeypatch.setattr(fleets, "fit_fleet", lambda *arguments, **options: done)
    monkeypatch.setattr(*((fleets, where) if where == "fit_fleet" else (fleets.FittedFleet, where)), stop)
    result = invoke("fleet", "fit", "log.csv", "--round", "1h", "--out", "deep/fleet")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (status, line)
    assert [path.name for path in here.iterdir()] == ["log.csv"]


@pytest.mark.parametrize("command", ["fit", "recommend"])
def test_nothing_is_made_before_all_is_done(here, fitted, monkeypatch, command):
    """A second Ctrl-C ends the process where it is: what is on the disk then is left, and must not be in the way."""
    seen = []

    def work(*arguments, **options):
        seen.append(sorted(path.name for path in here.iterdir()))
        raise KeyboardInterrupt

    monkeypatch.setattr(fleets, "fit_fleet", work)
    monkeypatch.setattr(recommending, "recommend", work)
    what = ("log.csv", "--round", "1h") if command == "fit" else (fitted[0],)
    result = invoke("fleet", command, *what, "--out", "deep/out")
    assert (result.exit_code, seen) == (130, [["log.csv"]])


def test_what_is_no_fleet_is_refused(here):
    for command in ("report", "recommend"):
        result = invoke("fleet", command, ".")
        assert result.exit_code == 2
        assert result.stderr == "error: fleet.toml: No such file or directory; fedtide fleet fit writes one\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--margin", "-1"], "margin = -1"),
        (["--worth", "1"], "--worth: renamed; use --margin"),
        (["--client-memory", "much"], "client-memory = 'much': must be a size"),
        (["--methods", "fedavgg"], "did you mean 'fedavg'"),
        (["--problem", "none.toml"], "none.toml: No such file"),
    ],
)
def test_bad_wishes_are_one_line(fitted, tmp_path, options, said):
    result = invoke("fleet", "recommend", fitted[0], "--out", tmp_path / "a", *options)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert not (tmp_path / "a").exists()


def test_recommend(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(
        "fleet", "recommend", fitted[0], "--problem", "quadratic", "--methods", "fedavg", "--rounds", 6,
        "--seeds", 2, "--trials", 2, "--margin", 2, "--out", "out",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    files = {str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file()}
    assert files == {
        "fleet/devices.parquet", "fleet/fleet.toml", "recommended.toml", "recommendation.html", "recommendation.json",
        "trials.parquet",
    }  # fmt: skip
    found = json.loads(Path("out/recommendation.json").read_text("utf-8"))
    assert (found["margin"], found["rounds"], found["seeds"], found["trials"]) == (0.02, 6, 2, 2)
    for said in ("Use FedAvg. On the recorded trace, FedAvg reaches an objective of ", "What would change the answer:"):
        assert said in result.stdout
    assert set(found["edges"]) == {"FedAvg"}  # two trials have no middle
    config = Path("out/recommended.toml").read_text("utf-8")
    assert max(len(line) for line in config.splitlines() if line.startswith("#")) <= 88
    page = Path("out/recommendation.html").read_text("utf-8")
    assert "--methods fedavg" in page
    assert "<strong>Use FedAvg.</strong>" in page
    assert "--margin 2" in page
    assert "at the edge of the range that was tried" in page
    assert list(build(load("out/recommended.toml")).methods) == ["FedAvg"]


def test_the_fitted_fleet_is_an_availability(fitted, tmp_path):
    shutil.copytree(fitted[0], tmp_path / "phones")
    (tmp_path / "small.toml").write_text(RUN, "utf-8")
    result = invoke("run", tmp_path / "small.toml", "--out", tmp_path / "ran")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "ran" / "report.html").is_file()


def test_the_ledger_of_a_deployment_is_a_log(fitted, tmp_path, monkeypatch):
    path, begin = tmp_path / "ledger.sqlite", 1_772_409_600
    with contextlib.closing(sqlite3.connect(path)) as ledger, ledger:
        for view in ("availability_log", "availability_windows"):
            ledger.execute(f'create table {view}_rows(device text, start real, "end" real, run integer)')
            ledger.execute(f'create view {view} as select device, start, "end", run from {view}_rows')
        ledger.execute("create table empty(b)")
        for k in range(6):
            window = (f"c{k}", begin, begin + 259_200, 1)
            ledger.execute("insert into availability_windows_rows values (?, ?, ?, ?)", window)
            for hour in range(k, 72, k + 2):
                row = (f"c{k}", begin + 3600 * hour, begin + 3600 * hour + 1800, 1)
                ledger.execute("insert into availability_log_rows values (?, ?, ?, ?)", row)
    done, heard = fleets.FittedFleet.load(fitted[0]), []
    monkeypatch.setattr(fleets, "fit_fleet", lambda log, length, **options: heard.append((log, length)) or done)
    result = invoke("fleet", "fit", path, "--round", "1h", "--out", tmp_path / "fleet")
    assert result.exit_code == 0, result.stderr
    slots = discretise(*heard[0])
    assert slots.devices == tuple(f"c{k}" for k in range(6))
    assert slots.state.shape == (72, 6)
    assert slots.state[:, 0].tolist() == [1, 0] * 36
    with contextlib.closing(sqlite3.connect(path)) as ledger, ledger:
        ledger.execute("drop view availability_log")
    result = invoke("fleet", "fit", path, "--out", tmp_path / "a")
    assert (result.exit_code, "no readable ledger" in result.stderr) == (2, True)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--zone", "Mars"], "--zone = 'Mars': must be a time zone such as Europe/Berlin or UTC"),
        (["--where", "colour=red"], "--where: there is no column 'colour'; its columns are device, start, end"),
        (["--column", "client=device"], "--column = 'client': must be one of device, "),
        (["--form", "heartbeats", "--column", "time=start"], "heartbeats need --gap: the seconds without a heartbeat"),
        (["--origin", "yesterday"], "--origin = 'yesterday': must be an ISO time such as 2024-05-01T12:00:00Z"),
    ],
)
def test_errors_name_the_options_of_the_command(here, options, line):
    result = invoke("fleet", "fit", "log.csv", "--out", "fleet", *options)
    assert result.exit_code == 2
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_recommendation_continues_from_what_it_has_kept(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = (
        "fleet", "recommend", fitted[0], "--problem", "quadratic", "--methods", "fedavg", "--rounds", 6,
        "--seeds", 2, "--trials", 2, "--out", "out",
    )  # fmt: skip
    evaluated = runs.evaluated

    def stop(*arguments):
        evaluated(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(inspect.getmodule(inspect.unwrap(recommending.recommend)), "evaluated", stop)
        result = invoke(*command)
    assert result.exit_code == 130
    line = f"stopped; resume with: fedtide {' '.join(str(word) for word in command)}"
    assert result.stderr.splitlines()[-1] == line
    again = invoke(*command)
    assert again.exit_code == 0, again.stderr
    assert "continuing: 2 trials and 1 run have been kept in out/unfinished" in again.stderr
    assert not Path("out/unfinished").exists()
    assert Path("out/recommendation.html").is_file()
