"""The numbers in the remarks on reproductions, and the statements about them, agree with the stored results."""

import re

import numpy as np
import pytest

from fedtide.reproduce import study


class Stored:
    """The cases of stored results, with means over runs in percent."""

    def __init__(self, results, case=0):
        self.cases = [{m.label: m for m in one.methods} for one in results.cases]
        self.case = results.cases[case]
        self.methods = self.cases[case]

    def end(self, label, class_=None):
        """Final accuracy of a method on the whole test set, or on a class."""
        method = self.methods[label]
        return 100 * np.mean(method.final if class_ is None else method.classes[:, class_])

    def rate(self, label, name="rate"):
        return self.methods[label].tuned.settings[name]


def points(number, digits=1):
    return f"{number:.{digits}f}"


def fig1a(results):
    tuned = ["Unbiased", "AdaFed", "F3AST"]
    both = [Stored(results, case) for case in range(2)]
    others = [(one, label) for one in both for label in [*tuned, "CA-Fed"]]
    local, server = max(one.rate(label) for one, label in others), min(one.rate(a, "server_rate") for one, a in others)
    assert max(one.rate("More available") for one in both) > local
    spread = max(max(ends) - min(ends) for ends in ([one.end(label) for label in tuned] for one in both))
    behind = [min(one.end(label) for label in tuned) - one.end("CA-Fed") for one in both]
    every = [m.tuned for one in both for m in one.methods.values() if m.tuned]
    smallest = sum(tuned.settings["rate"] == 0.001 and "rate" in tuned.edges for tuned in every)
    lost = [one.end(label) - one.end(f"{label}, published rates") for one, label in others]
    more = [one.end("More available") - one.end("More available, published rates") for one in both]
    return [
        f"{local:g}", f"{server:g}", points(spread), *map(points, behind), str(smallest), str(len(every)),
        points(min(lost)), points(more[0]), points(-more[1]),
    ]  # fmt: skip


def fig1b(results):
    one = Stored(results)
    ends = [one.end(label) for label, m in one.methods.items() if m.tuned]
    published = one.end("CA-Fed, published rates") - one.end("AdaFed, published rates")
    rates = [one.methods[f"{label}, published rates"].written["rate"] for label in ("CA-Fed", "AdaFed")]
    assert abs(one.end("CA-Fed") - one.end("AdaFed")) < 0.1
    return [points(max(ends) - min(ends)), points(published), *(f"{rate:g}" for rate in rates), "0.1"]


def fig2(results):
    cases = [Stored(results, case) for case in range(len(results.cases))]
    ends = [one.end("CA-Fed") for one in cases]
    assert ends == sorted(ends)
    last = cases[-1]
    assert np.array_equal(last.methods["CA-Fed"].curve, last.methods["Unbiased"].curve)
    included = last.case.inclusion.methods["CA-Fed"].share
    assert np.min(included) == 1
    values = [f"{results.cases[i].value:g}" for i in (0, -1)]
    return [points(ends[0]), values[0], points(ends[-1]), values[1]]


def fig5a(results):
    cases = [Stored(results, case) for case in range(len(results.cases))]
    lost = []
    for label in ("Unbiased", "AdaFed", "CA-Fed"):
        ends = [one.end(label) for one in cases]
        assert ends == sorted(ends, reverse=True)
        lost.append(ends[0] - ends[-1])
    behind = [one.end("Unbiased") - one.end("CA-Fed") for one in cases]
    values = [f"{results.cases[i].value:g}" for i in (0, -1)]
    return [*values, *map(points, lost), points(min(behind)), points(max(behind)), values[0]]


def readme(results):
    one = Stored(results).methods
    differ = (one["CA-Fed"].curve != one["Unbiased"].curve).any(axis=1).tolist()
    apart = np.abs(one["CA-Fed"].final - one["Unbiased"].final).max()
    return [str(differ.count(False)), str(len(differ)), points(100 * apart, 2)]


def mnist(results):
    one = Stored(results)
    settings = one.methods["Fed-CVaR-Avg, equal rates"].written
    factor = settings["mix"] + (1 - settings["mix"]) / settings["level"]
    equal = one.end("Fed-CVaR-Avg, equal rates", 9) - one.end("FedAvg, equal rates", 9)
    return ["1", points(factor), points(equal), points(one.end("FedAvg", 9) - one.end("Fed-CVaR-Avg", 9))]


