"""App folders, and the functions in them."""

import importlib.util
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs pip install 'fedtide[flower]'")


@pytest.fixture
def program(tmp_path):
    """The functions that `deploy init` writes for a framework; skips where that is not installed."""
    from fedtide.adapters.deploy.app import write_app

    def load(framework):
        pytest.importorskip(framework, reason=f"needs {framework}")
        write_app(tmp_path / framework, "fedavg", framework, ["0", "1", "2"])
        spec = importlib.util.spec_from_file_location(f"app_{framework}", tmp_path / framework / "federation.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def a_round():
    """What a client of three is told."""
    return lambda client: SimpleNamespace(node={"partition-id": client, "num-partitions": 3})
