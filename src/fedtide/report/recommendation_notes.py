"""What goes with a recommendation: how it was made, what is not known, what was allowed."""

from collections.abc import Mapping
from typing import Any

from fedtide.report.words import clean, count, percent


def unknown(about: Mapping[str, Any]) -> list[str]:
    """What the numbers do not tell."""
    fleet, seeds, said = about["fleet"], about["seeds"], []
    days = f"{fleet['days']:.0f} days" if fleet["days"] >= 2 else f"{24 * fleet['days']:.0f} hours"
    said.append(
        f"There is one record, of {days} ({count(fleet['rounds'], 'round')}). The {count(seeds, 'run')} on it start at "
        "different rounds of it and overlap: the intervals tell the noise of training and of the start, not how "
        "another record of this fleet would differ."
    )
    if about["history"] + about["rounds"] > fleet["rounds"]:
        said.append("Runs reach past the end of the record, where it begins again.")
    if fleet["others"]:
        drawn = f"{fleet['used']:,} of the {fleet['used'] + fleet['others']:,} devices that can be learnt from"
        said.append(f"{drawn} were simulated, drawn evenly over how often they are there.")
    if fleet["brief"]:
        said.append(f"{count(len(fleet['brief']), 'device')} observed for less than a day were left out.")
    if fleet["unobserved"] > 0.005:
        share = percent(fleet["unobserved"], 0)
        said.append(f"{share} of the record was not observed; it is drawn from each device's chain, given what was.")
    if about["problem"]["stand_in"]:
        said.append(
            "The task is a stand-in: images of digits, dealt to the devices without regard to how often they come. "
            "If the rarely-there devices hold data that nobody else has, methods differ more: give your own problem."
        )
    if edges := about["edges"]:
        told = "; ".join(f"{clean(method)}: {', '.join(where)}" for method, where in edges.items())
        said.append(
            f"Chosen settings of {count(len(edges), 'method')} lie at the edge of what was tried, and might be better "
            f"beyond it ({told}): give wider lists in [tune.space] of a problem's file."
        )
    said.append(
        f"Settings were chosen for {count(about['rounds'], 'round')}; at shorter horizons and on other fleets every "
        "method might do better with others. Each interval is for its own comparison."
    )
    return said


def how(about: Mapping[str, Any]) -> str:
    """How the comparison was made."""
    seeds, trials = count(about["seeds"], "seed"), count(about["trials"], "trial")
    said = (
        f"Every method got {trials} on fleets generated from the fit, on {count(len(about['tuning_seeds']), 'seed')} "
        f"of their own. The chosen settings then ran under {seeds} on the recorded trace, each from its own round of "
        f"it, and under {seeds} on each kind of generated fleet. Under a seed all methods met the same devices, "
        "minibatches and initial model, so differences are taken seed by seed; intervals are Student's t, 95%. Final "
        "means the mean over the last fifth of the evaluations."
    )
    said += (
        f" A difference within {worth(about)} is taken not to matter. Level with the best is a method whose interval "
        "of the difference includes 0 and lies within that, or leaves out 0 with a mean within that; one whose "
        "interval includes 0 and reaches further cannot be told apart. Of all of those the simplest is recommended."
    )
    if about["history"]:
        said += f" Methods that estimate availability had seen {count(about['history'], 'round')} before the first."
    return said


def limits(about: Mapping[str, Any]) -> list[str]:
    """The constraints in words."""
    held = about["constraints"]
    said = {
        "client_memory": lambda x: f"at most {readable(x)} kept on a device between rounds",
        "server_memory": lambda x: f"at most {readable(x)} kept on the server",
        "extra_messages": lambda x: f"at most {count(x, 'extra message')} a round and client",
        "floor": lambda x: f"at least {percent(x, 0)} accuracy for the tenth of the devices that are served worst",
    }
    return [words(held[name]) for name, words in said.items() if held.get(name) is not None]


def worth(about: Mapping[str, Any]) -> str:
    """The least difference that matters: `half a point`, `2 points`, `0.5% of the objective`."""
    share = round(100 * about["worth"], 6)
    if about["kind"] != "accuracy":
        return f"{share:g}% of the objective"
    return {0.5: "half a point", 1.0: "one point"}.get(share, f"{share:g} points")


def margin(about: Mapping[str, Any], worth: float | None = None) -> float:
    """The same as a number, on the record; or that of another share."""
    part: float = about["worth"] if worth is None else worth
    if about["kind"] == "accuracy":
        return part
    best = next(row for row in about["methods"] if row["method"] == about["verdict"]["best"])
    return part * abs(best["recorded"]["mean"])


def readable(size: float, digits: int = 3) -> str:
    """`2.4 kB`, `20 MB`: powers of 1000."""
    power = 0
    while size >= 999.5 and power < 4:
        size, power = size / 1000, power + 1
    return f"{size:.{digits}g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


def readable_pair(size: float, other: float) -> tuple[str, str]:
    """Two sizes with as many digits as it takes to see which is larger."""
    pairs = ((readable(size, digits), readable(other, digits)) for digits in range(3, 16))
    return next((pair for pair in pairs if pair[0] != pair[1]), (f"{size:,} bytes", f"{other:,} bytes"))
