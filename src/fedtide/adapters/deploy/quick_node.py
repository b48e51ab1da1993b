"""Flower's SuperNode with less waiting: a program of its own, `python -P quick_node.py`, with SuperNode's arguments.

Flower starts a Python process for every message, which spends seconds on imports. Here they are copies (`os.fork`) of
one process that has imported all that a client needs, and that does nothing else: it has no threads, no connections
and no JAX backend. FEDTIDE_POLL_SECONDS shortens the wait between two looks for messages, of Flower's three seconds.
Where Flower has changed, and elsewhere than on Linux, nothing is changed. The SuperNode imports nothing of Fedtide.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

_MOST = 2**16  # bytes of a command


def main() -> None:
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.superexec.executor import subprocess_executor as executor
    from flwr.supernode import start_client_internal as node
    from flwr.supernode.cli import flower_supernode, flwr_clientapp

    longest = float(os.environ.get("FEDTIDE_POLL_SECONDS", "3"))
    _change(node, time, sleep=lambda seconds: time.sleep(min(seconds, longest)))
    known = [isinstance(getattr(place, "subprocess", None), ModuleType) for place in (node, executor)]
    if all(known) and sys.platform == "linux":
        asks, hears = _copied(lambda hears: _copier(hears, executor, flower_superexec, flwr_clientapp))
        _change(node, subprocess, Popen=_asking(asks, "flower-superexec"))
        hears.close()
    flower_supernode()


def _copier(hears: socket.socket, executor: ModuleType, superexec: Any, clientapp: Any) -> None:
    """Becomes the SuperExec's parent, imports what clients need, and makes a copy for every message."""
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, signal.SIG_DFL)
    command = hears.recv(_MOST)
    hears.close()
    if not command:
        return  # the SuperNode has not come to its start
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the copies
    asks, hears = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        hears.close()
        _change(executor, subprocess, Popen=_asking(asks, "flwr-clientapp"))
        _run(superexec, command)
    asks.close()
    with contextlib.suppress(ImportError):  # the client's process will say what is missing
        import httpcore  # noqa: F401  (which httpx would import at its first request)
        import safetensors.numpy  # noqa: F401

        import fedtide.adapters.flower.clients  # noqa: F401
    while command := hears.recv(_MOST):  # nothing once SuperExec has ended
        if os.fork() == 0:
            hears.close()
            _run(clientapp, command)


def _copied(work: Callable[[socket.socket], None]) -> tuple[socket.socket, socket.socket]:
    """A copy of this process that does some work: (where it is asked, its end)."""
    asks, hears = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        asks.close()
        with contextlib.suppress(KeyboardInterrupt):
            work(hears)
        os._exit(0)
    return asks, hears


def _asking(asks: socket.socket, program: str) -> Callable[..., Any]:
    """In place of Popen: a command of this program is asked for; others, and where nobody hears, are started."""

    def started(command: list[str], **options: Any) -> Any:
        if command[:1] == [program] and not options:
            with contextlib.suppress(OSError):
                return asks.send(json.dumps(command).encode())
        return subprocess.Popen(command, **options)

    return started


def _run(program: Callable[[], Any], command: bytes) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv, status = json.loads(command), 1
    try:
        program()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _change(place: ModuleType, module: ModuleType, **values: Any) -> None:
    """Other functions of a module's, for one place that uses it."""
    if isinstance(getattr(place, module.__name__, None), ModuleType):
        changed = ModuleType(module.__name__)
        changed.__dict__.update(vars(module), **values)
        setattr(place, module.__name__, changed)


if __name__ == "__main__":
    main()
