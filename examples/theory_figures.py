"""Draws the figures of the documentation's page on theory: predictions against simulation.

    python examples/theory_figures.py          # writes docs/pictures/theory-*-{light,dark}.svg

There are ten clients with quadratic objectives; half of them are available in nine rounds out of ten, half in one round
out of five. The simulation is the function `simulate` below, which shares no code with the theory that it checks. It
takes about a minute on two cores.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedtide import theory

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
INK = {"light": "#24292f", "dark": "#d9dee4"}
COLOURS = {
    "light": ("#1373b3", "#c2410c", "#00694a", "#8a1a6c"),
    "dark": ("#4ea2e8", "#fb923c", "#6ee7b7", "#d08ab8"),
}
CLIENTS, D = 10, 4
ALPHA = np.full(CLIENTS, 1 / CLIENTS)
RARE = np.arange(CLIENTS) >= CLIENTS // 2
PI = np.where(RARE, 0.2, 0.9)


def federation(seed: int = 7) -> theory.QuadraticFamily:
    """Quadratics in which the optima of rarely available clients differ from those of the others."""
    random = np.random.default_rng(seed)
    axes = np.linalg.qr(random.normal(size=(CLIENTS, D, D)))[0]
    hessians = np.einsum("kij,kj,klj->kil", axes, 4 ** -random.random((CLIENTS, D)), axes)
    centres = random.normal(size=(CLIENTS, D)) + np.where(RARE, 0.6, -0.6)[:, None]
    return theory.QuadraticFamily((hessians + hessians.swapaxes(1, 2)) / 2, centres)


def simulate(family: theory.QuadraticFamily, q: Any, lam: Any, steps: Any, runs: int, radius: float = np.inf) -> Any:
    """Models [rounds + 1, runs, d] of w ← w − η Σ_{k∈A} q_k ∇F_k(w) under two-state availability."""
    random = np.random.default_rng(0)
    w, available = np.full((runs, D), 1.5), random.random((runs, CLIENTS)) < PI
    models = [w]
    for eta in steps:
        gradients = np.einsum("kij,rkj->rki", family.hessians, w[:, None] - family.centres)
        w = w - eta * np.einsum("rk,rki->ri", available * q, gradients)
        w = w * np.minimum(1, radius / np.linalg.norm(w, axis=1, keepdims=True))
        models.append(w)
        available = random.random((runs, CLIENTS)) < (1 - lam) * PI + lam * available
    return np.array(models)


def excess(family: theory.QuadraticFamily, models: Any, p: Any = ALPHA) -> Any:
    """Σ p_k F_k(w) minus its minimum, for models […, d]."""
    best = family.minimise(p)
    offset = models - best
    return 0.5 * np.einsum("...i,ij,...j->...", offset, family.hessian(best, p), offset)


def correlation(family: theory.QuadraticFamily) -> Callable[[Axes, tuple[str, ...], str], None]:
    """The cost of correlation: the stationary variance around the optimum, predicted and measured."""
    step, q = 0.02, ALPHA / PI
    lams = np.array([-0.1, 0.0, 0.2, 0.4, 0.6, 0.8, 0.9])  # at π = 0.9, λ is at least −1/9
    dense = np.linspace(-0.1, 0.92, 60)
    predicted = [theory.stationary_variance(family, ALPHA, q, PI, np.full(CLIENTS, x), step).excess for x in dense]
    measured = [excess(family, simulate(family, q, x, np.full(700, step), 400)[400::20]).mean(1) for x in lams]

    def draw(axes: Axes, colours: tuple[str, ...], ink: str) -> None:
        axes.plot(dense, predicted, color=colours[0], lw=2, label="predicted")
        independent = np.interp(0, dense, predicted)
        axes.plot(dense, independent * (1 + dense) / (1 - dense), color=ink, lw=1, ls=":", label="∝ (1+λ)/(1−λ)")
        axes.plot(lams, [m.mean() for m in measured], "o", color=colours[1], ms=6, label="simulated")
        axes.set(yscale="log", xlabel="correlation λ of every client", ylabel="error of the Unbiased method")
        axes.set_yticks([0.002, 0.005, 0.01, 0.02, 0.05], ["0.002", "0.005", "0.01", "0.02", "0.05"])
        axes.minorticks_off()
        axes.legend(frameon=False, labelcolor=ink)

    print("correlation:", [f"{x:g}: {m.mean():.2g}" for x, m in zip(lams, measured, strict=True)])
    return draw


def trade_off(family: theory.QuadraticFamily) -> Callable[[Axes, tuple[str, ...], str], None]:
    """Convergence against bias: predicted errors, and the mean over simulated runs."""
    step, rounds, lam = 0.06, 400, np.where(RARE, 0.9, 0.0)
    weights = {
        "all clients, α/π (Unbiased)": ALPHA / PI,
        "all clients, α (FedAvg)": ALPHA,
        "without two rare clients": np.where(np.arange(CLIENTS) < 8, ALPHA / PI, 0),
    }
    paths = {
        n: theory.predicted_path(family, ALPHA, q, PI, lam, np.full(D, 1.5), step, rounds) for n, q in weights.items()
    }
    means = {
        n: excess(family, simulate(family, q, lam, np.full(rounds, step), 1000)).mean(1) for n, q in weights.items()
    }

    def draw(axes: Axes, colours: tuple[str, ...], ink: str) -> None:
        for colour, (name, path) in zip(colours, paths.items(), strict=False):
            axes.plot(path.rounds, path.error, color=colour, lw=2, label=name)
            axes.plot(path.rounds[::25], means[name][::25], "o", color=colour, ms=3.5)
            if path.bias > 1e-9:
                axes.axhline(path.bias, color=colour, lw=1, ls=":")
        axes.set(yscale="log", xlabel="round", ylabel="error F − F*", xlim=(0, rounds))
        axes.legend(frameon=False, labelcolor=ink)

    print("trade-off:", {n: f"predicted {p.error[-1]:.3g}, simulated {means[n][-1]:.3g}" for n, p in paths.items()})
    return draw


def bounds(family: theory.QuadraticFamily) -> Callable[[Axes, tuple[str, ...], str], None]:
    """The bound of Theorem 2, as proved and repaired, and the simulated error."""
    rounds, radius, q = 500, 4.0, ALPHA / PI
    spectrum = np.linalg.eigvalsh(family.hessians)
    steps = np.arange(1, rounds + 1) ** -0.6 / (2 * spectrum.max() * (1 + 2 * q.sum()))
    best = family.minimise(ALPHA)
    constants = theory.quadratic_constants(family, radius, best)
    gap, lams = float(family.values(best).max()), np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95])
    lines: dict[str, list[float]] = {"with_divisor": [], "repaired": [], "simulated": []}
    for lam in lams:
        for version in ("with_divisor", "repaired"):
            numbers = (q, PI, np.full(CLIENTS, lam), constants, steps, 1, gap)
            lines[version].append(theory.theorem2(*numbers, version=version).total)
        models = simulate(family, q, lam, steps, 200, radius)
        average = np.einsum("t,tri->ri", steps, models[:-1]) / steps.sum()
        lines["simulated"].append(float(excess(family, average).mean()))
    names = {"with_divisor": "Theorem 2, as proved", "repaired": "Theorem 2, repaired", "simulated": "simulated"}

    def draw(axes: Axes, colours: tuple[str, ...], ink: str) -> None:
        for colour, (name, values) in zip((colours[1], colours[0], colours[2]), lines.items(), strict=True):
            axes.plot(lams, values, "o-", color=colour, lw=2, ms=4, label=names[name])
        axes.set(yscale="log", xlabel="correlation λ of every client", ylabel="error of the averaged model")
        axes.legend(frameon=False, labelcolor=ink, loc="center left", bbox_to_anchor=(0, 0.42))

    print("bounds:", {name: [f"{v:.2g}" for v in values] for name, values in lines.items()})
    return draw


def guideline() -> Callable[[Axes, tuple[str, ...], str], None]:
    """Fastest weights: often available clients are favoured only if θ > 0."""
    pi = np.array([0.9, 0.7, 0.5, 0.3, 0.1])
    by_bound = {B: theory.fastest_weights(6 * pi, B, pi) for B in (0.05, 0.15, 1.0)}

    def draw(axes: Axes, colours: tuple[str, ...], ink: str) -> None:
        for colour, (B, weights) in zip((colours[1], colours[3], colours[0]), by_bound.items(), strict=True):
            sign = "<" if weights.theta < 0 else ">"
            axes.plot(pi, weights.q, "o-", color=colour, lw=2, ms=5, label=f"B = {B:g}: θ {sign} 0")
        axes.axhline(0.2, color=ink, lw=1, ls=":")
        axes.set(xlabel="availability π of the client", ylabel="fastest weight q", ylim=(-0.02, 0.45))
        axes.legend(frameon=False, labelcolor=ink, loc="upper center")

    return draw


def save(name: str, draw: Callable[[Axes, tuple[str, ...], str], None]) -> None:
    for theme, ink in INK.items():
        figure = Figure(figsize=(5.2, 3.4), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        draw(axes, COLOURS[theme], ink)
        axes.patch.set_alpha(0)
        axes.tick_params(which="both", colors=ink)
        axes.spines[:].set_color(ink)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.label.set_color(ink)
        axes.yaxis.label.set_color(ink)
        metadata: dict[str, Any] = {"Date": None, "Creator": None}
        figure.savefig(PICTURES / f"theory-{name}-{theme}.svg", metadata=metadata)


def main() -> None:
    matplotlib.rcParams.update({"svg.hashsalt": "fedtide", "font.size": 10})
    PICTURES.mkdir(parents=True, exist_ok=True)
    family = federation()
    save("correlation", correlation(family))
    save("trade-off", trade_off(family))
    save("bounds", bounds(family))
    save("guideline", guideline())


if __name__ == "__main__":
    main()
