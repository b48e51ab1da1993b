"""The figure of who holds what."""

import numpy as np
import pytest

from fedtide.errors import InvalidInput
from fedtide.report.holdings import holdings, save

COUNTS = np.array([[5, 0, 120], [0, 77, 3]])
NAMES = ("cat", "dog", "automobile")


def texts(figure) -> list[str]:
    inside = [
        t.get_text() for axes in figure.axes for t in (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels())
    ]
    return [*inside, *(t.get_text() for t in figure.texts)]


def test_cells_show_their_numbers_and_none_for_none():
    figure = holdings(COUNTS, NAMES, ["drawn with seed 0"])
    shown = [t.get_text() for t in figure.axes[0].texts]
    assert sorted(shown) == sorted(["5", "120", "77", "3"])
    assert {*NAMES, "drawn with seed 0"} <= set(texts(figure))
    bars = [patch.get_width() for patch in figure.axes[1].patches]
    assert bars == [125, 80]


def test_many_clients_are_thinned_and_told():
    counts = np.random.default_rng([1]).integers(0, 50, (1000, 4))
    figure = holdings(counts, list("abcd"))
    assert len(figure.axes[1].patches) == 300
    assert "Shown: 300 of 1,000 clients, evenly spaced." in texts(figure)
    assert {"0", "500", "950"} <= set(texts(figure))


def test_many_classes_are_numbered():
    figure = holdings(np.ones((3, 100)), [f"class {i}" for i in range(100)])
    assert not any(text.startswith("class") for text in texts(figure))


def test_equal_figures_are_equal_files(tmp_path):
    for name in ("a.svg", "b.svg"):
        save(holdings(COUNTS, NAMES), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_bad_input_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="class_names = '2 names': must be 3: classes"):
        holdings(COUNTS, NAMES[:2])
    with pytest.raises(InvalidInput, match="shape of counts"):
        holdings(COUNTS[0], NAMES)
    with pytest.raises(InvalidInput, match=r"must be a file name ending in \.svg, \.png or \.pdf"):
        save(holdings(COUNTS, NAMES), tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []
