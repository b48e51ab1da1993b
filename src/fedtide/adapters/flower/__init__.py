"""Methods on a real federation: a server app and a client app for Flower.

An app's program, in any framework:

    client = fedtide.adapters.flower.client(train=train, evaluate=evaluate, examples=examples)
    server = fedtide.adapters.flower.server(initial=initial)

The method and the settings are in the app's pyproject.toml under [tool.flwr.app.config]: see `settings`.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedtide.adapters.rounds import Round
from fedtide.adapters.training import Answer
from fedtide.errors import FedtideError

# Off by default. Flower reads these variables on import.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

try:
    import flwr as _  # noqa: F401
except ModuleNotFoundError as _missing:
    raise FedtideError("fedtide.adapters.flower needs Flower: pip install 'fedtide[flower]'") from _missing

if TYPE_CHECKING:
    from fedtide.adapters.flower.clients import client, client_of
    from fedtide.adapters.flower.servers import server, server_of

__all__ = ["Answer", "Round", "client", "client_of", "server", "server_of"]

_PLACES = {"client": "clients", "client_of": "clients", "server": "servers", "server_of": "servers"}


def __getattr__(name: str) -> Any:
    """Imports on first use: Flower starts a client process per message, which does not need the server's modules."""
    if name in _PLACES:
        globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        return globals()[name]
    raise AttributeError(f"module 'fedtide.adapters.flower' has no attribute '{name}'")
