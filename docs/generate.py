"""Generates the parts of the documentation that can be derived from the code.

    python docs/generate.py            # rewrites docs/*.md, docs/pictures, docs/reproductions
    python docs/generate.py --check    # lists what would change, and fails if anything would

Generated text is between `<!-- generated: NAME -->` and `<!-- end of generated -->`.
"""

import functools
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from fedtide import (
    aggregation,
    availability,
    clock,
    data,
    errors,
    estimators,
    experiments,
    fleet,
    methods,
    participation,
    partitioners,
    problems,
    report,
    rows,
    schedules,
    servers,
    simulation,
    solvers,
    staleness,
    streams,
    theory,
    track,
    types,
    work,
)
from fedtide.cli import app
from fedtide.clock.catalogue import BARRIERS, DEVICES, JITTERS
from fedtide.experiments import as_written, dumps, settings
from fedtide.experiments.arguments import in_words
from fedtide.experiments.config import Config, LocalTable, MethodChoice, Run, Tune
from fedtide.partitioners.base import deferred
from fedtide.problems import models
from fedtide.reproduce import claims, results, study
from fedtide.reproduce.run import reproduce as run_study
from fedtide.tomls import toml

ROOT = Path(__file__).resolve().parent.parent


def _beside(name: str) -> ModuleType:
    """A script of this folder as a module, even if the folder is not on the path."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reproduce, layers = _beside("reproduce"), _beside("layers")
table = reproduce.table
BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end of generated -->)", re.DOTALL)
ROUNDS_IN_PICTURE = 96
REQUIRED = "(required)"
PACKAGES: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        simulation, availability, clock, estimators, participation, solvers, work, schedules, staleness, aggregation,
        servers, methods, problems, models, partitioners, data, fleet, experiments, track, report, theory, types,
        streams, rows, errors,
    )
}  # fmt: skip
STUDIES = (
    study.names, study.papers, study.by_paper, study.load_study, study.plan, study.StudyPlan, study.CaseConfig,
    run_study, results.Results, results.CaseResult, results.MethodResult, results.read,
    claims.judge, claims.Judged, claims.Comparison, claims.in_words,
)  # fmt: skip
NAME_IN_CONFIGURATIONS = re.compile(r"(?<!^)(?=[A-Z])")


def method_table() -> str:
    """All methods with their declared facts, in one table per purpose."""
    headings = ["Method", "What it does", "Unbiased when", "Needs", "Server keeps", "Client keeps", "Extra messages"]
    sections = []
    for purpose, entries in methods.by_purpose().items():
        rows = []
        for entry in entries:
            facts, where = entry.facts, f"reference/methods.md#{entry.build.__module__}.{entry.name}"
            name = f"[{entry.title}]({where}) `{entry.name}`"
            extra = {"up": facts.extra_up, "down": facts.extra_down}
            messages = "; ".join(f"{way}: {what}" for way, what in extra.items() if what != "–") or "–"
            row = [name, entry.summary.rstrip("."), facts.unbiased, facts.needs]
            rows.append([*row, facts.server_memory, facts.client_memory, messages])
        sections += [f"### {purpose.capitalize()}\n", table(headings, rows)]
    return "\n".join(sections)


def process_list() -> str:
    """All availability processes: summary, picture and configuration."""
    sections = []
    for entry in availability.CATALOGUE.values():
        process = entry.build(**entry.example)
        text = dumps({"name": entry.name, **as_written(entry.example)}, inline=True)
        alternative = f"{process.clients} clients from top to bottom, {ROUNDS_IN_PICTURE} rounds from left to right"
        sections += [
            f"### {entry.name}\n",
            f"{entry.summary}\n",
            f"![{entry.name}: {alternative}](pictures/processes/{entry.name}.svg){{ .process }}\n",
            f"```toml\n[availability]\n{text}```\n",
        ]
    return "\n".join(sections)


def command_list() -> str:
    """All commands with their help, options and examples; subcommands follow their group."""
    group: Any = typer.main.get_command(app)
    return "\n".join(section for path, command in commands(group) for section in _command(path, command))


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """(name, command) of all commands in a group and its subgroups; a name includes those of the groups."""
    for name, command in group.commands.items():
        path = f"{before} {name}".strip()
        yield path, command
        if hasattr(command, "commands"):
            yield from commands(command, path)


def _command(path: str, command: Any) -> list[str]:
    text, *examples = inspect.cleandoc(command.help).split("\b")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["fedtide", path, *(_usage(p) for p in arguments)])
    options = [p for p in command.params if p.param_type_name == "option" and not getattr(p, "hidden", False)]
    sections = [f"## {path}\n", f"`{usage}{' [OPTIONS]' if options else ''}`\n", f"{' '.join(text.split())}\n"]
    if options:
        rows = [[f"`{p.opts[0]}`", str(p.help), _option_default(p)] for p in options]
        sections.append(table(["Option", "Meaning", "Default"], rows))
    for example in examples:
        heading, *lines = example.strip("\n").split("\n")
        code = inspect.cleandoc("\n".join(lines)).replace("\\[", "[")
        if heading.startswith("Examples"):
            sections.append(f"```sh\n{code}\n```\n")
    return sections


def table_keys(model: type[BaseModel], *, extra: Mapping[str, str] | None = None) -> str:
    """The keys of a table of the configuration."""
    rows = []
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        missing = default is PydanticUndefined
        shown = REQUIRED if missing else "–" if default is None or isinstance(default, BaseModel) else _code(default)
        rows.append([f"`{name}`", field.description or "", shown])
    rows += [[f"`{name}`", text, "–"] for name, text in (extra or {}).items()]
    return table(["Key", "Meaning", "Default"], rows)


def arguments(catalogue: Mapping[str, Any]) -> str:
    """The arguments of all entries of a catalogue, as written in configurations."""
    sections = []
    for entry in catalogue.values():
        explained = entry.explained if isinstance(entry, methods.MethodEntry) else None
        sections += [f"**`{entry.name}`** {entry.summary}\n", _arguments(entry.build, explained)]
    return "\n".join(sections)


def parts() -> str:
    """The parts that a method's table may replace, by kind."""
    packages = {
        "estimator": estimators,
        "participation": participation,
        "solver": solvers,
        "aggregation": aggregation,
        "server": servers,
        "schedule": schedules,
        "staleness": staleness,
    }
    rows = []
    for kind, package in packages.items():
        for name, build in classes(package).items():
            rows.append([f"`{kind}`", f"`{name}`", *_arguments_and_summary(build)])
    return table(["Key", "Name", "Arguments", "Meaning"], rows)


