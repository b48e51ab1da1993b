"""What tests of the pages share."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def reproduce():
    """The script docs/reproduce.py as a module."""
    return _script("reproduce")


@pytest.fixture(scope="session")
def generator():
    """The script docs/generate.py as a module."""
    return _script("generate")


def _script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
