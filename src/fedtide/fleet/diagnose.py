"""Does a two-state chain describe this fleet at this round length? Seven questions, each against simulated fleets."""

from collections.abc import Callable
from functools import partial

import numpy as np

from fedtide.errors import whole
from fedtide.fleet import dwell, homogeneity, order, recurrence, together
from fedtide.fleet.diagnosis import Diagnosis, Finding
from fedtide.fleet.diagnosis_words import undecided
from fedtide.fleet.model import FleetModel
from fedtide.fleet.nulls import Chains, Evidence, chunks, clocked, evidence, steady, taken_for_memory
from fedtide.fleet.several import Conclude, judged
from fedtide.fleet.slots import Slots
from fedtide.fleet.theory_words import theory

Measured = dict[str, np.ndarray]
_STEADY = (  # compared with independent chains
    (order.measure, order.conclude),
    (homogeneity.measure, homogeneity.conclude),
    (homogeneity.measure_week, homogeneity.conclude_week),
    (dwell.measure, dwell.conclude),
    (recurrence.measure, recurrence.conclude),
    (together.measure, together.conclude),
)
_CLOCKED = ((together.measure_after, together.conclude_after),)  # with independent chains that follow the clock
_QUESTIONS = {
    "order": order.QUESTION,
    "homogeneity": homogeneity.QUESTION,
    "week": homogeneity.WEEK_QUESTION,
    "dwell": dwell.QUESTION,
    "day_later": recurrence.QUESTION,
    "together": together.QUESTION,
    "together_after_clock": together.AFTER_QUESTION,
}
_LEAST_DEVICES = 2
_LEAST_ROUNDS = 20


def diagnose(
    model: FleetModel,
    *,
    simulated: int = 199,
    most_devices: int = 400,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """Put the questions to the model's record.

    Each statistic is computed in the same way on `simulated` fleets of independent chains, fitted to the record, with
    the record's missing entries. Looks at regular devices that came and went, at most `most_devices` of them (drawn
    with `seed`). `progress(done, total)` is called as fleets are simulated. Up to seven questions are asked: a verdict
    `holds = False` allows for that (Holm's rule, `several.judged`), so that 5 % of fleets of true chains have any; `p`
    is that of each question alone.
    """
    whole("simulated", simulated, 39)  # fewer cannot reach 5 % on two sides
    whole("most_devices", most_devices, _LEAST_DEVICES)
    slots = Slots(model.record, tuple(model.devices["device"]), model.round_seconds, model.start, model.zone)
    which = _chosen(model, most_devices, seed)
    findings, inflated = examine(slots, which, simulated=simulated, seed=seed, progress=progress)
    return Diagnosis(findings, theory(model, findings, inflated), (), {}, simulated, which.size)


def examine(
    slots: Slots,
    which: np.ndarray,
    *,
    simulated: int = 199,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[tuple[Finding, ...], np.ndarray | None]:
    """The findings on the devices `which` of a record, and by how much the shared clock raises each one's λ."""
    reason = _too_little(slots, which)
    if reason:
        return tuple(undecided(name, question, reason) for name, question in _QUESTIONS.items()), None
    found = evidence(slots, which)
    done = _Progress(progress, 2 * simulated if homogeneity.day_is_readable(found) else simulated)
    asked = _put(_STEADY, found, steady(found), simulated, np.random.default_rng([seed, 6, 1]), done)
    daily = clocked(found) if homogeneity.day_is_readable(found) else None
    if daily is None:
        asked += tuple(partial(conclude, {}, {}, found) for _, conclude in _CLOCKED)
    else:
        asked += _put(_CLOCKED, found, daily, simulated, np.random.default_rng([seed, 6, 2]), done)
    return judged(asked), None if daily is None else taken_for_memory(found, daily)


def _chosen(model: FleetModel, most: int, seed: int) -> np.ndarray:
    """Numbers of the devices to look at: regular, seen to arrive and to leave."""
    table = model.devices
    able = (table["kind"] == "regular") & (table["off_on"] > 0) & (table["on_off"] > 0)
    which = np.flatnonzero(able.to_numpy())
    if which.size > most:
        which = np.sort(np.random.default_rng([seed, 6, 0]).choice(which, most, replace=False))
    return which


def _too_little(slots: Slots, which: np.ndarray) -> str:
    if which.size < _LEAST_DEVICES:
        seen = "no device was" if which.size == 0 else "only one device was"
        return f"{seen} seen to come and to go, long enough to be judged"
    if slots.rounds < _LEAST_ROUNDS:
        return f"{slots.rounds} rounds are too few"
    return ""


class _Progress:
    def __init__(self, tell: Callable[[int, int], None] | None, total: int):
        self.tell, self.done, self.total = tell, 0, total

    def add(self, count: int) -> None:
        self.done += count
        if self.tell:
            self.tell(self.done, self.total)


def _put(
    questions, found: Evidence, chains: Chains, simulated: int, generator: np.random.Generator, progress: _Progress
) -> tuple[Conclude, ...]:
    """Measure the record and the simulated fleets alike; conclusions, for each level."""
    recorded: list[Measured] = [measure(found.here, found) for measure, _ in questions]
    null: list[dict[str, list[np.ndarray]]] = [{name: [] for name in kept} for kept in recorded]
    for here in chunks(chains, found.clock.rounds, simulated, generator):
        for (measure, _), kept in zip(questions, null, strict=True):
            for name, values in measure(here, found).items():
                kept[name].append(values)
        progress.add(here.shape[1])
    whole_null = [{name: np.concatenate(parts) for name, parts in kept.items()} for kept in null]
    return tuple(
        partial(conclude, one, many, found)
        for (_, conclude), one, many in zip(questions, recorded, whole_null, strict=True)
    )