def clock_parts() -> str:
    """The parts that the table of a clock may name, by kind."""
    rows = [
        [f"`{kind}`", f"`{name}`", *_arguments_and_summary(build)]
        for kind, known in {"devices": DEVICES, "barrier": BARRIERS, "jitter": JITTERS}.items()
        for name, build in known.items()
    ]
    return table(["Key", "Name", "Arguments", "Meaning"], rows)


def splits_and_models() -> str:
    """The partitions and models that a problem's tables `partition` and `model` may name."""
    kinds = {
        "partition": {entry.name: entry.build for entry in partitioners.CATALOGUE.values()},
        "model": {name: deferred(build, "inputs", "classes") for name, build in models.MODELS.items()},
    }
    rows = [
        [f"`{kind}`", f"`{name}`", *_arguments_and_summary(build)]
        for kind, known in kinds.items()
        for name, build in known.items()
    ]
    return table(["Key", "Name", "Arguments", "Meaning"], rows)


def _arguments_and_summary(build: Callable[..., Any]) -> tuple[str, str]:
    names = ", ".join(f"`{argument}`" for argument in settings(build))
    return names or "–", _first_sentence(inspect.getdoc(build) or "")


def classes(package: ModuleType) -> dict[str, Callable[..., Any]]:
    """A package's parts by their names in configurations."""
    public = {name: getattr(package, name) for name in package.__all__}
    return {NAME_IN_CONFIGURATIONS.sub("_", n).lower(): c for n, c in public.items() if isinstance(c, type)}


