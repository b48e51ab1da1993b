"""What all tests share: one compilation cache, and a small federation compiled once."""

import functools
import importlib
import os
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import settings

from fedtide.simulation import engine

# Set before any test compiles: equal programs are compiled once a session, or once a machine where CI keeps the folder.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / "fedtide-test-cache")
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"  # in processes that tests start, too

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

SHIPPED = engine.run_segment
# The older of XLA's code generators takes half the time for programs as good; their last bits differ.
QUICK = {"xla_cpu_use_fusion_emitters": False}


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """A process may hold only so many compiled programs (each has memory maps of its own): a module's end with it."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def haste():
    """Compiler options for what runs only a moment."""
    return QUICK | {"xla_backend_optimization_level": 0}


@pytest.fixture(autouse=True, scope="session")
def simulated_in_haste(haste):
    """Simulations compile in haste, except those of tests that ask for them `as_shipped`."""
    jit = functools.partial(jax.jit, SHIPPED.__wrapped__, static_argnames="shape", donate_argnames="carry")
    short, long = jit(compiler_options=haste), jit(compiler_options=QUICK)

    def run_segment(method, problem, population, seeds, carry, first, trace, shape, timing=None):
        few = carry.w.shape[0] * len(seeds) * shape.blocks * shape.rounds <= 300  # rounds in all
        return (short if few else long)(method, problem, population, seeds, carry, first, trace, shape, timing)

    run_segment._cache_size = lambda: short._cache_size() + long._cache_size()  # as a compiled function has it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "run_segment", run_segment)
        yield


@pytest.fixture
def as_shipped(monkeypatch):
    """The engine as users have it, for tests of what may not change a bit."""
    monkeypatch.setattr(engine, "run_segment", SHIPPED)


@pytest.fixture(scope="session")
def blobs():
    """Twelve clients of unequal size and mix: three Gaussian classes in the plane."""
    from fedtide.problems.classification import classification
    from fedtide.problems.models import softmax_regression

    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [2, 1], [-1, 2]])

    def draw(client: int, size: int):
        y = rng.choice(3, size, p=rng.dirichlet(np.ones(3)))
        return (centres[y] + rng.normal(size=(size, 2))).astype(np.float32), y

    train = [draw(k, 10 + 3 * k) for k in range(12)]
    test = [draw(k, 10) for k in range(12)]
    return classification(softmax_regression(2, 3), train, test)


@pytest.fixture(scope="session")
def chains():
    """Twelve two-state chains, half of them mostly there."""
    from fedtide.availability import Markov

    return Markov(np.repeat([0.8, 0.3], 6), np.tile([0.0, 0.6], 6))


@pytest.fixture
def float64():
    """Double precision within a test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True, scope="session")
def no_installed_data():
    """Data sets that other package managers have installed on this machine are not found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("fedtide.data.places"), "PACKAGES", ())
        yield
