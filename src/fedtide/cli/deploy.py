"""The commands `deploy init`, `up`, `status`, `node`, `gateway`, `keys`: a method on real processes, through Flower."""

import os
import shlex
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedtide.cli.faults import STOPPED, explained
from fedtide.cli.layout import show
from fedtide.errors import FedtideError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtide.adapters.deploy.tryout import Plan
    from fedtide.adapters.deploy.view import Plain, Snapshot

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def deploy() -> None:
    """The same method on real clients that come and go, through Flower.

    \b
    First steps:
      fedtide deploy init my-app      two files: settings, and your functions
      fedtide deploy up my-app        try it: five clients on this machine
      fedtide deploy status my-app    who was there, who was counted, how good
      fedtide deploy keys my-app --clients 5 --host server.example.org
    \b
    Needs: pip install 'fedtide\\[flower]'
    """


Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The app's folder.", show_default=False)]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder; must be new or empty.", show_default=False)],
    method: Annotated[str, typer.Option(help="The method: one of `fedtide methods`.")] = "ca_fed",
    framework: Annotated[
        Literal["numpy", "sklearn", "torch", "jax"], typer.Option(help="What the clients' functions are written in.")
    ] = "numpy",
    clients: Annotated[
        str, typer.Option(metavar="N|NAMES", help="How many clients, or their ids: anna,ben,eva.")
    ] = "5",
) -> None:
    """Write an app: settings in pyproject.toml, functions in federation.py.

    It works as it is, on handwritten digits that are split over the clients.
    Put your own data, model and gradients in their place.

    \b
    Examples:
      fedtide deploy init my-app
      fedtide deploy init phones --method fedavg --framework torch
      fedtide deploy init clinics --clients oslo,turin,lyon
    """
    with explained():
        _need_flower()
        from fedtide.adapters.deploy.app import ids_of, write_app

        for path in write_app(folder, method, framework, ids_of("--clients", clients)):
            typer.echo(f"Wrote {path}")
        typer.echo(f"Next: fedtide deploy up {shlex.quote(str(folder))}")


@app.command()
def up(
    folder: Folder,
    clients: Annotated[
        str | None,
        typer.Option(metavar="N|NAMES", help="Clients to start here.", show_default="those of the app, or 5"),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds in all.", show_default="as the app says")] = None,
    availability: Annotated[
        str, typer.Option(metavar="KIND", help="always, markov, phones, fleet:DIR or trace:FILE.")
    ] = "markov",
    seconds_per_round: Annotated[float, typer.Option(help="Length of a round of the played availability.")] = 20.0,
    seed: Annotated[int | None, typer.Option(min=0, help="Of run and play.", show_default="as the app says")] = None,
    run: Annotated[
        str | None, typer.Option(help="Name of the run; a new one begins anew.", show_default="as the app says")
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="TLS and keys also on this machine.")] = False,
    host: Annotated[
        str, typer.Option(help="Address that clients connect to; beyond this machine only with keys.")
    ] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Its port.", show_default="a free one")] = None,
    telemetry: Annotated[
        bool, typer.Option("--telemetry", help="Let Flower report usage and look for updates.")
    ] = False,
) -> None:
    """Start a federation and run the app: Flower's processes, and clients.

    The clients are real processes that stop and start as the availability
    says. All enrol at first; then the play begins. Ctrl-C stops everything;
    the same command goes on after the last round that was finished.
    Checkpoints, the ledger and logs are in DIR/state.

    \b
    Examples:
      fedtide deploy up my-app
      fedtide deploy up my-app --clients 8 --rounds 40
      fedtide deploy up my-app --availability fleet:my-fleet --run phones
      fedtide deploy up my-app --availability trace:who.npy
      fedtide deploy up my-app --tls
    \b
    Clients elsewhere (see fedtide deploy keys):
      fedtide deploy up my-app --host 0.0.0.0 --port 8443
    """
    with explained(), _resumable(folder):
        _need_flower()
        from fedtide.adapters.deploy.app import ids_of, read_app
        from fedtide.adapters.deploy.tryout import plan, try_out
        from fedtide.adapters.deploy.view import Screen, headline

        ids = None if clients is None else ids_of("--clients", clients)
        planned = plan(
            read_app(folder), ids, rounds, availability, seconds_per_round, seed, run, host, port, tls, telemetry
        )
        settings = planned.settings
        if planned.security is None:
            typer.echo("Without TLS and keys: nobody but this machine can reach it (--tls turns them on).")
        if planned.done:
            typer.echo(f"Run {settings.run} goes on after round {planned.done}.")
        terminal = sys.stdout.isatty()
        view: Any = Screen(settings.rounds) if terminal else _plain(planned)
        with view:
            seen = try_out(planned, view)
        typer.echo(headline(seen, settings.rounds))
        typer.echo(f"Model: {settings.folder / 'model.safetensors'}")
        typer.echo(f"Ledger: {settings.ledger_url}")
        typer.echo(f"Next: fedtide deploy status {shlex.quote(str(folder))}, or its availability as a fleet:")
        typer.echo(f"  fedtide fleet fit {shlex.quote(settings.ledger_url)} --out my-fleet")


