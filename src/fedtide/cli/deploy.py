"""The commands `deploy init`, `up`, `status`, `node`, `gateway`, `keys`: a method on real clients, through Flower."""

import importlib.util
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from fedtide.cli.faults import explained
from fedtide.cli.layout import Argument, command_line, optional, show
from fedtide.errors import FedtideError

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def deploy() -> None:
    """Run a method on real, intermittently available clients, through Flower.

    \b
    First steps:
      fedtide deploy init my-app      write an app: settings and functions
      fedtide deploy up my-app        run it with five clients on this machine
      fedtide deploy status my-app    show availability, weights and accuracy
      fedtide deploy keys my-app --clients 5 --host server.example.org
    \b
    Needs: pip install 'fedtide\\[flower]'
    """


Folder = Annotated[Path, Argument(metavar="DIR", help="Folder of the app.")]


@app.command()
def init(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder; must be new or empty.")],
    method: Annotated[str, Option(help="Name of a method, as listed by fedtide methods.")] = "ca_fed",
    framework: Annotated[
        Literal["numpy", "sklearn", "torch", "jax"], Option(help="Framework of the generated client functions.")
    ] = "numpy",
    clients: Annotated[str, Option(metavar="N|NAMES", help="Number of clients, or their ids: anna,ben,eva.")] = "5",
) -> None:
    """Write an app: settings in pyproject.toml, functions in federation.py.

    The app runs as generated, on handwritten digits split across the clients.
    Replace data, model and gradients with your own.

    \b
    Examples:
      fedtide deploy init my-app
      fedtide deploy init phones --method fedavg --framework torch
      fedtide deploy init clinics --clients oslo,turin,lyon
    """
    with explained():
        _need()
        from fedtide.adapters.deploy.app import ids_of, write_app

        for path in write_app(folder, method, framework, ids_of("--clients", clients)):
            typer.echo(f"Wrote {path}")
        typer.echo(f"Next: fedtide deploy up {shlex.quote(str(folder))}")


@app.command()
def up(
    context: typer.Context,
    folder: Folder,
    clients: Annotated[
        str | None,
        optional("Clients to start on this machine.", "those of the app, or 5", metavar="N|NAMES"),
    ] = None,
    rounds: Annotated[int | None, optional("Total number of rounds.", "as set in the app", min=1)] = None,
    availability: Annotated[
        str, Option(metavar="KIND", help="always, markov, phones, fleet:DIR or trace:FILE.")
    ] = "markov",
    seconds_per_round: Annotated[
        float, Option(help="Length of a round of the simulated availability, in seconds.")
    ] = 20.0,
    seed: Annotated[
        int | None,
        optional("Seed for the run and for the simulated availability.", "as set in the app", min=0),
    ] = None,
    run: Annotated[str | None, optional("Name of the run; a new name starts a new run.", "as set in the app")] = None,
    tls: Annotated[
        bool, Option("--tls", help="Use TLS and client keys even if all clients are on this machine.")
    ] = False,
    host: Annotated[str, Option(help="Address that clients connect to; other machines need keys.")] = "127.0.0.1",
    port: Annotated[int | None, optional("Port that clients connect to.", "a free one", min=1, max=65535)] = None,
    telemetry: Annotated[bool, Option("--telemetry", help="Allow Flower's telemetry and update checks.")] = False,
) -> None:
    """Start a federation (Flower's processes and the clients) and run the app.

    The clients are real processes, stopped and started according to the simulated
    availability once all of them have enrolled. Ctrl-C stops everything; the same
    command resumes after the last finished round. Checkpoints, the ledger and
    logs are in DIR/state.

    \b
    Examples:
      fedtide deploy up my-app
      fedtide deploy up my-app --clients 8 --rounds 40
      fedtide deploy up my-app --availability fleet:my-fleet --run phones
      fedtide deploy up my-app --availability trace:available.npy
      fedtide deploy up my-app --tls
    \b
    Clients on other machines (see fedtide deploy keys):
      fedtide deploy up my-app --host 0.0.0.0 --port 8443
    """
    with explained(resume=command_line(context)):
        _need()
        from fedtide.adapters.deploy.app import ids_of, read_app
        from fedtide.adapters.deploy.up import plan, run_deployment
        from fedtide.adapters.deploy.view import Plain, Screen, headline

        ids = None if clients is None else ids_of("--clients", clients)
        planned = plan(read_app(folder), ids, rounds, availability, seconds_per_round, seed, run, host, tls)
        planned, settings = planned._replace(port=port, telemetry=telemetry), planned.settings
        if planned.keys is None:
            typer.echo("Without TLS and keys: reachable from this machine only (--tls turns them on).")
        if planned.done:
            typer.echo(f"Run {settings.run} resumes after round {planned.done}.")
        plain = Plain(settings.rounds, settings.evaluate_every, planned.done)
        with Screen(settings.rounds) if sys.stdout.isatty() else plain as view:
            snapshot = run_deployment(planned, view)
        typer.echo(headline(snapshot, settings.rounds))
        typer.echo(f"Model: {settings.folder / 'model.safetensors'}")
        typer.echo(f"Ledger: {settings.ledger_url}")
        typer.echo(f"Next: fedtide deploy status {shlex.quote(str(folder))}, or fit a fleet model to the ledger:")
        typer.echo(f"  fedtide fleet fit {shlex.quote(settings.ledger_url)} --out my-fleet")


