"""`fedtide deploy`: what it writes and says, without processes."""

import inspect
import sys

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from fedtide.adapters.ledger import ClientInRound, Enrolled, Ledger
from fedtide.cli import deploy


@pytest.fixture
def a_run(fedtide, tmp_path):
    """An app with a run that has had two of its rounds."""
    assert fedtide("deploy", "init", "app", "--clients", "2").exit_code == 0
    with Ledger(tmp_path / "app" / "state" / "ledger.db") as ledger:
        ledger.begin_run("run", "ca_fed", {}, [Enrolled("0", 0, 30, 0.5), Enrolled("1", 1, 30, 0.5)])
        for t in range(2):
            rows = [ClientInRound("0", True, None, 1.5, 0.25, True, 0.1, 2.0), ClientInRound("1", False, "no-reply")]
            ledger.write_round("run", t, 10.0 * t, 10.0 * t + 4, 30.0, rows, {"accuracy": 0.625})
    return tmp_path / "app"


def test_init_says_what_comes_next(fedtide, tmp_path):
    result = fedtide("deploy", "init", "my app", "--method", "fedavg", "--framework", "torch")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "Next: fedtide deploy up 'my app'"
    assert "torch==2.13.0" in (tmp_path / "my app" / "pyproject.toml").read_text()
    assert "import torch" in (tmp_path / "my app" / "federation.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("init", ".."), "exists and is not empty"),
        (("init", "new", "--method", "fedpbc"), "FedPBC: its clients also train in rounds in which they"),
        (("init", "new", "--clients", "a,a"), "must be different names"),
        (("up", "nowhere"), "fedtide deploy init writes one"),
        (("up", "app", "--availability", "never"), "must be always, markov, phones, fleet:DIR or trace:FILE"),
        (("up", "app", "--clients", "3"), "run 'run' began with the clients 0, 1; choose another --run"),
        (("up", "app", "--seconds-per-round", "0"), "--seconds-per-round"),
        (("up", "app", "--host", "0.0.0.0"), "other machines can only connect with keys"),
        (("up", "app", "--host", "fl.lan", "--tls"), "other machines can only connect with keys"),
        (("status", "nowhere"), "there is no such file"),
        (("status", ".."), "neither an app folder nor a ledger"),
        (("status", "app", "--run", "other"), "there is no run 'other' (its runs: 'run')"),
        (("node", "--host", "0.0.0.0"), "--host = '0.0.0.0': must be a loopback address"),
        (("node", "--insecure", "--superlink", "fl.lan:8443"), "--superlink = 'fl.lan': must be a loopback address"),
        (("gateway", "app/keys"), "app/keys/ca.crt: there is no such file; fedtide deploy keys creates it"),
        (("gateway", "app/keys", "--superlink", "0.0.0.0:8000"), "--superlink = '0.0.0.0': must be a loopback address"),
        (("gateway", "app/keys", "--superlink", "8000"), "--superlink = '8000': must be HOST:PORT"),
        (("keys", "app", "--host", "h"), "give either --clients or --names"),
        (("keys", "app", "--host", "a b", "--clients", "1"), "host = 'a b': must be a host name or an address"),
    ],
)
def test_bad_input_is_one_line(fedtide, a_run, arguments, said):
    (a_run.parent / "here").mkdir()
    result = fedtide("deploy", *(str(a_run.parent) if a == ".." else a for a in arguments))
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_status(fedtide, a_run):
    for place in (a_run, a_run / "state" / "ledger.db"):
        result = fedtide("deploy", "status", place)
        assert result.exit_code == 0, result.stderr
        assert "run run · ca_fed · round 2 · 1 of 2 available, 1 used · accuracy 0.625" in result.stdout
        assert "no-reply ×2" in result.stdout


def test_keys_are_made_once_and_used_beyond_loopback(fedtide, a_run):
    result = fedtide("deploy", "keys", "app", "--clients", "2", "--host", "fl.example.org", "--port", "9000")
    assert result.exit_code == 0, result.stderr
    assert "flwr supernode register app/keys/clients/0.pub mine" in result.stdout
    assert "--superlink fl.example.org:9000" in result.stdout
    again = fedtide("deploy", "keys", "app", "--clients", "2", "--host", "fl.example.org")
    assert again.exit_code == 2
    assert "keys are never overwritten" in again.stderr

    from fedtide.adapters.deploy.app import read_app
    from fedtide.adapters.deploy.up import plan

    planned = plan(read_app("app"), host="0.0.0.0")
    assert planned.clients == []  # they are elsewhere
    assert list(planned.keys.clients) == ["0", "1"]
    assert planned.changes["keys"].endswith("keys/clients")  # names are bound to them


