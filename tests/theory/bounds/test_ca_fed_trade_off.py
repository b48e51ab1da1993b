import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide.errors import InvalidInput
from fedtide.theory import QuadraticFamily, bias, theorem1, theorem3


@st.composite
def federations(draw):
    """Random quadratics, a target, a biased importance and a model."""
    clients, d = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    axes = np.linalg.qr(random.normal(size=(clients, d, d)))[0]
    values = draw(st.floats(1.0, 50.0)) ** -random.random((clients, d))
    hessians = np.einsum("kij,kj,klj->kil", axes, values, axes)
    family = QuadraticFamily((hessians + hessians.swapaxes(1, 2)) / 2, random.normal(size=(clients, d)))
    alpha, p = random.dirichlet(np.ones(clients), 2)
    w = family.minimise(p) + draw(st.floats(0, 3)) * random.normal(size=d)
    spectrum = np.linalg.eigvalsh(family.hessians)
    return family, alpha, p, w, spectrum.max() / spectrum.min()


@given(federations())
@settings(deadline=None, max_examples=300)
def test_they_hold(drawn):
    family, alpha, p, w, kappa = drawn
    found = bias(family, alpha, p)
    true = alpha @ (family.values(w) - family.values(family.minimise(alpha)))
    optimisation = max(p @ (family.values(w) - family.values(found.optimum)), 0.0)
    for version in ("proved", "tight"):
        assert true <= theorem1(optimisation, alpha, p, kappa, found.gap, version).total * (1 + 1e-9) + 1e-12
        assert true <= theorem3(optimisation, alpha, p, kappa, found.biased_gap, version).total * (1 + 1e-9) + 1e-12
    tight, proved = (theorem1(optimisation, alpha, p, kappa, found.gap, v).total for v in ("tight", "proved"))
    assert tight <= proved * (1 + 1e-12)


def test_as_printed_they_do_not():
    """One client at −1, one at 1; the biased optimum is at −0.1, the model as far beyond it."""
    family = QuadraticFamily([1.0, 1.0], [[-1.0], [1.0]])
    alpha, p, w = np.array([0.5, 0.5]), np.array([0.55, 0.45]), np.array([-0.2])
    found = bias(family, alpha, p)
    true = alpha @ (family.values(w) - family.values(np.zeros(1)))
    optimisation = p @ (family.values(w) - family.values(found.optimum))
    assert true == pytest.approx(0.02)
    assert theorem1(optimisation, alpha, p, 1.0, found.gap, "printed").total < 0.0152 < true
    assert theorem1(optimisation, alpha, p, 1.0, found.gap, "proved").total > true
    assert theorem3(optimisation, alpha, p, 1.0, found.biased_gap, "printed").total < true


def test_terms_have_names():
    bound = theorem3(0.1, [0.5, 0.5], [1.0, 0.0], 2.0, 0.3)
    assert bound.terms.keys() == {"optimisation", "bias"}
    assert bound["bias"] == pytest.approx(2 * 2 * 4 * 2 * 0.25 * 0.3)
    assert bound.total == pytest.approx(bound["bias"] + 2 * 2 * 0.1)
    assert bound.dominant == "bias"
    assert theorem1(0.1, [0.5, 0.5], [1.0, 0.0], 2.0, 0.3).total == np.inf


def test_bad_input():
    with pytest.raises(InvalidInput, match="version = 'best'"):
        theorem1(0.1, [1.0], [1.0], 2.0, 0.3, "best")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="condition"):
        theorem1(0.1, [1.0], [1.0], 0.5, 0.3)
