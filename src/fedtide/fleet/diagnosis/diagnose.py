"""Tests whether two-state chains describe a fleet at this round length: seven questions, against simulated fleets."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedtide.errors import whole
from fedtide.fleet.diagnosis import rates, recurrence, together, words
from fedtide.fleet.diagnosis.contrasts import LEVEL
from fedtide.fleet.diagnosis.findings import Decided, Diagnosis, Name, Reason, Undecided
from fedtide.fleet.diagnosis.nulls import Chains, Evidence, chunks, clocked, evidence, steady, taken_for_memory
from fedtide.fleet.model import FleetModel
from fedtide.fleet.slots import Slots
from fedtide.kinds import kinds_checked

_LEAST_DEVICES = 2
_LEAST_ROUNDS = 20
_FAR = 0.001  # p of values that are further off than simulations can show


class _Question(NamedTuple):
    """A statistic of the record and of simulated fleets, and the answer that follows from both."""

    name: Name
    measure: Callable[[np.ndarray, Evidence], Any]  # a named tuple of arrays, fleets first
    conclude: Callable[[Name, Any, Any, Evidence], Decided | Undecided]
    silent: Callable[[Evidence, Name], Undecided | None] = lambda found, name: None  # why the record is not sufficient


_STEADY = (  # compared with independent chains
    _Question("order", rates.measure_order, rates.conclude),
    _Question("homogeneity", rates.measure_day, rates.conclude, Evidence.day_unreadable),
    _Question("week", rates.measure_week, rates.conclude, rates.no_week),
    _Question("dwell", rates.measure_dwell, rates.conclude_dwell),
    _Question("day_later", recurrence.measure, recurrence.conclude, Evidence.day_unreadable),
    _Question("together", together.measure, together.conclude, together.too_few),
)
_AFTER: Name = "together_after_clock"
_CLOCKED = (  # with independent chains that follow the clock
    _Question(_AFTER, together.measure_after, together.conclude, together.too_little_for_the_clock),
)


@kinds_checked
def diagnose(
    model: FleetModel,
    *,
    simulated: int = 199,
    most_devices: int = 400,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """Tests the model's record.

    Each statistic is computed in the same way on `simulated` fleets of independent chains, fitted to the record, with
    the record's missing entries. Uses regular devices with transitions, at most `most_devices` of them (drawn
    with `seed`). `progress(done, total)` is called as fleets are simulated. With up to seven questions, a verdict
    `holds = False` is corrected (Holm, `judged`), so that 5 % of fleets of true chains have any; `p`
    is uncorrected.
    """
    whole("simulated", simulated, 39)  # fewer cannot reach 5 % on two sides
    whole("most_devices", most_devices, _LEAST_DEVICES)
    slots, which, inflated = model.slots, _chosen(model, most_devices, seed), None
    if reason := too_little(slots.rounds, which.size):
        numbers = (slots.rounds,) if reason == "few rounds" else ()
        answers = tuple(Undecided(question.name, reason, numbers) for question in (*_STEADY, *_CLOCKED))
    else:
        answers, inflated = examine(slots, which, simulated=simulated, seed=seed, progress=progress)
    findings = tuple(words.finding(answer, slots.round_seconds) for answer in answers)
    return Diagnosis(findings, words.theory(model, findings, inflated), (), None, simulated, which.size)


def examine(
    slots: Slots, which: np.ndarray, *, simulated: int, seed: int, progress: Callable[[int, int], None] | None = None
) -> tuple[tuple[Decided | Undecided, ...], np.ndarray | None]:
    """Answers for the devices `which` of a record, and by how much the shared clock raises each one's λ."""
    found = evidence(slots, which)
    daily = None if found.day_unreadable(_AFTER) else clocked(found)
    done, total = 0, simulated if daily is None else 2 * simulated

    def simulated_some(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(done, total)

    answers = _answers(_STEADY, found, steady(found), simulated, np.random.default_rng([seed, 6, 1]), simulated_some)
    random = np.random.default_rng([seed, 6, 2])
    answers += _answers(_CLOCKED, found, daily, simulated, random, simulated_some)
    return judged(answers), None if daily is None else taken_for_memory(found, daily)


def _chosen(model: FleetModel, most: int, seed: int) -> np.ndarray:
    """The devices to test: regular, with at least one arrival and one departure."""
    table = model.devices
    able = (table["kind"] == "regular") & (table["off_on"] > 0) & (table["on_off"] > 0)
    which = np.flatnonzero(able.to_numpy())
    if which.size > most:
        which = np.sort(np.random.default_rng([seed, 6, 0]).choice(which, most, replace=False))
    return which


def too_little(rounds: int, devices: int) -> Reason | None:
    """Why a record cannot answer any question; None if it can answer some."""
    if devices < _LEAST_DEVICES:
        return "one device" if devices else "no device"
    return "few rounds" if rounds < _LEAST_ROUNDS else None


def _answers(
    questions: Sequence[_Question], found: Evidence, chains: Chains | None, simulated: int,
    generator: np.random.Generator, progress: Callable[[int], None],
) -> tuple[Decided | Undecided, ...]:  # fmt: skip
    """Statistics of the record and of simulated fleets (none without chains), and the answers before correction."""
    asked = [question for question in questions if chains and not question.silent(found, question.name)]
    null: list[list[Any]] = [[] for _ in asked]
    for here in chunks(chains, found.clock.rounds, simulated, generator) if chains else ():
        for question, parts in zip(asked, null, strict=True):
            parts.append(question.measure(here, found))
        progress(here.shape[1])
    answers = {}
    for question, parts in zip(asked, null, strict=True):
        whole_null = type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))
        answers[question.name] = question.conclude(
            question.name, question.measure(found.here, found), whole_null, found
        )
    return tuple(question.silent(found, question.name) or answers[question.name] for question in questions)


def judged(answers: Sequence[Decided | Undecided]) -> tuple[Decided | Undecided, ...]:
    """Answers with Holm's correction: any of them is wrong in 5 % of fleets of true chains.

    The smallest of m values of p is compared with 5 % / m, the next with 5 % / (m − 1), until one is larger. `p` stays
    uncorrected; `excused` marks answers with p of at most 5 % that are not significant after correction.
    Reference: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 1979.
    """
    # Holm's rule does not need independent tests; Bonferroni would be less powerful.
    decided = sorted((answer for answer in answers if isinstance(answer, Decided)), key=_finer)
    refuted: set[Name] = set()
    for place, answer in enumerate(decided):
        if _finer(answer) * (len(decided) - place) > LEVEL:
            break
        refuted.add(answer.name)

    def verdict(answer: Decided | Undecided) -> Decided | Undecided:
        if isinstance(answer, Undecided):
            return answer
        holds = answer.name not in refuted
        return answer._replace(holds=holds, excused=len(decided) if holds and answer.p <= LEVEL else 0)

    return tuple(map(verdict, answers))


def _finer(answer: Decided) -> float:
    """p, or 0.001 if the record is outside of the simulated 95 % by more than their width (six standard
    deviations from the mean of a normal): a few hundred simulated fleets cannot resolve such a p."""
    low, high = answer.null
    off = max(low - answer.statistic, answer.statistic - high)
    return min(answer.p, _FAR) if answer.p <= LEVEL and off > high - low > 0 else answer.p