@app.command()
def status(
    place: Annotated[
        str, typer.Argument(metavar="DIR_OR_LEDGER", help="App folder, ledger.db or postgresql://…", show_default=False)
    ],
    run: Annotated[str | None, typer.Option(help="Which run.", show_default="the last that began")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How many of the last rounds to show.")] = 10,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C.")] = False,
) -> None:
    """Show a run from its ledger: its clients, and its last rounds.

    \b
    Examples:
      fedtide deploy status my-app
      fedtide deploy status my-app --watch
      fedtide deploy status postgresql://me@server/ledger --run phones
    """
    with explained():
        _need_sqlalchemy()
        from fedtide.adapters.deploy.view import client_table, headline, round_table, snapshot
        from fedtide.adapters.ledger import Ledger

        with Ledger(_ledger(place), readonly=True) as ledger:

            def look() -> "Snapshot":
                known = [one.run for one in ledger.runs()]
                if not known:
                    raise FedtideError(f"ledger {place}: no run has begun")
                return snapshot(ledger, known[-1] if run is None else run)

            def parts() -> list[Any]:
                seen = look()
                return [headline(seen), "", client_table(seen), "", round_table(seen, rounds)]

            if not watch:
                show(*parts())
                return
            from rich.console import Console, Group
            from rich.live import Live

            with Live(console=Console(highlight=False), auto_refresh=False, screen=False) as live:
                while True:
                    live.update(Group(*parts()), refresh=True)
                    time.sleep(2)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def node(context: typer.Context) -> None:
    """Start a client on its own machine; fedtide deploy keys prints how.

    Flower's SuperNode, with all its arguments. Its answers begin at once:
    Flower alone would import everything anew for each message. Refused are
    arguments with which others could reach it: --host beyond this machine.
    """
    with explained():
        _need_flower()
        from fedtide.adapters.deploy.exposure import check_node
        from fedtide.adapters.deploy.local import QUICK, SWITCHES

        check_node(context.args)
        os.execve(sys.executable, [sys.executable, "-P", QUICK, *context.args], {**SWITCHES, **os.environ})


