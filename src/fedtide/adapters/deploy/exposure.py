"""Checks that only the gateway listens beyond loopback; insecure setups are refused before anything is started."""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedtide.adapters.deploy.keys import Keys, is_loopback, public
from fedtide.errors import FedtideError, require

# Variables that make SuperLink listen on additional ports, on all addresses.
LISTENERS = ("FLWR_INTERNAL_GRPC_CONTROL_API", "FLWR_INTERNAL_GRPC_FLEET_API")
_NODE = ("--host", "--superlink", "--health-server-address", "--auth-supernode-private-key")


def check_environment(environment: Mapping[str, str]) -> None:
    """Refuses variables that open additional ports."""
    for name in LISTENERS:
        if environment.get(name, "0") not in ("", "0"):
            raise FedtideError(f"{name} = {environment[name]!r}: must be unset: it opens another port of SuperLink")


def check_loopback(option: str, host: str, why: str) -> None:
    """Refuses a host that others can reach."""
    require(is_loopback(host), option, host, f"a loopback address such as 127.0.0.1: {why}")


def check_private(path: Path) -> None:
    """Refuses a private key that other accounts can read."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise FedtideError(f"{path}: a private key that others can read; allow only yourself: chmod 600 {path}")


def check_gateway(keys: Keys, superlink: str) -> None:
    """Refuses a gateway without keys, or a SuperLink that is reachable without it."""
    _check_address("--superlink", superlink, "other machines must reach it through the gateway only")
    for path in (keys.ca, keys.certificate, keys.key):
        if not path.exists():
            raise FedtideError(f"{path}: there is no such file; fedtide deploy keys creates it")
    if not any(keys.registered.glob("*.pub")):
        raise FedtideError(f"{keys.registered}: there is no public key of a client; fedtide deploy keys creates them")
    check_private(keys.key)


def check_nodes(node_keys: Sequence[Path]) -> None:
    """Refuses TLS without clients' keys: anyone could be a client. The gateway reads them from one folder."""
    require(len(node_keys) > 0, "node_keys", "none", "a key for each client: with TLS alone, anyone could be a client")
    folders = {path.parent for path in node_keys}
    require(len(folders) == 1, "node_keys", ", ".join(map(str, sorted(folders))), "in one folder")
    for path in node_keys:
        if not public(path).exists():
            raise FedtideError(f"{public(path)}: there is no such file; fedtide deploy keys creates it")
        if path.exists():  # otherwise it is on the client's machine
            check_private(path)


def check_node(arguments: Sequence[str]) -> None:
    """Refuses arguments with which others could reach a SuperNode, or read its messages."""
    for word in arguments:
        name = word.partition("=")[0]
        for full in (*_NODE, "--insecure"):
            if name.startswith("--") and len(name) > 2 and full.startswith(name) and full != name:
                raise FedtideError(f"{name}: must be written in full, as {full}")
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False, exit_on_error=False)
    for option in _NODE:
        parser.add_argument(option)
    parser.add_argument("--insecure", action="store_true")
    try:
        options, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise FedtideError(f"{error.argument_name}: {error.message}") from None
    check_loopback("--host", options.host or "127.0.0.1", "anyone who can reach it can take this client's tasks")
    if options.health_server_address:
        _check_address("--health-server-address", options.health_server_address, "it is not encrypted")
    if options.insecure and options.superlink:
        why = "--insecure neither encrypts nor authenticates; use --root-certificates"
        _check_address("--superlink", options.superlink, why)
    if options.auth_supernode_private_key:
        key = Path(options.auth_supernode_private_key).expanduser()
        if not key.exists():
            raise FedtideError(f"--auth-supernode-private-key = '{key}': there is no such file")
        check_private(key)


def _check_address(option: str, address: str, why: str) -> None:
    """Refuses a "host:port" that others can reach."""
    host, _, port = address.rpartition(":")
    require(port.isdecimal() and bool(host), option, address, "HOST:PORT")
    check_loopback(option, host.removeprefix("[").removesuffix("]"), why)
