"""Client processes as copies of one that has imported everything: what makes that safe, and what if it is gone."""

import socket
import subprocess
import sys

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")

from fedtide.adapters.deploy import quick_node


def test_what_is_copied_has_no_threads_and_no_backend():
    """A copy has the memory of all threads, and runs but one of them; JAX's backend has many."""
    program = """
import os, threading
import flwr.supernode.cli.flwr_clientapp, flwr.supercore.cli, flwr.supernode.cli.flower_supernode
import httpcore, safetensors.numpy, fedtide.adapters.flower.clients
from jax._src.xla_bridge import backends_are_initialized
print(threading.active_count(), backends_are_initialized())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_other_commands_are_started_and_so_are_those_that_nobody_hears(tmp_path):
    asks, hears = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    start = quick_node._popen(asks, sys.executable)
    touch = [sys.executable, "-c", f"open({str(tmp_path / 'made')!r}, 'w')"]
    start(touch)
    assert b"made" in hears.recv(1000)
    assert not (tmp_path / "made").exists()  # asked for, and nobody has done it
    start(["touch", str(tmp_path / "other")]).wait()
    assert (tmp_path / "other").exists()
    hears.close()
    start(touch).wait()
    assert (tmp_path / "made").exists()
    asks.close()


@pytest.mark.parametrize(("ends", "status"), [("sys.exit(3)", 3), ("sys.exit()", 0), ("1 / 0", 1), ("pass", 0)])
def test_a_copy_ends_as_its_program_does(ends, status):
    program = f"""
import runpy, sys
run = runpy.run_path({quick_node.__file__!r})["_run"]
run(lambda: exec({ends!r}), b'["program"]')
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert ("ZeroDivisionError" in done.stderr) == (ends == "1 / 0")