@app.command()
def gateway(
    keys: Annotated[Path, typer.Argument(metavar="KEYS", help="Folder of fedtide deploy keys.", show_default=False)],
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="The SuperLink; on loopback.")] = "127.0.0.1:8000",
    host: Annotated[str, typer.Option(help="Address that clients connect to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = 8443,
) -> None:
    """Let clients, and nobody else, reach a SuperLink on this machine.

    For those who start Flower's processes by hand, as fedtide deploy keys
    prints them; fedtide deploy up starts one itself. Whoever reaches a
    SuperLink runs programs on it and on all clients: it listens on loopback.
    The gateway terminates TLS, and forwards what a SuperNode with one of the
    keys in KEYS/clients asks for. All else is refused.

    \b
    Examples:
      fedtide deploy gateway my-app/keys --host 0.0.0.0 --port 8443
    """
    with explained():
        _need_flower()
        from fedtide.adapters.deploy.exposure import check_gateway
        from fedtide.adapters.deploy.keys import paths
        from fedtide.adapters.deploy.local import gateway_command

        found = paths(keys)
        check_gateway(found, superlink)
        command = gateway_command(host, port, superlink, found.ca, found.certificate, found.key, keys / "clients")
        os.execv(sys.executable, command)


@app.command()
def keys(
    folder: Folder,
    host: Annotated[
        list[str], typer.Option(help="A name or address of the server; may be given again.", show_default=False)
    ],
    clients: Annotated[int | None, typer.Option(min=1, help="Clients 0, 1, …", show_default=False)] = None,
    names: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Clients by their ids.", show_default=False)
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long the server's certificate is valid.")] = 365,
    port: Annotated[int, typer.Option(min=1, max=65535, help="In the commands that are printed.")] = 8443,
) -> None:
    """Make the keys of a federation, in DIR/keys, and say how to use them.

    An authority (ca.crt), the SuperLink's certificate for the given hosts,
    and a key pair for every client. Files that are there are never
    overwritten: give new names later, and their keys are added. Private files
    can be read by you alone. A client gets ca.crt and its own private key,
    nothing else.

    \b
    Examples:
      fedtide deploy keys my-app --clients 5 --host server.example.org
      fedtide deploy keys my-app --names oslo,turin --host 10.0.0.7 --host fl.lan
    """
    with explained():
        _need_flower()
        from fedtide.adapters.deploy.app import check_ids, ids_of
        from fedtide.adapters.deploy.keys import commands, make_keys, paths

        if (clients is None) == (names is None):
            raise FedtideError("give either --clients or --names")
        ids = [str(k) for k in range(clients)] if clients is not None else ids_of("--names", names or "")
        check_ids(ids, "--names")
        place = folder / "keys"
        taken = [path for path in paths(place, ids).clients.values() if path.exists()]
        if taken:
            raise FedtideError(f"{taken[0]}: exists, and keys are never overwritten; choose other names")
        made = make_keys(place, ids, host, days)
        typer.echo(f"Authority: {made.ca} (keep {made.ca_key.name} offline)")
        typer.echo(f"Server: {made.certificate}, {made.key.name}")
        typer.echo(f"Clients: {made.ca.parent / 'clients'} ({len(ids)} new)")
        typer.echo("")
        typer.echo("\n".join(commands(made, host[0], port)))
        typer.echo("")
        typer.echo("# All of the server's part in one: registers the clients, starts all these processes and the run")
        typer.echo(f"fedtide deploy up {shlex.quote(str(folder))} --host 0.0.0.0 --port {port}")


@contextmanager
def _resumable(folder: Path) -> "Iterator[None]":
    """Ctrl-C says how to go on: with the command as it was given."""
    given = sys.argv[1:] if sys.argv[1:3] == ["deploy", "up"] else ["deploy", "up", str(folder)]
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"stopped; go on with: fedtide {shlex.join(given)}", err=True)
        raise typer.Exit(STOPPED) from None


def _plain(planned: "Plan") -> "Plain":
    from fedtide.adapters.deploy.view import Plain

    return Plain(planned.settings.rounds, planned.settings.evaluate_every, planned.done)


def _ledger(place: str) -> str:
    """The ledger that is meant: a file or URL, or that of an app's folder."""
    if "://" in place or not Path(place).is_dir():
        return place
    for path in (Path(place) / "state" / "ledger.db", Path(place) / "ledger.db"):
        if path.exists():
            return str(path)
    if not (Path(place) / "pyproject.toml").exists():
        raise FedtideError(f"{place}: neither an app's folder nor a ledger")
    from fedtide.adapters.deploy.app import read_app

    found = read_app(place).config.get("ledger")
    if not found:
        raise FedtideError(f"{place}: no run has begun; fedtide deploy up begins one")
    return str(found)


def _need_flower() -> None:
    try:
        import flwr as _  # noqa: F401
    except ModuleNotFoundError as missing:
        raise FedtideError("fedtide deploy needs Flower: pip install 'fedtide[flower]'") from missing
    _need_sqlalchemy()


def _need_sqlalchemy() -> None:
    try:
        import sqlalchemy as _  # noqa: F401
    except ModuleNotFoundError as missing:
        raise FedtideError("the ledger needs SQLAlchemy: pip install 'fedtide[flower]'") from missing
