"""Time per round of every method, relative to FedAvg with as many clients and the same local work."""

import inspect

from rounds import BATCH, CLASSES, CLIENTS, COHORT, INPUTS, RATE, RIDGE, SAMPLES, STEPS, data, segment_seconds

import fedtide
from fedtide.problems.classification import classification
from fedtide.problems.models import softmax_regression
from fedtide.simulation.setup import Setup, fitted
from fedtide.types import Participation
from fedtide.work import Steps


def measure(only: list[str] | None = None) -> list[dict[str, object]]:
    """One row per method of the catalogue; `ratio` is relative to FedAvg with the same cohort, in the same run."""
    problem = classification(softmax_regression(INPUTS, CLASSES), data(), ridge=RIDGE)
    baseline = {}
    for clients in (COHORT, CLIENTS):
        baseline[clients] = _seconds(problem, fedtide.methods.fedavg(rate=RATE, clients=clients, work=_WORK))
    rows: list[dict[str, object]] = []
    for name, entry in fedtide.methods.CATALOGUE.items():
        if only and name not in only:
            continue
        known = inspect.signature(entry.build).parameters
        choice = {"rate": RATE, "work": _WORK, "clients": COHORT, "candidates": CLIENTS}
        method = entry.build(**{key: value for key, value in choice.items() if key in known})
        setup = _setup(problem, method)
        trained = min(setup.shape(fitted(method, problem), setup.plan[0], None).capacity, CLIENTS)
        same = min(baseline, key=lambda clients: abs(clients - trained))
        seconds = _seconds(problem, method)
        rows.append(
            {
                "method": name,
                "trained": trained,
                "µs per round": 1e6 * seconds,
                "ratio": seconds / baseline[same],
                "bytes per client": _bytes_per_client(method),
                "more work than FedAvg": _more_work(method.participation, method),
            }
        )
    return rows


_WORK = Steps(STEPS, BATCH)


def _more_work(policy: Participation, method: fedtide.Method) -> str:
    asked = min(policy.query_capacity(CLIENTS), CLIENTS) if policy.needs_losses else 0
    on = {"minibatch": f"a batch of {BATCH}", "all": f"all {SAMPLES} samples"}.get(policy.needs_losses or "", "")
    more = [f"{asked} clients report a loss on {on}"] if asked else []
    if method.solver.trains_absent:
        more.append("unavailable clients also train")
    return ", ".join(more) or "–"


def _setup(problem: object, method: fedtide.Method) -> Setup:
    availability = fedtide.availability.Always(CLIENTS)
    options = {"history": 0, "record_clients": False, "chunk": None}
    method = fitted(method, problem)
    return Setup(problem, availability, {"m": method}, rounds=51, seeds=1, evaluate_every=51, **options)


def _seconds(problem: object, method: fedtide.Method) -> float:
    return segment_seconds(_setup(problem, method), fitted(method, problem))["seconds"]


def _bytes_per_client(method: fedtide.Method) -> float:
    """State on the server and on the clients that grows with the number of clients."""
    sizes = []
    for clients in (CLIENTS, 2 * CLIENTS):
        problem = classification(softmax_regression(INPUTS, CLASSES), data() * (clients // CLIENTS), ridge=RIDGE)
        availability = fedtide.availability.Always(clients)
        options = {"history": 0, "record_clients": False, "chunk": None}
        fit = fitted(method, problem)
        setup = Setup(problem, availability, {"m": fit}, rounds=1, seeds=1, evaluate_every=1, **options)
        sizes.append(setup.memory(fit, None).state)
    return (sizes[1] - sizes[0]) / CLIENTS