def test_without_keys_of_clients_nobody_is_let_in(fedtide, a_run):
    assert fedtide("deploy", "keys", "app", "--clients", "1", "--host", "fl.example.org").exit_code == 0
    (a_run / "keys" / "clients" / "0.pub").unlink()
    result = fedtide("deploy", "up", "app", "--host", "0.0.0.0")
    assert result.exit_code == 2
    assert "other machines can only connect with keys of clients" in result.stderr
    result = fedtide("deploy", "gateway", "app/keys")
    assert result.exit_code == 2
    assert "app/keys/clients: there is no public key of a client; fedtide deploy keys creates them" in result.stderr


def test_what_would_open_a_port_is_refused_before_anything_starts(fedtide, a_run, monkeypatch):
    assert fedtide("deploy", "keys", "app", "--clients", "2", "--host", "fl.example.org").exit_code == 0
    key = a_run / "keys" / "superlink.key"
    key.chmod(0o644)
    result = fedtide("deploy", "up", "app", "--tls")
    assert result.exit_code == 2
    assert "superlink.key: a private key that others can read" in result.stderr
    monkeypatch.setenv("FLWR_INTERNAL_GRPC_CONTROL_API", "1")
    result = fedtide("deploy", "up", "app")
    assert result.exit_code == 2
    assert "FLWR_INTERNAL_GRPC_CONTROL_API = '1': must be unset" in result.stderr
    assert not (a_run / "state" / "logs").exists()


def test_a_deployment_resumes_where_it_stopped(a_run):
    from fedtide.adapters.deploy.app import read_app
    from fedtide.adapters.deploy.up import plan

    planned = plan(read_app(a_run), rounds=9)
    assert planned.clients == ["0", "1"]
    assert planned.done == 2
    assert planned.keys is None
    assert planned.changes["state"] == str(a_run / "state")
    assert planned.changes["round-seconds"] == 20.0
    assert plan(read_app(a_run), availability="always").changes["round-seconds"] == 0.0
    assert plan(read_app(a_run), ["x"], run="other").done == 0


def test_only_a_finished_run_has_had_its_rounds(fedtide, a_run):
    """One that was stopped after its last round has no model yet."""
    from fedtide.adapters.deploy.app import read_app
    from fedtide.adapters.deploy.up import plan

    assert plan(read_app(a_run), rounds=2).done == 2
    with Ledger(a_run / "state" / "ledger.db") as ledger:
        ledger.finish_run("run")
    result = fedtide("deploy", "up", "app", "--rounds", "2")
    assert result.exit_code == 2
    assert "run 'run' has finished its 2 rounds; choose more --rounds" in result.stderr
    assert plan(read_app(a_run), rounds=3).done == 2


@pytest.mark.parametrize("url", ["postgresql://me:hunter2@db/x", "postgresql://me@db/x?password=hunter2"])
def test_a_password_in_the_configuration_is_refused(fedtide, a_run, url):
    path = a_run / "pyproject.toml"
    path.write_text(path.read_text() + f'\nledger = "{url}"\n')
    result = fedtide("deploy", "up", "app")
    assert result.exit_code == 2
    assert "PGPASSFILE" in result.stderr
    assert "hunter2" not in result.output + result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", [deploy.deploy, deploy.init, deploy.up, deploy.status, deploy.node, deploy.gateway, deploy.keys]
)
def test_help_fits_narrow_terminals(command):
    lines = inspect.getdoc(command).replace("\\\\", "").splitlines()
    assert max(map(len, lines)) <= 78


def test_help_needs_no_extra(fedtide, monkeypatch):
    for name in ("flwr", "sqlalchemy", "cryptography"):
        monkeypatch.setitem(sys.modules, name, None)
    for command in ((), ("init",), ("up",), ("status",), ("gateway",), ("keys",)):
        assert fedtide("deploy", *command, "--help").exit_code == 0


def test_a_missing_extra_is_named(fedtide, monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    result = fedtide("deploy", "init", "app")
    assert result.exit_code == 2
    assert result.stderr == "error: fedtide deploy needs Flower: pip install 'fedtide[flower]'\n"
