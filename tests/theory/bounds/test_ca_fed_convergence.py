import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.theory import Constants, quadratic_constants, theorem2

SIGMA, RADIUS = 0.5, 3.0


class Case:
    """A federation of quadratics with half of its clients rare, and steps that Theorem 2 allows."""

    def __init__(self, quadratics, lam, rounds, local_steps, clients, seed=0):
        self.family = quadratics(clients, 3, seed=seed)
        self.pi = np.where(np.arange(clients) % 2, 0.2, 0.9)
        self.lam = np.full(clients, float(lam))
        alpha = np.full(clients, 1 / clients)
        self.q = alpha / self.pi
        self.p = alpha
        self.local_steps = local_steps
        first = 1 / (2 * np.linalg.eigvalsh(self.family.hessians).max() * (1 + 2 * local_steps * self.q.sum()))
        self.steps = first * np.arange(1, rounds + 1) ** -0.6
        self.biased = self.family.minimise(self.p)
        self.constants = quadratic_constants(
            self.family, RADIUS, self.biased, SIGMA**2, rate=first, local_steps=local_steps
        )

    def bound(self, version="repaired"):
        gap = self.family.values(self.biased).max()
        numbers = (self.q, self.pi, self.lam, self.constants, self.steps, self.local_steps, gap)
        return theorem2(*numbers, version=version)

    def errors(self, simulate, runs=64):
        """F_B(w̄_T) − F_B* of each run."""
        done = simulate(
            self.family, self.q, self.pi, self.lam, self.steps, local_steps=self.local_steps, sigma=SIGMA,
            radius=RADIUS, start=np.array([RADIUS, 0.0, 0.0]), runs=runs,
        )  # fmt: skip
        lowest = self.p @ self.family.values(self.biased)
        return np.array([self.p @ self.family.values(w) for w in done.average(self.steps)]) - lowest


@pytest.mark.parametrize("lam", [0.0, 0.6, 0.9])
@pytest.mark.parametrize(("rounds", "local_steps", "clients"), [(30, 1, 4), (300, 1, 4), (100, 4, 4), (100, 2, 12)])
def test_it_is_above_simulation(quadratics, simulate, lam, rounds, local_steps, clients):
    """Mean plus four standard errors of 64 runs: a correct program fails for fewer than 1 in 10⁴ seeds each."""
    case = Case(quadratics, lam, rounds, local_steps, clients)
    errors = case.errors(simulate)
    upper = errors.mean() + 4 * errors.std(ddof=1) / 8
    assert errors.mean() > 0
    assert upper <= case.bound("repaired").total
    assert upper <= case.bound("with_divisor").total


def test_it_grows_with_correlation_and_repairing_pays(quadratics):
    totals = {
        version: [Case(quadratics, lam, 300, 2, 6).bound(version).total for lam in (0.0, 0.3, 0.6, 0.9, 0.99)]
        for version in ("repaired", "with_divisor")
    }
    for version, found in totals.items():
        assert (np.diff(found) >= 0).all(), version
    assert (np.diff(totals["repaired"]) > 0).all()
    assert (np.array(totals["repaired"]) < 0.5 * np.array(totals["with_divisor"])).all()


def test_it_converges_to_zero(quadratics):
    found = [Case(quadratics, 0.5, rounds, 1, 4).bound().total for rounds in (10**2, 10**3, 10**4, 10**5)]
    assert (np.diff(found) < 0).all()
    assert found[-1] < 0.25 * found[0]


def test_the_printed_one_lacks_the_divisor(quadratics):
    case = Case(quadratics, 0.6, 200, 2, 4)
    printed, divided = case.bound("printed"), case.bound("with_divisor")
    for name in ("start", "noise", "states", "heterogeneity", "local_steps", "burn_in"):
        assert printed[name] == pytest.approx(divided[name] * case.steps.sum())
    more = Case(quadratics, 0.6, 2000, 2, 4).bound("printed")
    assert more.total > printed.total  # it does not even fall with T


def test_without_correlation_only_the_repaired_one_knows(quadratics):
    assert Case(quadratics, 0.0, 200, 2, 4).bound("repaired")["correlation"] == 0
    assert Case(quadratics, 0.0, 200, 2, 4).bound("with_divisor").dominant in ("correlation", "states")


def test_many_clients_make_the_printed_one_useless(quadratics):
    case = Case(quadratics, 0.6, 100, 1, 40)
    assert case.bound("with_divisor").dominant == "states"
    assert case.bound("with_divisor")["states"] > 1e8
    assert case.bound("repaired").total < 1e3