def reference(package: ModuleType) -> str:
    """One entry of the reference for each public name of a package; models have their own page.

    An entry names the module that defines the object, because some functions have the name of their module.
    """
    lines = [f"{inspect.getdoc(package)}\n"]
    names = getattr(package, "__all__", None) or _defined_in(package)
    for name in sorted(
        names, key=lambda name: name in ("MethodEntry", "ProcessEntry", "by_purpose")
    ):  # the catalogue comes last
        member = inspect.unwrap(getattr(package, name))  # builders are wrapped in a cache
        if package is problems and getattr(member, "__module__", "").startswith(models.__name__):
            continue
        if inspect.isclass(member) or inspect.isfunction(member):
            lines.append(_described(member))
    return "\n".join(lines)


def _described(member: Any) -> str:
    """An entry of the reference: the source of types whose fields and shapes are the documentation."""
    if inspect.isclass(member) and (member.__module__ == types.__name__ or _is_record(member)):
        return f"## {member.__name__}\n\n``` {{ .python .source }}\n{inspect.getsource(member)}```\n"
    return f"::: {member.__module__}.{member.__name__}\n"


def _is_record(member: type) -> bool:
    """Whether it is a tuple of named fields without methods."""
    own = [value for name, value in vars(member).items() if not name.startswith("_")]
    return hasattr(member, "_fields") and not any(inspect.isfunction(v) or isinstance(v, property) for v in own)


def studies() -> str:
    """The reference of the functions and types that run and judge studies."""
    return "\n".join(_described(inspect.unwrap(one)) for one in STUDIES)


def method_times() -> str:
    """The time of a round of every method relative to FedAvg's, as last measured on a CPU and on a GPU."""
    measured = [json.loads((ROOT / "docs" / "data" / f"methods-{name}.json").read_text()) for name in ("cpu", "h200")]
    by_name = [{row["method"]: row for row in results["methods"]} for results in measured]
    rows = []
    for name, cpu in by_name[0].items():
        ratios = [f"{methods_of[name]['ratio']:.2f}" for methods_of in by_name]
        kept = f"{cpu['bytes per client']:,.0f}"
        rows.append([f"`{name}`", str(cpu["trained"]), *ratios, kept, cpu["more work than FedAvg"]])
    return table(["Method", "Clients trained", "CPU", "H200", "Bytes per client", "More work than FedAvg"], rows)


def robustness() -> str:
    """Accuracies of robust methods without and with attackers, as last measured by examples/robustness.py."""
    rows = json.loads((ROOT / "docs" / "data" / "robustness-cpu.json").read_text())["rows"]
    cases = [case for case in rows[0] if case != "method"]
    headings = [f"{case}: {who}" for case in cases for who in ("all clients", "rarely available")]
    cells = [
        [row["method"], *(f"{100 * row[case][who]:.0f} %" for case in cases for who in ("all", "rare"))] for row in rows
    ]
    return table(["Method", *(heading.capitalize() for heading in headings)], cells)


