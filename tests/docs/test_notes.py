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


def ahead(case, label, other):
    """The 95 % interval of a method's lead over another, in points."""
    gap = case.gap(case.method(label), case.method(other), "final")
    return 100 * gap.low, 100 * gap.high


def fig1a(results):
    both = [Stored(results, case) for case in range(2)]
    behind = [one.end(other) - one.end("CA-Fed") for one in both for other in ("AdaFed", "Unbiased")]
    available = [one.end("Unbiased") - one.end("More available") for one in both]
    lost = [
        one.end(label.removesuffix(", published rates")) - one.end(label)
        for one in both
        for label in one.methods
        if label.endswith(", published rates")
    ]
    assert len(lost) == 10
    fig2 = study.load_study("ca_fed_fig2")[1]
    (size,) = [claim.size for claim in fig2.claims if claim.against == "More available" and claim.size]
    chosen = [m.tuned for one in both for m in one.methods.values() if m.tuned]
    smallest = min(tuned.settings["rate"] for tuned in chosen)
    edges = ["rate" in tuned.edges for tuned in chosen]
    assert [tuned.settings["rate"] == smallest for tuned in chosen] == edges
    fig1a = study.load_study("ca_fed_fig1a")[1]
    assert fig1a.extensions == 1
    return [
        *map(points, behind), *map(points, available), f"{size}", points(min(lost)), points(max(lost)),
        str(sum(edges)), str(len(edges)), f"{smallest:g}", f"{min(fig1a.tune['space']['rate']):g}",
    ]  # fmt: skip


def fig1b(results):
    one = Stored(results)
    low, high = ahead(one.case, "CA-Fed, published rates", "AdaFed, published rates")
    published = one.end("CA-Fed, published rates") - one.end("AdaFed, published rates")
    rates = [one.methods[f"{label}, published rates"].written["rate"] for label in ("CA-Fed", "AdaFed")]
    (size,) = {claim.size for claim in study.load_study("ca_fed_fig1b")[1].claims if claim.size}
    assert size < low
    assert one.methods["CA-Fed"].tuned.settings == one.methods["AdaFed"].tuned.settings
    assert abs(one.end("CA-Fed") - one.end("AdaFed")) < 0.1
    return [points(published), f"{size}", points(low, 2), points(high, 2), *(f"{rate:g}" for rate in rates), "0.1"]


def fig1c(results):
    one = Stored(results)
    low, high = ahead(one.case, "CA-Fed", "AdaFed")
    behind = one.end("AdaFed") - one.end("CA-Fed")
    both = [one.methods[f"{label}, published rates"].written for label in ("CA-Fed", "AdaFed")]
    ((rate, server),) = {(written["rate"], written["server_rate"]) for written in both}
    published = one.end("AdaFed, published rates") - one.end("CA-Fed, published rates")
    planned = study.plan("ca_fed_fig1c", results.scale).panels[0].config
    (largest,) = {m.tuned.settings["rate"] for m in one.methods.values() if m.tuned}
    assert largest == max(planned.tune.space["rate"])
    assert 5 * one.case.problem.samples == 50_000
    return [
        str(results.draws), points(behind), points(-low), points(high), f"{rate:g}", f"{server:g}", points(published),
        f"{largest:g}",
    ]  # fmt: skip


def fig2(results):
    one = Stored(results)
    labels = {f"{value:g}": f"CA-Fed, κ̄² = {value:g}" for value in (0.01, 0.1, 1, 10, 100)}
    ends = [one.end(label) for label in labels.values()]
    assert ends == sorted(ends)
    last, unbiased = one.methods[labels["100"]], one.methods["Unbiased"]
    same = (last.curve == unbiased.curve).all(axis=1) & (last.final == unbiased.final)
    apart = 100 * np.abs(last.curve - unbiased.curve).max()
    assert apart < 0.1001
    at = one.case.rounds.index(40)
    slower = [
        100 * np.mean(unbiased.curve[:, at] - one.methods[label].curve[:, at])
        for label in (labels["0.1"], labels["0.01"], "More available")
    ]
    return [
        points(ends[0]), "0.01", points(ends[-1]), "100", "100", str(sum(same)), str(len(same)), "0.1", "40",
        points(slower[0]), "0.1", points(slower[1]), "0.01", points(slower[2]),
    ]  # fmt: skip


def fig3(results):
    cases = [Stored(results, case) for case in range(len(results.cases))]
    labels = {value: f"CA-Fed, κ̄² = {value}" for value in ("0.01", "0.1", "1", "10", "100")}
    for one in cases:
        for label in labels.values():
            assert ahead(one.case, label, "Unbiased")[0] <= 0
        assert abs(one.end(labels["100"]) - one.end("Unbiased")) < 0.01
    iid, *others = cases
    below = {v: [one.end("Unbiased") - one.end(labels[v]) for one in others] for v in ("10", "1")}
    lowest, *rest = sorted((iid.end(label), label) for label in iid.methods)
    assert lowest[1] == labels["0.01"]
    assert rest[-1][0] - rest[0][0] < 0.3
    return [
        "100", "0.01", "10", *(points(extreme(below["10"])) for extreme in (min, max)),
        "1", *(points(extreme(below["1"])) for extreme in (min, max)), "0.3", "0.01",
        points(iid.end("Unbiased") - iid.end(labels["0.01"])),
    ]  # fmt: skip


