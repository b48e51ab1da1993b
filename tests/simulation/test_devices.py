"""Several devices share the seeds and change no bit. JAX fixes its devices at its start, hence new processes."""

import functools
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
import numpy as np
import fedtide
problem = fedtide.problems.random_quadratic(clients=6, dimension=3, noise=0.5, seed=0)
process = fedtide.availability.Markov(np.full(6, 0.5), np.full(6, 0.3))
found = fedtide.simulate(problem, process, fedtide.methods.fedavg(rate=0.05), rounds=8, seeds=4, evaluate_every=4)
print(len(jax.devices()), found.rounds["objective"].to_list(), found.models["FedAvg"].tolist())
"""


@functools.cache
def run(devices: int) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(devices)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("devices", [2, 3])  # four seeds over two devices; three do not divide them, so two share
def test_devices_share_the_seeds_and_change_no_bit(devices):
    assert run(devices) == run(1).replace("1 [", f"{devices} [", 1)
