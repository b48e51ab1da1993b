"""Any method on a real federation: a server app and client apps for Flower.

A client's own file, in any framework, and the server's beside it:

    client = fedtide.adapters.flower.client(train=train, evaluate=evaluate, examples=examples)
    server = fedtide.adapters.flower.server(initial=initial)

Method and settings stand in the app's pyproject.toml under [tool.flwr.app.config]: see `settings`.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Off unless the user has turned them on; Flower reads these when it is imported.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

try:
    import flwr as _  # noqa: F401
except ModuleNotFoundError as _missing:
    from fedtide.errors import FedtideError

    raise FedtideError("fedtide.adapters.flower needs Flower: pip install 'fedtide[flower]'") from _missing

if TYPE_CHECKING:
    from fedtide.adapters.flower.clients import client, client_of
    from fedtide.adapters.flower.servers import server, server_of
    from fedtide.adapters.rounds import Round
    from fedtide.adapters.training import Answer

__all__ = ["Answer", "Round", "client", "client_of", "server", "server_of"]

_PLACES = {
    "Answer": "fedtide.adapters.training",
    "Round": "fedtide.adapters.rounds",
    "client": "fedtide.adapters.flower.clients",
    "client_of": "fedtide.adapters.flower.clients",
    "server": "fedtide.adapters.flower.servers",
    "server_of": "fedtide.adapters.flower.servers",
}


def __getattr__(name: str) -> Any:
    """Imported when first used: a client is a new process for every message, and needs nothing of the server's."""
    if name in _PLACES:
        found = getattr(import_module(_PLACES[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'fedtide.adapters.flower' has no attribute '{name}'")
