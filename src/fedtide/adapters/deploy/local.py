"""A federation of real processes on this machine, for `fedtide deploy up` and tests."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedtide.adapters.deploy.exposure import check_environment, check_loopback, check_nodes, check_private
from fedtide.adapters.deploy.keys import Keys, public
from fedtide.errors import FedtideError

_HOST = "127.0.0.1"
QUICK = str(Path(__file__).with_name("quick_node.py"))
SWITCHES = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}  # off by default
_LOSSES, _LOSSES_WITHIN = 4, 3600.0  # after so many losses of the server app within so many seconds, the run fails
# What Flower says of a server app that it has lost: SuperLink was away for long, or was killed while it got a message.
_LOST = ("No heartbeat received from the task", "The push session may have expired or been replaced.")
_PATIENCE = 60.0  # seconds for a process to become ready, or to end after a signal


class RunStatus(NamedTuple):
    """The status of a run in Flower: `text` is "running", "finished:completed", "finished:failed" and so on."""

    run: int
    text: str
    details: str = ""

    @property
    def finished(self) -> bool:
        return self.text.startswith("finished")

    @property
    def lost(self) -> bool:
        """Whether the server app ended because SuperLink was gone; Flower reports it only in these sentences."""
        return self.text == "finished:failed" and self.details.endswith(_LOST)


class LocalFederation:
    """SuperLink, SuperExec and SuperNodes on loopback; a context manager that leaves no process behind. SuperNodes look
    for messages every 0.4 s instead of every three, and their client processes start at once (`quick_node`).

    With keys, there is a gateway in front of SuperLink: the only process that may listen beyond loopback. It admits
    clients only.

    Args:
      folder: for Flower's home, its database, the logs and the clients' state.
      clients: their ids, or the number of clients "0", "1", ….
      keys: for TLS and for each node; without keys, plain HTTP on loopback.
      host, port: address that clients connect to; by default loopback and a free port.
      environment: additional environment variables of all processes.
    """

    def __init__(
        self,
        folder: Path | str,
        clients: int | Sequence[str],
        *,
        keys: Keys | None = None,
        host: str = _HOST,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        self.folder = Path(folder).resolve()
        names = list(map(str, range(clients))) if isinstance(clients, int) else clients
        about = {"num-partitions": len(names), "state": str(self.folder / "clients")}
        self.nodes = [{"client-id": name, "partition-id": k, **about} for k, name in enumerate(names)]
        self.keys = keys
        self.host, self.port = host, port or free_port()
        self.superlink_port = self.port if keys is None else free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self._started: dict[int, tuple[Path | str, Mapping[str, Any] | None]] = {}  # by run: app, configuration
        self._losses: deque[float] = deque(maxlen=_LOSSES)  # times when a server app was lost
        self.environment = {
            **SWITCHES,
            **os.environ,
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "FEDTIDE_POLL_SECONDS": "0.4",
            "FLWR_HOME": str(self.folder / "flower"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            **(environment or {}),
        }
        check_environment(self.environment)
        if keys is None:
            check_loopback("host", self.host, "without keys, anyone who can reach it can run programs here")
        else:
            check_private(keys.key)
            check_nodes(list(keys.clients.values()))

    @property
    def address(self) -> str:
        """The address that clients on this machine connect to."""
        host = {"0.0.0.0": _HOST, "::": "::1"}.get(self.host, self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def superlink(self) -> str:
        """The address of SuperLink for its operator, always on loopback."""
        return self.address if self.keys is None else f"{_HOST}:{self.superlink_port}"

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of the server's processes."""
        return ("superlink", "superexec") if self.keys is None else ("superlink", "superexec", "gateway")

    def __enter__(self) -> "LocalFederation":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._configure()
        known = (self.folder / "superlink.db").exists()
        try:
            self.start("superlink")
            if known:
                self.stop_runs()
            for key in self.keys.clients.values() if self.keys else ():
                self.register(key)
            for name in (*self.servers[1:], *(f"node-{k}" for k in range(len(self.nodes)))):
                self.start(name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def command(self, name: str) -> list[str]:
        """The command line of one of `servers`, or of "node-3"."""
        # A secret of SuperLink and SuperExec, without which other accounts of this machine cannot take tasks.
        secret = ["--superexec-auth-secret-file", str(self.folder / "superexec.secret")]
        if name == "superlink":
            where = ["--host", self.host if self.keys is None else _HOST, "--port", str(self.superlink_port)]
            state = ["--database", str(self.folder / "superlink.db"), "--isolation", "process"]
            tls = ["--insecure"]
            if self.keys is not None:
                tls = ["--ssl-ca-certfile", str(self.keys.ca), "--ssl-certfile", str(self.keys.certificate)]
                tls += ["--ssl-keyfile", str(self.keys.key), "--enable-supernode-auth"]
            plain = "--disable-runtime-dependency-installation"
            return ["flower-superlink", *tls, *where, *state, *secret, plain]
        client = ["--root-certificates", str(self.keys.ca)] if self.keys else ["--insecure"]
        if name == "superexec":
            return ["flower-superexec", *client, "--runtime-api-address", self.superlink, *secret]
        if name == "gateway":
            assert self.keys is not None
            return gateway_command(self.host, self.port, self.superlink, self.keys)
        k = int(name.removeprefix("node-"))
        where = ["--superlink", self.address, "--host", _HOST, "--port", str(free_port())]
        own = ["--auth-supernode-private-key", str([*self.keys.clients.values()][k])] if self.keys else []
        return [sys.executable, "-P", QUICK, *client, *where, *own, "--node-config", _settings(self.nodes[k])]

    def stop_runs(self) -> None:
        """Stops earlier runs, which SuperExec would otherwise start again."""
        for run in self.flwr("list", "local").get("runs", []):
            if not run["status"].startswith("finished"):
                self.flwr("stop", run["run-id"], "local")

    def register(self, key: Path) -> None:
        """Registers a client's key with SuperLink, which rejects all others."""
        answer = self.flwr("supernode", "register", str(public(key)), "local")
        if not answer.get("success") and "already in use" not in json.dumps(answer):
            raise FedtideError(f"flwr supernode register {public(key).name}: {json.dumps(answer)[:400]}")

    def start(self, name: str) -> None:
        """Starts one of `servers`, or "node-3"; waits until SuperLink or the gateway accepts connections."""
        if self.alive(name):
            raise FedtideError(f"{name} is running")
        if name in self.processes:  # it ended by itself; its children may still run
            self.kill(name)
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / f"{name}.log").open("ab") as file:
            # In a new session, so that its children can be ended with it.
            self.processes[name] = subprocess.Popen(
                self.command(name), env=self.environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self._notify_guard(f"+{self.processes[name].pid}")
        if name in ("superlink", "gateway"):
            self._wait_for(name, self.superlink if name == "superlink" else self.address)

    def stop(self, name: str) -> None:
        """Stops a process with SIGTERM; a SuperNode then unregisters."""
        self._signal(name, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.processes[name].wait(_PATIENCE)
        self.kill(name)  # including its remaining children

    def kill(self, name: str) -> None:
        """Kills a process and its children (SIGKILL)."""
        self._signal(name, signal.SIGKILL)
        self.processes[name].wait()
        self._notify_guard(f"-{self.processes[name].pid}")

    def alive(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and process.poll() is None

    def run(self, app: Path | str, config: Mapping[str, Any] | None = None) -> int:
        """Starts the app; returns the number of its run."""
        changed = ["--run-config", _settings(config)] if config else []
        answer = self.flwr("run", str(app), "local", *changed)
        if answer.get("run-id") is None:
            raise FedtideError(f"flwr run: {json.dumps(answer)[:400]}")
        run = int(answer["run-id"])
        self._started[run] = app, config
        return run

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """The JSON output of a command of Flower; {"error": …} if there is none."""
        done = self._flwr(*arguments, "--format", "json")
        begin = max(done.stdout.find("{"), 0)
        try:
            return json.loads(done.stdout[begin:])
        except json.JSONDecodeError:
            return {"error": (done.stdout + done.stderr).strip()}

    def app_log(self, run: int) -> str:
        """The log of a run's server app."""
        done = self._flwr("log", str(run), "local", "--show")
        return done.stdout + done.stderr

    def _flwr(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        how: Any = {"env": self.environment, "cwd": self.folder, "capture_output": True, "text": True}
        return subprocess.run(["flwr", *arguments], check=False, **how)

    def status(self, run: int) -> RunStatus:
        """The status of a run. Each call takes two seconds of CPU time."""
        answer = self.flwr("list", "local", "--run-id", str(run))
        entry = (answer.get("runs") or [{}])[0]
        return RunStatus(run, str(entry.get("status", answer.get("error", "unknown"))), entry.get("status-details", ""))

    def resumed(self, run: int) -> RunStatus:
        """The status of a run. If Flower has lost its server app, restarts it as a new run of Flower.

        If SuperLink is unreachable for a minute, because it was killed or because the machine is busy, it receives no
        heartbeat of the server app. Flower then marks the run as failed and rejects all requests of the server app,
        including its log, so the run would never continue. If SuperLink is killed while the server app sends a message,
        the server app ends with an error. The new server app resumes from the last checkpoint.
        """
        status = self.status(run)
        if not status.lost or run not in self._started:
            return status
        self._losses.append(time.monotonic())
        if len(self._losses) == _LOSSES and self._losses[-1] - self._losses[0] < _LOSSES_WITHIN:
            return status  # restarting does not help
        return RunStatus(self.run(*self._started.pop(run)), "pending")

    def log(self, name: str) -> str:
        """The log of a process so far."""
        path = self.folder / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        """Ends all processes, nodes first; kills those that do not end."""
        names = sorted(self.processes, key=lambda name: name in self.servers)
        for name in names:
            self._signal(name, signal.SIGTERM)
        end = time.monotonic() + 5.0
        for name in names:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.processes[name].wait(max(end - time.monotonic(), 0.05))
        for name in names:
            self.kill(name)
        self.processes.clear()
        if self._guard is not None:
            self._guard.communicate()
            self._guard = None

    def _notify_guard(self, change: str) -> None:
        """Notifies the guard, which ends the remaining processes if this process is killed."""
        if self._guard is None:
            command = [sys.executable, "-IS", str(Path(__file__).with_name("guard.py"))]
            self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            os.write(self._guard.stdin.fileno(), f"{change}\n".encode())  # one atomic write: several threads do this

    def _signal(self, name: str, how: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.processes[name].pid, how)

    def _wait_for(self, name: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        end = time.monotonic() + _PATIENCE
        while self.alive(name) and time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=1):
                return
            time.sleep(0.1)
        last = self.log(name).strip().splitlines()[-1:] or [""]
        raise FedtideError(f"{name} did not start: {last[0]}")

    def _configure(self) -> None:
        home = self.folder / "flower"
        home.mkdir(exist_ok=True)
        secure = f'root-certificates = "{self.keys.ca}"' if self.keys else "insecure = true"
        text = f'[superlink]\ndefault = "local"\n\n[superlink.local]\naddress = "{self.superlink}"\n{secure}\n'
        (home / "config.toml").write_text(text)
        secret = self.folder / "superexec.secret"
        secret.unlink(missing_ok=True)
        secret.touch(mode=0o600)  # before it has any content
        secret.write_bytes(secrets.token_bytes(32))


def _settings(values: Mapping[str, Any]) -> str:
    """Settings in the format of Flower's command line."""
    return " ".join(f"{name}={json.dumps(value)}" for name, value in values.items())


def gateway_command(host: str, port: int, superlink: str, keys: Keys) -> list[str]:
    """The command line of a gateway, whose arguments have been checked."""
    where = ["--host", host, "--port", str(port), "--superlink", superlink]
    files = {"--ca": keys.ca, "--certificate": keys.certificate, "--key": keys.key, "--clients": keys.registered}
    program = [sys.executable, "-P", str(Path(__file__).with_name("gateway.py"))]
    return [*program, *where, *(str(word) for option in files.items() for word in option)]


def free_port() -> int:
    """An unused port of this machine."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]
