"""Draws the README's two pictures: a federation in which availability matters, and one in which it does not.

Both have the same 40 clients, the same handwritten digits and the same availability: half of the clients are available
in nine rounds out of ten, half in one out of ten. On the left, only the rarely available half holds the digits 5 to 9;
on the right, every client holds all digits. The curves show the accuracy on the rarely available clients' test images.

    python examples/readme_pictures.py          # writes docs/pictures/{matters,does-not-matter}-{light,dark}.svg

It takes one or two minutes on two cores and prints the final accuracies.
"""

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.colors
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import fedtide
from fedtide.availability import Markov
from fedtide.methods import ca_fed, fedavg, unbiased
from fedtide.problems import Classification, classification, softmax_regression

CLIENTS, ROUNDS, SEEDS = 40, 300, 5
RARE = np.arange(CLIENTS) >= CLIENTS // 2
AVAILABILITY = Markov(availability=np.where(RARE, 0.1, 0.9), correlation=0.5)
PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"

INK = {"light": "#24292f", "dark": "#d9dee4"}
COLOURS = {  # of the methods, and of the digits 0–4, 5–9 and all
    "light": {"FedAvg": "#c2410c", "Unbiased": "#1373b3", "CA-Fed": "#00694a", "01": "#8a94a0", "1": "#c026a3"},
    "dark": {"FedAvg": "#fb923c", "Unbiased": "#4ea2e8", "CA-Fed": "#6ee7b7", "01": "#8a94a0", "1": "#e879d0"},
}
LINES = {"FedAvg": "-", "Unbiased": "-", "CA-Fed": (0, (4, 1.5))}


def federation(aligned: bool) -> Classification:
    """Handwritten digits, split by digit (5 to 9 to the rarely available half) or at random."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    random = np.random.default_rng([0])
    order = random.permutation(len(labels))
    if aligned:
        order = order[np.argsort(labels[order] >= 5, kind="stable")]
    train, test = [], []
    for mine in np.array_split(order, CLIENTS):
        mine = random.permutation(mine)
        cut = len(mine) * 4 // 5
        train.append((images[mine[:cut]], labels[mine[:cut]]))
        test.append((images[mine[cut:]], labels[mine[cut:]]))
    return classification(softmax_regression(64, 10), train, test)


def accuracies(problem: Classification) -> pl.DataFrame:
    """Accuracy on the rarely available clients, by method, seed and round."""
    result = fedtide.simulate(problem, AVAILABILITY, [fedavg(), unbiased(), ca_fed()], rounds=ROUNDS, seeds=SEEDS)
    rare = result.clients.filter(pl.col("test_accuracy").is_not_null() & (pl.col("client") >= CLIENTS // 2))
    return rare.group_by("method", "seed", "round", maintain_order=True).agg(pl.col("test_accuracy").mean())


def limit(problem: Classification) -> float:
    """Accuracy on the rarely available clients at FedAvg's limit: the optimum of Σ p_k F_k with p ∝ π."""
    biased = problem.optimum(np.asarray(AVAILABILITY.availability))
    return float(np.asarray(problem.evaluate(biased).test_accuracy)[RARE].mean())


def picture(table: pl.DataFrame, aligned: bool, theme: str) -> Figure:
    """Above, which clients are available and with which digits; below, the accuracy of the methods."""
    ink, colours = INK[theme], COLOURS[theme]
    figure = Figure(figsize=(5.2, 4.5), layout="constrained")
    figure.patch.set_alpha(0)
    title = "Availability matters" if aligned else "Availability does not matter"
    subtitle = "the rarely available clients hold the digits 5–9" if aligned else "every client holds all digits"
    figure.suptitle(f"$\\bf{{{title.replace(' ', '~')}}}$\n{subtitle}", color=ink, fontsize=12)
    presence, accuracy = figure.subplots(2, 1, height_ratios=(1, 2.3))

    trace = AVAILABILITY.sample(seed=0, rounds=ROUNDS).T
    kind = np.where(RARE & aligned, 2, 1)[:, None]
    levels = matplotlib.colors.ListedColormap(["none", colours["01"], colours["1"]])
    image = np.where(trace, kind, 0)
    presence.imshow(
        image, cmap=levels, vmin=0, vmax=2, aspect="auto", interpolation="none", extent=(0, ROUNDS, CLIENTS, 0)
    )
    presence.set_yticks([CLIENTS * 0.25, CLIENTS * 0.75], ["often", "rarely"])
    presence.set_title("available clients" + (", with digits 0–4 (grey), 5–9 (pink)" if aligned else ""), fontsize=10)
    presence.tick_params(bottom=False, labelbottom=False, left=False)

    for method, mine in table.group_by("method", maintain_order=True):
        name = str(method[0])
        over = mine.group_by("round", maintain_order=True).agg(
            pl.col("test_accuracy").mean().alias("mean"),
            pl.col("test_accuracy").min().alias("low"),
            pl.col("test_accuracy").max().alias("high"),
        )
        x = over["round"].to_numpy()
        accuracy.fill_between(x, over["low"].to_numpy(), over["high"].to_numpy(), color=colours[name], alpha=0.18, lw=0)
        accuracy.plot(x, over["mean"].to_numpy(), color=colours[name], lw=2, ls=LINES[name], label=name)
    accuracy.set(xlim=(0, ROUNDS), ylim=(0, 1), xlabel="round")
    accuracy.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    accuracy.set_title("accuracy on the rarely available clients", fontsize=10)
    accuracy.legend(loc="center right", bbox_to_anchor=(1, 0.6), frameon=False, labelcolor=ink)
    for axes in (presence, accuracy):
        axes.patch.set_alpha(0)
        axes.title.set_color(ink)
        axes.title.set_horizontalalignment("center")
        axes.xaxis.label.set_color(ink)
        axes.tick_params(colors=ink)
        axes.spines[:].set_color(ink)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    matplotlib.rcParams.update({"svg.hashsalt": "fedtide", "font.size": 10, "mathtext.default": "regular"})
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, aligned in (("matters", True), ("does-not-matter", False)):
        problem = federation(aligned)
        table = accuracies(problem)
        for theme in ("light", "dark"):
            metadata: dict[str, Any] = {"Date": None, "Creator": None}
            picture(table, aligned, theme).savefig(PICTURES / f"{name}-{theme}.svg", metadata=metadata)
        last = table.filter(pl.col("round") == ROUNDS).group_by("method", maintain_order=True).mean()
        final = ", ".join(f"{m} {a:.0%}" for m, a in last.select("method", "test_accuracy").iter_rows())
        print(f"{name}: rarely available clients after {ROUNDS} rounds: {final}; FedAvg's limit {limit(problem):.0%}")


if __name__ == "__main__":
    main()
