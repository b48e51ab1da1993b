"""What is collected: examples of all modules, except of those whose extra is not installed; and how tests are named."""

from importlib.util import find_spec

_NEEDS = {"flwr": ("flower", "deploy"), "sqlalchemy": ("ledger", "flower", "deploy"), "ray": ("ray*.py",)}

collect_ignore_glob = [
    f"src/fedtide/adapters/{place}" + ("" if place.endswith(".py") else "/*")
    for package, places in _NEEDS.items()
    if find_spec(package) is None
    for place in places
]


def pytest_make_parametrize_id(config, val, argname):
    """Refuses to name a test by bytes: those of gzip hold the time, so that processes would collect different tests."""
    if isinstance(val, bytes):
        raise ValueError(f"{argname}: bytes do not name a test; give ids= or pytest.param(…, id=…)")