def fashion(results):
    one, alphas, gammas = Stored(results), ("1", "0.3", "0.2", "0.1"), ("0", "0.1", "0.2", "0.3")
    cells = {(a, g): f"α = {a}, γ = {g}" for a in alphas for g in (*gammas, "1")}
    fedavg = one.methods[cells["1", "1"]]
    for (a, g), label in cells.items():
        if "1" in (a, g):
            assert all(
                np.array_equal(getattr(one.methods[label], key), getattr(fedavg, key))
                for key in ("curve", "classes", "objective")
            )
        else:
            assert all(one.end(label, k) > one.end(cells["1", "1"], k) for k in (8, 9))
        assert all(one.end("FedAvg, tuned", k) > one.end(label, k) for k in (None, 8, 9))
    for g in gammas:
        boots = [one.end(cells[a, g], 9) for a in alphas]
        assert boots == sorted(boots)
    bags = [one.end(cells["0.1", g], 8) for g in gammas]
    assert bags == sorted(bags)
    lower = [g for g in gammas if one.end(cells["0.1", g], 8) < one.end(cells["0.2", g], 8)]
    assert lower == ["0", "0.1"]
    lowest, *_, highest = sorted(one.end(cells["0.1", g], 9) for g in gammas)
    planned = study.plan("cvar_fashion_table1", "paper").panels[0].config
    was = (one.case.rounds[-1], one.case.local["epochs"], one.case.problem.samples)
    published = (planned.run.rounds, planned.local.epochs, 60_000)
    shorter = np.prod(published) / np.prod(was)
    return [
        "1", "1", "1", points(one.end(cells["1", "1"], 9)), "1", points(lowest), points(highest), "0.1", "0.1",
        points(bags[0]), "0", points(bags[-1]), "0.3", "0.1", "0.1", "0.2", "1", "1", f"{shorter:.0f}",
        *(f"{number:,}" for pair in zip(was, published, strict=True) for number in pair),
    ]  # fmt: skip


def toy(results):
    one = Stored(results)
    learned = {
        label: (one.methods[label].classes[:, 2] > 0.99).tolist() for label in one.methods
    }  # the third class is the rare one
    assert all(all(learned[label]) for label in ("Fed-CVaR-Avg", "Fed-CVaR-Avg, equal rates"))
    assert all(np.min(m.classes) > 0.99 for m in one.cases[1].values())
    pairs = [(sum(learned[label]), len(learned[label])) for label in ("FedAvg, equal rates", "FedAvg")]
    return [str(number) for pair in pairs for number in pair]


def approximation(results):
    for methods in Stored(results).cases:
        ends = {label: np.nanmean(m.final) for label, m in methods.items()}
        assert ends["SA-A"] < min(ends["FedAvg"], ends["FedProx"])
    one = Stored(results)
    rounds, epochs = one.case.rounds[-1], one.case.local["epochs"]
    diverged = one.methods["FedAvg"].diverged
    assert one.case.label == "IID"
    assert not any(any(m.diverged) for methods in one.cases[1:] for m in methods.values())
    assert study.load_study("sa_fig2")[1].tune["seeds"] == 1
    return [
        str(rounds), str(epochs), "1", str(rounds * epochs), str(sum(diverged)), str(len(diverged)),
        f"{one.rate('FedAvg'):g}",
    ]  # fmt: skip


def choice(results):
    cases = [Stored(results, case) for case in range(2)]
    values = [f"{case.value:g}" for case in results.cases]
    gains = {
        rate: [one.end(f"pow-d{rate}") - one.end(f"Random{rate}") for one in cases]
        for rate in (", η = 0.0005", ", η = 0.005", "")
    }
    small, stated, tuned = gains.values()
    assert stated[1] < 0 < stated[0]
    assert tuned[1] < 0 < tuned[0]
    shown = [[points(abs(gain[0])), values[0], points(abs(gain[1])), values[1]] for gain in (small, stated, tuned)]
    return ["2023", "0.0005", *shown[0], "0.005", *shown[1], *shown[2]]


NOTES = {
    "ca_fed_fig1a": fig1a,
    "ca_fed_fig1b": fig1b,
    "ca_fed_fig2": fig2,
    "ca_fed_fig5a": fig5a,
    "ca_fed_readme": readme,
    "cvar_mnist_fig3": mnist,
    "cvar_fashion_table1": fashion,
    "cvar_toy_three": toy,
    "sa_fig2": approximation,
    "slides_power_of_choice": choice,
}


def test_every_note_is_checked(reproduce):
    assert {name for name, remark in reproduce.remarks().items() if remark.note} == set(NOTES)


@pytest.mark.parametrize("name", NOTES)
def test_every_number_of_a_note_is_that_of_the_stored_results(reproduce, name):
    note = re.sub(r"Fig\. \w+", "", reproduce.remarks()[name].note)
    assert re.findall(r"(?<![A-Za-z\d.])\d+(?:,\d{3})*(?:\.\d+)?", note) == NOTES[name](reproduce.stored(name))


def test_a_difference_that_is_not_significant_is_undecided(reproduce):
    (steady,) = [one for one in reproduce.judged("sa_fig2") if "steadier" in one.claim.says]
    assert steady.verdict == "undecided"
