import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtide.report import classes, curves, maps, svg
from fedtide.report.clients import fleet
from fedtide.report.picture import COLUMNS, EXCLUDED, INCLUDED, ROWS, Picture
from fedtide.summaries import labels

PNG = "data:image/png;base64,"


def pictures(fake) -> dict[str, Picture | None]:
    order, methods = fleet(fake.clients, fake.about), labels(fake.rounds)
    return {
        "learning": curves.learning(fake.rounds, methods[0]),
        "objective": curves.objective(fake.rounds),
        "available": maps.available(fake.clients, order),
        "included": maps.included(fake.clients, order, methods),
        "importance": classes.importance(fake.clients, order, methods),
        "by_class": classes.by_class(classes.class_accuracy(fake.clients, order), order, methods),
    }


@pytest.fixture(scope="module")
def drawn(small):
    return pictures(small)


def test_every_drawing_is_well_formed_and_named(drawn):
    for picture in drawn.values():
        for drawing in (picture.wide, picture.narrow):
            root = ET.fromstring(drawing)
            assert root.attrib["role"] == "img"
            assert root.attrib["aria-label"] == picture.alt
            assert "width" not in root.attrib  # the page decides


def test_colours_follow_the_page(drawn):
    for picture in drawn.values():
        for drawing in (picture.wide, picture.narrow):
            assert "currentColor" in drawing
            text = re.sub(r"var\(--c\d, #[0-9a-f]{6}\)", "", drawing)
            fixed = set(
                re.findall(r"#[0-9a-f]{6}\b", re.sub(r'base64,[^"]*|url\(#[^)]*\)|(?:href|id)="[^"]*"', "", text))
            )
            assert fixed <= {INCLUDED, EXCLUDED}


def test_ids_do_not_clash(drawn):
    ids = [i for p in drawn.values() for d in (p.wide, p.narrow) for i in re.findall(r' id="([^"]+)"', d)]
    assert len(ids) == len(set(ids)) > 0
    for picture in drawn.values():
        for drawing in (picture.wide, picture.narrow):
            used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', drawing))
            assert used <= set(re.findall(r' id="([^"]+)"', drawing))


def test_equal_records_give_equal_drawings(small, drawn):
    assert curves.learning(small.rounds, "FedAvg") == drawn["learning"]


def test_pixels_are_embedded(drawn):
    assert drawn["available"].wide.count(PNG) == 1
    assert drawn["included"].wide.count(PNG) == 3
    assert "pixelated" in drawn["available"].wide


def test_hostile_labels_are_text(make):
    hostile = ("<script>alert(1)</script>", "$\\frac{", "a&b\"'", "_hidden", "\x00\x07tab\t", "名前")
    for picture in pictures(make(methods=hostile)).values():
        assert picture is not None
        for drawing in (picture.wide, picture.narrow):
            ET.fromstring(drawing)
            assert "<script" not in drawing
    learning = curves.learning(make(methods=hostile).rounds, hostile[0])
    assert {"$\\frac{", "a&b\"'", "_hidden", "tab", "名前"} <= _texts(learning.narrow)


def test_the_axis_is_logarithmic_over_decades(make):
    fake = make(methods=("a", "b"), accuracy=False)
    power = {t: 10.0 ** (-0.3 * t) for t in range(21)}
    steep = pl.col("round").replace_strict(power, return_dtype=pl.Float64)
    steep = pl.when(pl.col("objective").is_not_null()).then(steep).alias("objective")
    assert {"1", "0.01", "0.0001", "1e-06"} <= _texts(curves.learning(fake.rounds.with_columns(steep), "a").wide)
    assert {"1", "2", "3"} <= _texts(curves.learning(fake.rounds, "a").wide)


