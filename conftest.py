"""Documentation examples are collected from all modules, except from those whose extra is not installed."""

from importlib.util import find_spec

_NEEDS = {"flwr": ("flower", "deploy"), "sqlalchemy": ("ledger", "flower", "deploy"), "ray": ("ray*.py",)}

collect_ignore_glob = [
    f"src/fedtide/adapters/{place}" + ("" if place.endswith(".py") else "/*")
    for package, places in _NEEDS.items()
    if find_spec(package) is None
    for place in places
]