@app.command()
def status(
    place: Annotated[str, Argument(metavar="DIR_OR_LEDGER", help="App folder, ledger.db or postgresql://…")],
    run: Annotated[str | None, optional("Name of the run.", "the most recent one")] = None,
    rounds: Annotated[int, Option(min=1, help="Number of recent rounds to show.")] = 10,
    watch: Annotated[bool, Option("--watch", help="Refresh every two seconds until Ctrl-C.")] = False,
) -> None:
    """Show the clients and the recent rounds of a run, from its ledger.

    \b
    Examples:
      fedtide deploy status my-app
      fedtide deploy status my-app --watch
      fedtide deploy status postgresql://me@server/ledger --run phones
    """
    with explained():
        _need("sqlalchemy")
        from fedtide.adapters.deploy.view import client_table, headline, read_snapshot, round_table
        from fedtide.adapters.ledger import Ledger

        with Ledger(_ledger(place), readonly=True) as ledger:

            def parts() -> list[Any]:
                known = [one.run for one in ledger.runs()]
                if not known:
                    raise FedtideError(f"ledger {place}: no run has started")
                snapshot = read_snapshot(ledger, known[-1] if run is None else run)
                return [headline(snapshot), "", client_table(snapshot), "", round_table(snapshot, rounds)]

            if not watch:
                return show(*parts())
            from rich.console import Console, Group
            from rich.live import Live

            with Live(console=Console(highlight=False), auto_refresh=False, screen=False) as live:
                while True:
                    live.update(Group(*parts()), refresh=True)
                    time.sleep(2)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def node(context: typer.Context) -> None:
    """Start a client on its own machine; fedtide deploy keys prints the command.

    Takes all arguments of Flower's SuperNode and responds faster, since
    Flower itself would import all modules again for every message. Arguments that
    would expose the client, such as a --host that is not loopback, are
    refused.
    """
    with explained():
        _need()
        from fedtide.adapters.deploy.exposure import check_node
        from fedtide.adapters.deploy.local import QUICK, SWITCHES

        check_node(context.args)
        os.execve(sys.executable, [sys.executable, "-P", QUICK, *context.args], {**SWITCHES, **os.environ})


