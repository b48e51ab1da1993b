"""A federation of real processes on this machine, for trying out and for tests."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from fedtide.adapters.deploy.exposure import check_environment, check_loopback, check_nodes, check_private
from fedtide.errors import FedtideError

_HOST = "127.0.0.1"
_SELDOM = 20.0  # seconds between two questions to Flower
QUICK = str(Path(__file__).with_name("quick_node.py"))
SWITCHES = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}  # off unless the user turns them on
_PATIENCE = 60.0  # seconds for a process to be ready, or to end when asked


class Security(NamedTuple):
    """TLS, and a key for each node, all in one folder, which holds the public key of every client."""

    ca: Path
    certificate: Path
    key: Path
    node_keys: Sequence[Path]


class LocalFederation:
    """SuperLink, SuperExec and SuperNodes on loopback; a context manager that leaves no process behind.

    With keys a gateway stands before SuperLink: the only process that may listen elsewhere. It lets clients in, and
    nobody else.

    Args:
      folder: for Flower's home, its database, the logs and the clients' memory.
      nodes: the node configuration of each SuperNode; a number for clients "0", "1", ….
      security: TLS and keys; none: plain HTTP on loopback.
      host, port: where clients connect; by default on loopback, at a free port.
      quick: SuperNodes that look for messages every 0.4 s instead of every three, and whose client processes start at
        once (`quick_node`).
      environment: further environment variables of all processes.
    """

    def __init__(
        self,
        folder: Path | str,
        nodes: int | Sequence[Mapping[str, Any]],
        *,
        security: Security | None = None,
        host: str = _HOST,
        port: int | None = None,
        quick: bool = True,
        environment: Mapping[str, str] | None = None,
    ):
        self.folder = Path(folder).resolve()
        count = nodes if isinstance(nodes, int) else len(nodes)
        plain = [{"client-id": str(k), "partition-id": k, "num-partitions": count} for k in range(count)]
        self.nodes = plain if isinstance(nodes, int) else [dict(node) for node in nodes]
        for node in self.nodes:
            node.setdefault("state", str(self.folder / "clients"))
        self.security, self.quick = security, quick
        self.host, self.port = host, port or free_port()
        self.superlink_port = self.port if security is None else free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self.environment = {
            **SWITCHES,
            **os.environ,
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2" if quick else "1.0",
            "FEDTIDE_POLL_SECONDS": "0.4" if quick else "3.0",
            "FLWR_HOME": str(self.folder / "flower"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            **(environment or {}),
        }
        self._check()

    @property
    def address(self) -> str:
        """Where clients on this machine connect."""
        host = {"0.0.0.0": _HOST, "::": "::1"}.get(self.host, self.host)
        return _joined(host, self.port)

    @property
    def superlink(self) -> str:
        """Where the SuperLink is: its operator's address, always on loopback."""
        return self.address if self.security is None else f"{_HOST}:{self.superlink_port}"

    @property
    def servers(self) -> tuple[str, ...]:
        """The processes besides the SuperNodes."""
        return ("superlink", "superexec") if self.security is None else ("superlink", "superexec", "gateway")

    def __enter__(self) -> "LocalFederation":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._configure()
        known = (self.folder / "superlink.db").exists()
        try:
            self.start_superlink()
            if known:
                self.stop_runs()
            for key in self.security.node_keys if self.security else ():
                self.register(key)
            self.start_superexec()
            if self.security is not None:
                self.start_gateway()
            for k in range(len(self.nodes)):
                self.start_node(k)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def command(self, name: str) -> list[str]:
        """The command line of one of `servers`, or of "node-3"."""
        if name == "superlink":
            host = self.host if self.security is None else _HOST
            where = ["--host", host, "--port", str(self.superlink_port)]
            state = ["--database", str(self.folder / "superlink.db"), "--isolation", "process"]
            return ["flower-superlink", *self._served(), *where, *state, *self._secret()]
        if name == "superexec":
            return ["flower-superexec", *self._client(), "--runtime-api-address", self.superlink, *self._secret()]
        if name == "gateway":
            assert self.security is not None
            ca, certificate, key, node_keys = self.security
            files = ca, certificate, key, node_keys[0].parent
            return gateway_command(self.host, self.port, self.superlink, *files)
        k = int(name.removeprefix("node-"))
        program = [sys.executable, "-P", QUICK] if self.quick else ["flower-supernode"]
        where = ["--superlink", self.address, "--host", _HOST, "--port", str(free_port())]
        own = ["--auth-supernode-private-key", str(self.security.node_keys[k])] if self.security else []
        said = " ".join(f"{key}={json.dumps(value)}" for key, value in self.nodes[k].items())
        return [*program, *self._client(), *where, *own, "--node-config", said]

    def start_superlink(self) -> None:
        """Starts the SuperLink, with its database, and waits until it can be reached."""
        self._start("superlink")
        self._wait_for("superlink", self.superlink)

    def start_gateway(self) -> None:
        """Starts the gateway, through which clients reach the SuperLink, and waits until it can be reached."""
        self._start("gateway")
        self._wait_for("gateway", self.address)

    def stop_runs(self) -> None:
        """Ends the runs of an earlier part, which SuperExec would start a second time."""
        for run in self.flwr("list", "local", "--format", "json").get("runs", []):
            if not str(run.get("status", "finished")).startswith("finished"):
                self.flwr("stop", str(run.get("run-id", run.get("run_id"))), "local", "--format", "json")

    def register(self, key: Path) -> None:
        """Makes a client's key known to the SuperLink, which lets no other one in."""
        answer = self.flwr("supernode", "register", f"{key}.pub", "local", "--format", "json")
        if not answer.get("success") and "already in use" not in json.dumps(answer):
            raise FedtideError(f"flwr supernode register {key.name}.pub: {json.dumps(answer)[:400]}")

    def start_superexec(self) -> None:
        """Starts the SuperExec, which runs server apps."""
        self._start("superexec")

    def start_node(self, k: int) -> None:
        """Starts SuperNode k, anew where it has ended."""
        self._start(f"node-{k}")

    def stop_node(self, k: int) -> None:
        """Ends SuperNode k as one that says goodbye (SIGTERM)."""
        self._end(f"node-{k}", signal.SIGTERM)

    def kill(self, name: str) -> None:
        """Ends a process and its children as a power cut would: "node-3" or one of `servers`."""
        self._end(name, signal.SIGKILL)

    def alive(self, name: str) -> bool:
        process = self.processes.get(name)
        return process is not None and process.poll() is None

    def run(self, app: Path | str, config: Mapping[str, Any] | None = None) -> int:
        """Starts the app: the number of its run."""
        said = " ".join(f"{name}={json.dumps(value)}" for name, value in (config or {}).items())
        answer = self.flwr("run", str(app), "local", *(["--run-config", said] if said else []), "--format", "json")
        run = answer.get("run-id", answer.get("run_id"))
        if run is None:
            raise FedtideError(f"flwr run: {json.dumps(answer)[:400]}")
        return int(run)

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """A command of Flower's, whose answer is JSON."""
        done = self._flwr(*arguments)
        begin = done.stdout.find("{")
        try:
            return json.loads(done.stdout[begin:]) if begin >= 0 else {"error": (done.stderr or done.stdout).strip()}
        except json.JSONDecodeError:
            return {"error": (done.stdout + done.stderr).strip()}

    def said(self, *arguments: str) -> str:
        """What a command of Flower's prints."""
        done = self._flwr(*arguments)
        return done.stdout + done.stderr

    def _flwr(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = ["flwr", *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, cwd=self.folder, check=False
        )

    def status(self, run: int) -> str:
        """ "running", "finished:completed", "finished:failed" and so on."""
        answer = self.flwr("list", "local", "--run-id", str(run), "--format", "json")
        found = answer.get("runs") or [{}]
        return str(found[0].get("status", answer.get("error", "unknown")))

    def wait(self, run: int, seconds: float, until: Callable[[], bool] = lambda: False) -> str:
        """Waits until the run has finished, or `until` says so: its status. Asking Flower is dear: two CPU seconds."""
        end = time.monotonic() + seconds
        ask = time.monotonic() + _SELDOM
        while not until():
            if time.monotonic() > min(ask, end):
                status = self.status(run)
                if status.startswith("finished") or time.monotonic() > end:
                    return status
                ask = time.monotonic() + _SELDOM
            time.sleep(0.2)
        return "done"

    def log(self, name: str) -> str:
        """What a process has said so far."""
        path = self.folder / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        """Ends all processes, nodes first; those that do not listen are killed."""
        names = sorted(self.processes, key=lambda name: name in self.servers)
        for name in names:
            self._signal(name, signal.SIGTERM)
        end = time.monotonic() + 5.0
        for name in names:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.processes[name].wait(max(end - time.monotonic(), 0.05))
        for name in names:
            self._signal(name, signal.SIGKILL)  # also what is left of its children
            self.processes[name].wait()
            self._watched(f"-{self.processes[name].pid}")
        self.processes.clear()
        if self._guard is not None:
            self._guard.communicate()
            self._guard = None

    def _start(self, name: str) -> None:
        if self.alive(name):
            raise FedtideError(f"{name} is running")
        if name in self.processes:  # it ended by itself: its children may not have noticed
            self._end(name, signal.SIGKILL)
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / f"{name}.log").open("ab") as file:
            # A session of its own: its children can be ended with it.
            self.processes[name] = subprocess.Popen(
                self.command(name), env=self.environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self._watched(f"+{self.processes[name].pid}")

    def _end(self, name: str, how: signal.Signals) -> None:
        self._signal(name, how)
        try:
            self.processes[name].wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._signal(name, signal.SIGKILL)
            self.processes[name].wait()
        self._signal(name, signal.SIGKILL)
        self._watched(f"-{self.processes[name].pid}")

    def _watched(self, change: str) -> None:
        """Tells the guard, which ends what is left should this process be killed."""
        if self._guard is None:
            command = [sys.executable, "-IS", str(Path(__file__).with_name("guard.py"))]
            self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            os.write(self._guard.stdin.fileno(), f"{change}\n".encode())  # at once and whole: several threads do this

    def _signal(self, name: str, how: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.processes[name].pid, how)

    def _wait_for(self, name: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if not self.alive(name):
                break
            with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), timeout=1):
                return
            time.sleep(0.1)
        said = self.log(name).strip().splitlines()[-1:] or [""]
        raise FedtideError(f"{name} does not start: {said[0]}")

    def _check(self) -> None:
        """Refuses to leave a door open."""
        check_environment(self.environment)
        if self.security is None:
            check_loopback("host", self.host, "without keys, whoever reaches it runs programs here")
        else:
            check_private(self.security.key)
            check_nodes(self.security.node_keys)

    def _configure(self) -> None:
        home = self.folder / "flower"
        home.mkdir(exist_ok=True)
        secure = f'root-certificates = "{self.security.ca}"' if self.security else "insecure = true"
        text = f'[superlink]\ndefault = "local"\n\n[superlink.local]\naddress = "{self.superlink}"\n{secure}\n'
        (home / "config.toml").write_text(text)
        secret = self.folder / "superexec.secret"
        secret.unlink(missing_ok=True)
        secret.touch(mode=0o600)  # before anything is in it
        secret.write_bytes(secrets.token_bytes(32))

    def _served(self) -> list[str]:
        plain = ["--disable-runtime-dependency-installation"]
        if self.security is None:
            return ["--insecure", *plain]
        ca, certificate, key = (str(path) for path in self.security[:3])
        files = ["--ssl-ca-certfile", ca, "--ssl-certfile", certificate, "--ssl-keyfile", key]
        return [*files, "--enable-supernode-auth", *plain]

    def _secret(self) -> list[str]:
        """Between SuperLink and SuperExec: other accounts of this machine take no tasks."""
        return ["--superexec-auth-secret-file", str(self.folder / "superexec.secret")]

    def _client(self) -> list[str]:
        return ["--root-certificates", str(self.security.ca)] if self.security else ["--insecure"]


def gateway_command(
    host: str, port: int, superlink: str, ca: Path, certificate: Path, key: Path, clients: Path
) -> list[str]:
    """The command of a gateway (`gateway`), whose arguments have been checked."""
    where = ["--host", host, "--port", str(port), "--superlink", superlink]
    files = ["--ca", str(ca), "--certificate", str(certificate), "--key", str(key), "--clients", str(clients)]
    return [sys.executable, "-P", str(Path(__file__).with_name("gateway.py")), *where, *files]


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as found:
        found.bind((_HOST, 0))
        return found.getsockname()[1]
