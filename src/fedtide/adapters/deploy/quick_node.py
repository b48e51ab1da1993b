"""Flower's SuperNode with lower latency, as a program: `python -P quick_node.py`, with SuperNode's arguments.

Flower starts a Python process for every message, which needs seconds for imports. Here, these processes are forked from
one that has imported everything that a client needs and does nothing else: it has no threads, no connections and no JAX
backend. FEDTIDE_POLL_SECONDS limits the pause between two polls for messages, which is three seconds in Flower. If
Flower's modules differ from those of 1.41, or on other systems than Linux, SuperNode runs unchanged. The process of the
SuperNode itself does not import Fedtide.
"""

# Flower 1.41 has no supported way to do this. The three seconds are a constant in `start_client_internal`; SuperExec's
# executors are "subprocess" (a new process per task) and "kubernetes"; its warm pools are for Kubernetes and AgentApps.
# With `--isolation process` SuperExec is started separately, but it also starts a new process for every message.

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

_MOST = 2**16  # bytes of a command


def main() -> None:
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec.executor import subprocess_executor as executor
    from flwr.supernode import start_client_internal as node
    from flwr.supernode.cli import flower_supernode, flwr_clientapp

    def become_superexec(requests: socket.socket) -> None:
        if command := requests.recv(_MOST):  # empty if the SuperNode ended before starting it
            _replace_functions(executor, subprocess, Popen=_popen(_fork(serve_clients), "flwr-clientapp"))
            _run(flower_superexec, command)

    def serve_clients(requests: socket.socket) -> None:
        with contextlib.suppress(ImportError):  # the client's process will report what is missing
            import httpcore  # noqa: F401  (which httpx would import at its first request)
            import safetensors.numpy  # noqa: F401

            import fedtide.adapters.flower.clients  # noqa: F401
        while command := requests.recv(_MOST):  # empty once SuperExec has ended
            if os.fork() == 0:
                requests.close()
                _run(flwr_clientapp, command)

    longest = float(os.environ.get("FEDTIDE_POLL_SECONDS", "3"))
    _replace_functions(node, time, sleep=lambda seconds: time.sleep(min(seconds, longest)))
    if sys.platform == "linux":
        _replace_functions(node, subprocess, Popen=_popen(_fork(become_superexec), "flower-superexec"))
    flower_supernode()


def _fork(work: Callable[[socket.socket], None]) -> socket.socket:
    """Forks a process that runs `work`; returns the socket for requests to it."""
    sender, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        sender.close()
        for kind in (signal.SIGINT, signal.SIGTERM):
            signal.signal(kind, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forked processes are not waited for
        work(requests)
        sys.exit()
    requests.close()
    return sender


def _popen(sender: socket.socket, program: str) -> Callable[..., Any]:
    """Replaces Popen: sends commands of this program to the forked process, and starts others (or if it has ended)."""

    def started(command: list[str], **options: Any) -> Any:
        if command[:1] == [program] and not options:
            with contextlib.suppress(OSError):
                return sender.send(json.dumps(command).encode())
        return subprocess.Popen(command, **options)

    return started


def _run(program: Callable[[], Any], command: bytes) -> NoReturn:
    """Continues as the given program, and exits with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv = json.loads(command)
    sys.exit(program())


def _replace_functions(place: ModuleType, module: ModuleType, **values: Any) -> None:
    """Replaces functions of a module for one module that uses it."""
    if isinstance(getattr(place, module.__name__, None), ModuleType):
        changed = ModuleType(module.__name__)
        changed.__dict__.update(vars(module), **values)
        setattr(place, module.__name__, changed)


if __name__ == "__main__":
    main()