@app.command()
def gateway(
    keys: Annotated[Path, Argument(metavar="KEYS", help="Folder of fedtide deploy keys.")],
    superlink: Annotated[
        str, Option(metavar="HOST:PORT", help="Address of the SuperLink; must be loopback.")
    ] = "127.0.0.1:8000",
    host: Annotated[str, Option(help="Address that clients connect to.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535, help="Port that clients connect to.")] = 8443,
) -> None:
    """Let clients, and only clients, reach a SuperLink on this machine.

    Needed only if you start Flower's processes yourself, with the commands that
    fedtide deploy keys prints; fedtide deploy up starts its own gateway. Anyone
    who can reach a SuperLink can run programs on it and on all clients, so it
    listens on loopback. The gateway terminates TLS and forwards the requests of
    SuperNodes whose key is in KEYS/clients. All other requests are refused.

    \b
    Examples:
      fedtide deploy gateway my-app/keys --host 0.0.0.0 --port 8443
    """
    with explained():
        _need()
        from fedtide.adapters.deploy.exposure import check_gateway
        from fedtide.adapters.deploy.keys import paths
        from fedtide.adapters.deploy.local import gateway_command

        files = paths(keys)
        check_gateway(files, superlink)
        os.execv(sys.executable, gateway_command(host, port, superlink, files))


@app.command()
def keys(
    folder: Folder,
    host: Annotated[list[str], Option(help="Host name or address of the server; may be repeated.", show_default=False)],
    clients: Annotated[int | None, optional("Number of clients; their ids are 0, 1, …", min=1)] = None,
    names: Annotated[str | None, optional("Ids of the clients.", metavar="A,B,…")] = None,
    days: Annotated[int, Option(min=1, help="Validity of the server's certificate, in days.")] = 365,
    port: Annotated[int, Option(min=1, max=65535, help="Port in the printed commands.")] = 8443,
) -> None:
    """Create the keys of a federation in DIR/keys, and print how to use them.

    Creates a certificate authority (ca.crt), the SuperLink's certificate for the
    given hosts, and a key pair for every client. Existing files are never
    overwritten; keys for new names can be added later. Only you can read the
    private files. Give each client ca.crt and its own private key, and nothing
    else.

    \b
    Examples:
      fedtide deploy keys my-app --clients 5 --host server.example.org
      fedtide deploy keys my-app --names oslo,turin --host 10.0.0.7 --host fl.lan
    """
    with explained():
        _need()
        from fedtide.adapters.deploy.app import check_ids, ids_of
        from fedtide.adapters.deploy.keys import commands, make_keys, paths

        if (clients is None) == (names is None):
            raise FedtideError("give either --clients or --names")
        ids = [str(k) for k in range(clients)] if clients is not None else ids_of("--names", names or "")
        check_ids(ids, "--names")
        for path in paths(folder / "keys", ids).clients.values():
            if path.exists():
                raise FedtideError(f"{path}: exists, and keys are never overwritten; choose other names")
        made = make_keys(folder / "keys", ids, host, days)
        typer.echo(f"Authority: {made.ca} (keep {made.ca_key.name} offline)")
        typer.echo(f"Server: {made.certificate}, {made.key.name}")
        typer.echo(f"Clients: {made.registered} ({len(ids)} new)\n")
        typer.echo(commands(made, host[0], port))
        typer.echo("# Or start the whole server with one command, which also registers the clients and starts the run")
        typer.echo(f"fedtide deploy up {shlex.quote(str(folder))} --host 0.0.0.0 --port {port}")


def _ledger(place: str) -> str:
    """The ledger at a path or URL, or that of an app's folder."""
    if "://" in place or not Path(place).is_dir():
        return place
    for path in (Path(place) / "state" / "ledger.db", Path(place) / "ledger.db"):
        if path.exists():
            return str(path)
    if not (Path(place) / "pyproject.toml").exists():
        raise FedtideError(f"{place}: neither an app folder nor a ledger")
    from fedtide.adapters.deploy.app import read_app

    if ledger := read_app(place).config.get("ledger"):
        return str(ledger)
    raise FedtideError(f"{place}: no run has started; start one with fedtide deploy up")


_NEEDS = {"flwr": "fedtide deploy needs Flower", "sqlalchemy": "the ledger needs SQLAlchemy"}


def _need(*modules: str) -> None:
    for module in modules or _NEEDS:
        if importlib.util.find_spec(module) is None:
            raise FedtideError(f"{_NEEDS[module]}: pip install 'fedtide[flower]'")