def fig4(results):
    cases = [Stored(results, case) for case in range(len(results.cases))]
    values = [one.case.value for one in cases]
    errors = [
        f"{np.mean(getattr(cases[at].case.estimates, name)):.2g}"
        for name in ("availability", "correlation")
        for at in (0, -1)
    ]
    enough = [one for one in cases if one.case.value >= 100]
    assert all(abs(one.end("CA-Fed") - one.end("Unbiased")) < 0.02 for one in enough)
    leads = []
    for label in ("More available", "F3AST"):
        assert all(ahead(one.case, label, "CA-Fed")[0] > 0 for one in cases)
        lead = [one.end(label) - one.end("CA-Fed") for one in cases]
        leads += [points(min(lead)), points(max(lead))]
    return [f"{values[0]:,.0f}", f"{values[-1]:,.0f}", *errors, "100", "0.02", *leads]


def fig5(results):
    homogeneous, _, within = (Stored(results, case) for case in range(3))
    record = homogeneous.case.inclusion
    rates = 100 * np.nanmean(record.methods["CA-Fed"].share, axis=1)
    included = dict(zip(record.kinds, rates, strict=True))
    nine, eight = included.pop("cluster 9"), included.pop("cluster 8")
    claims = study.load_study("ca_fed_fig5")[1].claims
    (size,) = {claim.size for claim in claims if claim.size}
    assert "optimum" not in homogeneous.methods["CA-Fed"].written  # 0 is the default
    behind = within.end("AdaFed") - within.end("CA-Fed")
    return [
        points(nine, 0), "9", points(eight, 0), "8", f"{np.floor(min(included.values())):.0f}", "9", "6", "0",
        points(behind), f"{size}",
    ]  # fmt: skip


def beyond(results):
    cases = [Stored(results, case) for case in range(len(results.cases))]
    rivals, behind = ("AdaFed", "Unbiased"), []
    for one in cases:
        order = sorted(one.methods, key=one.end, reverse=True)
        assert order[:2] != ["CA-Fed", "AdaFed"]
        assert all(ahead(one.case, "CA-Fed", rival)[0] <= 0 for rival in rivals)
        if all(ahead(one.case, "CA-Fed", rival)[1] < 0 for rival in rivals):
            behind.append(one)
    (level,) = [one for one in cases if one not in behind]
    assert level.case.label == "one model, code's population, 40 rounds"
    assert all(ahead(level.case, "CA-Fed", rival)[1] > 0 for rival in rivals)
    assert ahead(level.case, "F3AST", "CA-Fed")[0] > 0
    lost = [one.end(rival) - one.end("CA-Fed") for one in behind for rival in rivals]
    shared = next(one for one in cases if one.case.label == "one model for all clients")
    apart = [one.end("Unbiased") - one.end("More available") for one in behind if one is not shared]
    return [
        str(len(cases)), str(len(behind)), points(min(lost)), points(max(lost)),
        points(shared.end("Unbiased") - shared.end("More available")), points(min(apart)), points(max(apart)),
        str(level.case.rounds[-1]), points(level.end("F3AST") - level.end("CA-Fed")),
    ]  # fmt: skip


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
    assert study.plan("sa_fmnist", "reduced").panels[0].config.tune.seeds == 1
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


def cyclic(results):
    first, last = Stored(results, 0), Stored(results, 3)
    ends = [(first.end(label), last.end(label)) for label in ("GD", "SGD", "SSGD")]
    assert all(one > ten for one, ten in ends)
    assert [case.value for case in results.cases] == [1, 2, 5, 10]
    (one, ten), *others = [map(points, pair) for pair in ends]
    return [one, "1", ten, "10", *(value for pair in others for value in pair)]


NOTES = {
    "ca_fed_fig1a": fig1a,
    "ca_fed_fig1b": fig1b,
    "ca_fed_fig1c": fig1c,
    "ca_fed_fig2": fig2,
    "ca_fed_fig3": fig3,
    "ca_fed_fig4": fig4,
    "ca_fed_fig5": fig5,
    "ca_fed_readme": readme,
    "cvar_mnist_fig3": mnist,
    "cvar_fashion_table1": fashion,
    "cvar_toy_three": toy,
    "sa_fmnist": approximation,
    "slides_power_of_choice": choice,
    "slides_cyclic": cyclic,
    "beyond_ca_fed": beyond,
}


def test_every_note_is_checked(reproduce):
    assert {name for name, remark in reproduce.remarks().items() if remark.note} == set(NOTES)


@pytest.mark.parametrize("name", NOTES)
def test_every_number_of_a_note_is_that_of_the_stored_results(reproduce, name):
    note = re.sub(r"Fig\. \w+", "", reproduce.remarks()[name].note)
    assert re.findall(r"(?<![A-Za-z\d.])\d+(?:,\d{3})*(?:\.\d+)?", note) == NOTES[name](reproduce.stored(name))