BLOCKS: dict[str, Callable[[], str]] = {
    "robustness": robustness,
    "method-times": method_times,
    "methods": method_table,
    "processes": process_list,
    "commands": command_list,
    "config": lambda: table_keys(Config),
    "config-run": lambda: table_keys(Run),
    "config-local": lambda: table_keys(LocalTable),
    "config-tune": lambda: table_keys(Tune),
    "config-method": lambda: table_keys(
        MethodChoice, extra=dict.fromkeys(_REPLACED, "a table that replaces this part")
    ),
    "arguments-problems": lambda: arguments(problems.CATALOGUE),
    "arguments-availability": lambda: arguments(availability.CATALOGUE),
    "arguments-methods": lambda: arguments(methods.CATALOGUE),
    "parts": parts,
    "clock-parts": clock_parts,
    "splits-and-models": splits_and_models,
    "study": lambda: table_keys(study.Study),
    "study-case": lambda: table_keys(study.Case),
    "study-scale": lambda: table_keys(study.AtScale),
    "study-claim": lambda: table_keys(study.Claim),
    "reproductions": lambda: reproduce.summary("reproductions/"),
    "reference-studies": studies,
    **{f"reference-{name}": functools.partial(reference, package) for name, package in PACKAGES.items()},
}
_REPLACED = ("estimator", "participation", "solver", "aggregation", "server")


def picture(trace: np.ndarray) -> str:
    """bool[rounds, clients] as SVG, one row per client, in a colour that is legible on light and on dark pages."""
    rounds, clients = trace.shape
    height = max(3, min(12, 96 // clients))
    strokes = []
    for client, available in enumerate(trace.T):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], available, [0]])))
        middle = client * height + height / 2
        strokes += [f"M{6 * start} {middle:g}h{6 * (end - start)}" for start, end in edges.reshape(-1, 2)]
    size = f"{6 * rounds} {clients * height}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{6 * rounds}" '
        f'height="{clients * height}"><path fill="none" stroke="#2a8fa3" stroke-width="{height - 1}" '
        f'd="{"".join(strokes)}"/></svg>\n'
    )


def pages() -> Iterator[tuple[Path, str]]:
    """Every page with generated blocks, with its up-to-date text."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text("utf-8")
        if BLOCK.search(text):
            yield path, BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]]().rstrip()}\n{block[3]}", text)


def pictures() -> Iterator[tuple[Path, str]]:
    """The pictures of the layers and of every process's example."""
    for theme in ("light", "dark"):
        yield ROOT / "docs" / "pictures" / f"architecture-{theme}.svg", layers.picture(theme)
    for entry in availability.CATALOGUE.values():
        trace = entry.build(**entry.example).sample(seed=0, rounds=ROUNDS_IN_PICTURE)
        yield ROOT / "docs" / "pictures" / "processes" / f"{entry.name}.svg", picture(trace)


def _defined_in(module: ModuleType) -> list[str]:
    own = {n: v for n, v in vars(module).items() if not n.startswith("_")}
    return [n for n, v in own.items() if getattr(v, "__module__", None) == module.__name__]


def _arguments(build: Callable[..., Any], explained: Mapping[str, str] | None) -> str:
    headings, rows = ["Argument", "Type", "Default"], []
    for name, parameter in settings(build).items():
        written = as_written(parameter.default) if parameter.default is not parameter.empty else None
        default = REQUIRED if parameter.default is parameter.empty else "–" if written is None else _code(written)
        rows.append([f"`{name}`", in_words(parameter.annotation), default])
        if explained is not None:
            rows[-1].append(explained.get(name, ""))
    return table(headings if explained is None else [*headings, "Meaning"], rows)


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[^a-z])", paragraph)[0]


def _code(value: Any) -> str:
    return f"`{toml(value)}`"


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _option_default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    return "–" if option.default is None else f"`{option.default}`"


def main() -> None:
    check = "--check" in sys.argv[1:]
    stale = 0
    for name in reproduce.stale():
        stale += 1
        print(f"{'stale' if check else 'drawn'}: the figures of {name}")
        if not check:
            reproduce.draw(name)
    for path, text in (*pages(), *pictures(), *reproduce.pages()):
        if not path.exists() or path.read_text("utf-8") != text:
            stale += 1
            print(("stale: " if check else "written: ") + str(path.relative_to(ROOT)))
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
    if check and stale:
        sys.exit("run: python docs/generate.py")


if __name__ == "__main__":
    main()