def _texts(drawing: str) -> set[str]:
    return {"".join(t.itertext()).strip() for t in ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")}


def test_many_clients_and_rounds_are_thinned_and_said(make):
    clients = pl.DataFrame(
        {
            "round": np.repeat(np.arange(1, 1001), 2),
            "client": np.tile([0, 1], 1000),
            "active": np.tile([True, False], 1000),
        }
    )
    many = fleet(pl.DataFrame({"client": range(5000), "active": [True] * 5000}), {})
    shown = maps.grid(clients, many)
    assert len(shown.rows) <= ROWS
    assert len(shown.rounds) <= COLUMNS
    assert (shown.rounds[0], shown.rounds[-1], shown.rows[0], shown.rows[-1]) == (1, 1000, 0, 4999)
    assert "300 of 5,000 clients and 800 of 1,000 rounds" in shown.note


def test_the_matrix_is_the_table(small):
    order = fleet(small.clients, small.about)
    one = small.clients.filter(method="F3AST", seed=1)
    shown = maps.grid(one, order)
    here = maps.matrix(one.sample(fraction=1, shuffle=True, seed=0), order, shown, "active")
    wide = one.pivot("round", index="client", values="active").drop("client").to_numpy()
    assert (here == wide[order.client]).all()
    assert shown.note == ""


def test_clients_are_ordered_by_class_then_by_presence(small):
    order = fleet(small.clients, small.about)
    assert (np.diff(order.kind) >= 0).all()
    assert order.names[0].startswith("π = 0.9")
    assert order.names[-1].startswith("π = 0.1")
    here = dict(small.clients.group_by("client").agg(pl.col("active").mean()).iter_rows())
    for _, members in itertools.groupby(zip(order.kind, order.client, strict=True), key=lambda pair: pair[0]):
        rates = [here[client] for _, client in members]
        assert rates == sorted(rates, reverse=True)


def test_many_classes_become_few():
    clients = pl.DataFrame({"client": range(40), "active": [True] * 40})
    names = [f"class {k % 20}" for k in range(40)]
    order = fleet(clients, {"availability": {"classes": names}, "importance": [1 / 40] * 40})
    assert len(order.names) == 8
    assert "other" in order.names
    assert order.target.sum() == pytest.approx(1)


def test_unnamed_clients_are_one_class():
    order = fleet(pl.DataFrame({"client": [3, 5], "active": [False, True]}), {})
    assert (order.names, order.client.tolist(), order.target.tolist()) == (["all clients"], [5, 3], [1.0])


def test_cumulative_importance_by_hand():
    rows = [(1, 0, 3.0), (1, 1, 1.0), (2, 0, 1.0), (2, 1, 3.0), (3, 0, 0.0), (3, 1, 8.0)]
    clients = pl.DataFrame(rows, schema=["round", "client", "weight"], orient="row").with_columns(
        pl.lit("m").alias("method"), pl.lit(0).alias("seed"), pl.lit(True).alias("active")
    )
    about = {"availability": {"classes": ["a", "b"]}, "importance": [0.5, 0.5]}
    found = classes.shares(clients, fleet(clients, about))["m"]
    assert found.share[:, 0] == pytest.approx([3 / 4, 4 / 8, 4 / 16])
    assert found.misplaced(np.array([0.5, 0.5])) == pytest.approx(0.25)


def test_no_weight_no_figure(small):
    nothing = small.clients.with_columns(pl.lit(0.0).alias("weight"))
    assert classes.importance(nothing, fleet(nothing, small.about), labels(small.rounds)) is None


def test_accuracy_by_class_by_hand():
    rows = [("m", 0, t, k, 0.1 * t + 0.2 * k) for t in (1, 2) for k in range(3)]
    clients = pl.DataFrame(rows, schema=["method", "seed", "round", "client", "test_accuracy"], orient="row")
    order = fleet(clients.with_columns(active=True), {"availability": {"classes": ["a", "b", "b"]}})
    found = dict(classes.class_accuracy(clients, order).select("kind", "accuracy").iter_rows())
    assert found == pytest.approx({0: 0.2, 1: 0.2 + 0.2 * 1.5})


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_names_at_the_lines_do_not_overlap(wanted):
    places = curves._spread(np.array(wanted), 0.05)
    assert np.diff(np.sort(places)) == pytest.approx(np.maximum(np.diff(np.sort(places)), 0.05))
    assert places.min() >= -1e-9
    assert places.max() <= 1 + 1e-9
    assert (np.argsort(places, kind="stable") == np.argsort(wanted, kind="stable")).all()


# Machado, Oliveira & Fernandes (2009), severity 1.
VISION = {
    "full": np.eye(3),
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def _linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(np.array(to_xyz) @ np.clip(linear, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize(("palette", "paper"), [(svg.LIGHT, "light"), (svg.DARK, "dark")])
def test_the_palette_can_be_seen_and_told_apart(palette, paper):
    luminance = lambda c: _linear(c) @ [0.2126, 0.7152, 0.0722] + 0.05  # noqa: E731
    for c in palette:
        pair = sorted((luminance(c), luminance(svg.PAPER[paper])))
        assert pair[1] / pair[0] >= 3  # WCAG 1.4.11
    for matrix in VISION.values():
        seen = [_lab(np.array(matrix) @ _linear(c)) for c in palette]
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) >= 10