def test_terms_by_hand():
    """Two clients, one round, E = 1: every sum has one term."""
    constants = Constants(1.0, 0.5, np.array([1.0, 2.0]), 3.0, 4.0, 5.0, 6.0)
    q, pi, eta = np.array([0.5, 0.5]), np.array([0.8, 0.4]), 0.1
    found = theorem2(q, pi, [0.5, 0.0], constants, [eta], 1, 0.7)
    mass = 0.6
    assert found["start"] == pytest.approx(36 / 2 / mass / eta)
    assert found["noise"] == pytest.approx(0.5 * (0.8 * 0.25 * 1 + 0.4 * 0.25 * 2) / mass * eta)
    assert found["heterogeneity"] == pytest.approx(2 * (1 + 1) * (0.7 + 5) * eta)
    assert found["local_steps"] == pytest.approx(0.5 * 16 * eta)
    assert found["correlation"] == 0  # the first model depends on nobody's presence


def test_correlation_by_hand():
    """Two rounds: the second forgets (J = 0) or takes the first model (J = 1), whichever costs less."""
    q, pi, lam, eta = np.array([0.5, 0.5]), np.array([0.8, 0.4]), np.array([0.5, 0.1]), 0.1
    for slope, wanted in ((3.0, "forget"), (1e-3, "first model")):
        constants = Constants(1.0, 0.5, np.zeros(2), slope, 4.0, 5.0, 6.0)
        forget = 2 * 5 * (0.5 * 0.16 * 0.5 + 0.5 * 0.24 * 0.1) / 0.6
        first = 2 * slope * 4.0 * 1 * 1 * eta
        found = theorem2(q, pi, lam, constants, [eta, eta], 1, 0.7)["correlation"]
        assert found == pytest.approx({"forget": forget, "first model": first}[wanted] * eta / (2 * eta))
        assert (forget < first) == (wanted == "forget")


def test_the_printed_terms_by_hand():
    """Two clients, two rounds, E = 1: M = 4, C_P = √3 Π 2√2 √(π² + (1−π)²), λ(P) = 0.75."""
    constants = Constants(1.0, 0.5, np.array([1.0, 2.0]), 3.0, 4.0, 5.0, 6.0)
    q, pi, eta, mass = np.array([0.5, 0.5]), np.array([0.8, 0.4]), np.array([0.1, 0.05]), 0.6
    square = 0.1**2 + 0.05**2
    found = theorem2(q, pi, [0.5, 0.0], constants, eta, 1, 0.7, version="with_divisor")
    coefficient = np.sqrt(3) * 8 * np.sqrt((0.64 + 0.04) * (0.16 + 0.36))
    logs = [np.log(2 * coefficient * 5 * t) / np.log(1 / 0.75) for t in (1, 2)]
    assert min(logs) > 2  # so that J_t = t, and the model is the first, with η_0 = η_1
    wanted = {
        "start": 2 * 36 / mass,
        "noise": 2 * (0.8 * 0.25 * 1 + 0.4 * 0.25 * 2) * square / mass,
        "states": 0.25 * 4 * (square + 1 + 1 / 4) / mass,
        "heterogeneity": 4 * 2 * 0.7 * square,
        "local_steps": 2 * 16 * square,
        "burn_in": 0.0,
        "correlation": 2 * 3 * 4 * (1 + 2) * 0.1**2,
    }
    assert found.terms == {name: pytest.approx(term / eta.sum()) for name, term in wanted.items()}
    printed = theorem2(q, pi, [0.5, 0.0], constants, eta, 1, 0.7, version="printed")
    assert printed["correlation"] == pytest.approx(2 * 3 * 4 * sum(logs) * 0.1**2)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"correlation": -0.9}, "correlation = -0.9: must be in"),
        ({"steps": [10.0]}, "at most 1/"),
        ({"steps": [0.01, 0.02]}, "not increasing"),
        ({"correlation": 1.0}, "correlation"),
        ({"version": "perfect"}, "version"),
        ({"local_steps": 0}, "local_steps"),
    ],
)
def test_bad_input(quadratics, change, word):
    case = Case(quadratics, 0.5, 10, 1, 4)
    given = {
        "q": case.q, "availability": case.pi, "correlation": case.lam, "constants": case.constants,
        "steps": case.steps, "local_steps": 1, "biased_gap": 1.0,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match=word):
        theorem2(**(given | change))
