import numpy as np
import polars as pl
import pytest

from fedtide.errors import FedtideError
from fedtide.fleet import Account, Cluster, FleetModel, Habits, Issue, Lengths, Slots, fit, load_model


@pytest.fixture(scope="module")
def model() -> FleetModel:
    state = (np.random.default_rng(0).random((60, 8)) < 0.4).astype(np.int8)
    state[:9, 0] = -1
    account = Account('a "log"\n.csv', "events", 3, 2, (Issue("bad", 1, "left out", ("row 2: ]",)),), ("n",))
    names = tuple(f'd"{k}' for k in range(8))
    found = fit(Slots(state, names, 1800, -600, "Europe/Paris"), account=account)
    member = pl.Series("cluster", [0, 0, 0, -1, -1, -1, -1, -1], pl.Int32)
    cluster = Cluster("cluster 1", (0, 1, 2), 0.5, (0.1, 0.2), 0.7, 2.0)
    profile = found.profile._replace(weekday=np.linspace(-0.3, 0.3, 7), hour=np.linspace(-0.5, 0.5, 24))
    runs = {"stays": Lengths((0.5, 1.0, 4.0), (0.75, 0.25)), "absences": Lengths((0.25, 9.0), (1.0,))}
    habit = pl.Series("habit", np.linspace(-1, 1, 64).reshape(8, 8).tolist(), pl.List(pl.Float64))
    devices, runs = found.devices.with_columns(member, habit), {**runs, "habits": Habits(0.5, 0.125)}
    return found._replace(devices=devices, clusters=(cluster,), profile=profile, **runs)


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "fleet")
    return tmp_path / "fleet"


def test_what_is_saved_comes_back(model, folder):
    for path in (folder, folder / "fleet.toml", str(folder)):
        again = load_model(path)
    assert again.devices.equals(model.devices)
    np.testing.assert_array_equal(again.record, model.record)
    assert again.record.dtype == np.int8
    assert again.clusters == model.clusters
    for name in ("source", "round_seconds", "start", "zone", "account"):
        assert getattr(again, name) == getattr(model, name)
    for mine, other in zip(again.distribution, model.distribution, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)
    for mine, other in zip(again.profile, model.profile, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(again.pair_correlation, model.pair_correlation, rtol=1e-5)
    assert again.pair_correlation_with_clock == pytest.approx(model.pair_correlation_with_clock, rel=1e-5)
    assert (again.stays, again.absences, again.habits) == (model.stays, model.absences, model.habits)
    assert sorted(p.name for p in folder.iterdir()) == ["devices.parquet", "fleet.toml"]


def test_a_clock_without_dates(model, tmp_path):
    bare = model._replace(zone=None, clusters=(), devices=model.devices.with_columns(pl.lit(-1).alias("cluster")))
    bare = bare._replace(profile=bare.profile._replace(weekday=None), stays=None, absences=None, habits=None)
    bare = bare._replace(devices=bare.devices.drop("habit"))
    bare.save(tmp_path)
    again = load_model(tmp_path)
    assert again.zone is None
    assert again.profile.weekday is None
    assert again.clusters == ()
    assert again.stays is None
    assert again.absences is None
    assert again.habits is None


@pytest.mark.parametrize(
    ("line", "other", "message"),
    [
        ("beta = ", "beta = [1.0, -2.0]", r"availability.beta = \[1.0, -2.0\]: must be 2 numbers of 1e-06 or more"),
        ("beta = ", "beta = [1.0]", r"availability.beta = \[1.0\]: must be 2 numbers"),
        ("beta = ", "bta = [1.0, 2.0]", "availability.bta: unknown; did you mean 'beta'"),
        ("never = ", "never = 1.5", r"availability.never = 1.5: must be a number in \[0, 1\]"),
        ("never = ", "", r"availability.never: missing; must be a number in \[0, 1\]"),
        ("hour = ", "hour = [0.1, 0.2]", "profile.hour = .*: must be 24 numbers"),
        ("weekday = ", "weekday = [-1, -1, -1, -1, -1, -1, -1]", "profile.weekday = .* above −1"),
        ("weekday = ", 'weekday = "Monday"', "profile.weekday = 'Monday': must be 7 numbers"),
        ("seconds = ", "seconds = 0.5", "rounds.seconds = 0.5: must be a whole number"),
        ("zone = ", 'zone = "Mars"', "rounds.zone = 'Mars': must be a time zone"),
        ("count = ", "count = 61", "must hold the 8 devices and 61 rounds"),
        ("coupling = ", "coupling = true", r"clusters\[0\].coupling = True"),
        ("hours = [0.5", "hours = [0.5, 0.4, 1.0]", r"stays.hours = .*each more than the one before"),
        ("hours = [0.5", "hours = [0, 1.0, 2.0]", r"stays.hours = .*: must be 2 to 200 hours in \[1e-05, 1e\+06\]"),
        ("share = [0.75", "share = [0.5]", r"stays.share = \[0.5\]: must be shares .*, one between each two hours"),
        ("share = [0.75", "", "stays.share: missing; must be shares"),
        ("sigma = 0.5", "sigma = -0.1", r"habits.sigma = -0.1: must be a number in \[0, 10\]"),
        ("sigma = 0.5", "wide = 0.1", "habits.wide: unknown; known: sigma, sigma_se"),
        ("[[clusters]]", "[clusters]", r"clusters = {.*: must be tables, each headed \[\[clusters\]\]"),
        ("rows = ", 'rows = "many"', "account.rows = 'many': must be a whole number"),
        ("notes = ", 'notes = "none"', "account.notes = 'none': must be a list of texts"),
        ("issues = ", 'issues = "x"', "account.issues = 'x': must be tables"),
        ("format = ", "format = 1", "format = 1: must be 2; an earlier fedtide .*: run fedtide fleet fit again"),
        ("format = ", "format = 3", "format = 3: must be 2, all that is read"),
        ("hours = [0.25", f"hours = {[0.1 * k for k in range(1, 202)]}", "absences.hours = .*: must be 2 to 200 hours"),
        (
            "hours = [0.25",
            "hours = [0.25, 1e300]",
            r"absences.hours = \[0.25, 1e\+300\]: must be 2 to 200 hours in \[1e-05, 1e\+06\]",
        ),
        ("share = [0.75", "share = [0.0, 0.0]", r"stays.share = .*: must be shares .*, not all 0"),
        ("start = ", "start = 99999999999999999", r"rounds.start = 99999999999999999: must be a whole number in"),
        ("hour = ", f"hour = {[0.0] * 23 + [1e6]}", r"profile.hour = .*: must be 24 numbers in \[-1, 23\]"),
        ("seconds = ", "seconds = 3600", "rounds.seconds = 3600: must be 1800"),
        ("[pairs]", "[pears]", "pears: unknown; did you mean 'pairs'"),
        ("source = ", "source = ", "not readable as TOML"),
    ],
)
def test_a_hand_that_slips(folder, line, other, message):
    path = folder / "fleet.toml"
    lines = path.read_text().split("\n")
    lines = [other if text.startswith(line) else text for text in lines]
    path.write_text("\n".join(lines))
    with pytest.raises(FedtideError, match=message) as error:
        load_model(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


def test_files_that_are_not_there_or_damaged(folder, tmp_path):
    with pytest.raises(FedtideError, match=r"fleet.toml: No such file.*fedtide fleet fit"):
        load_model(tmp_path)
    table = pl.read_parquet(folder / "devices.parquet")
    for broken, message in (
        (table.drop("hours"), "the column hours is missing"),
        (table.with_columns(pl.lit("x").alias("availability")), "the column availability is String"),
        (table.head(3), "must hold the 8 devices"),
        (table.with_columns(pl.col("habit").list.head(3)), "the column habit must hold 8 numbers per device"),
        (table.with_columns(habit=pl.lit([np.nan] * 8)), "the column habit is not of numbers from −50 to 50"),
        (table.with_columns(habit=pl.lit([51.0] * 8)), "the column habit is not of numbers from −50 to 50"),
        (table.with_columns(pl.lit(3).alias("cluster")), "clusters that are not in fleet.toml"),
    ):
        broken.write_parquet(folder / "devices.parquet")
        with pytest.raises(FedtideError, match=message):
            load_model(folder)
    (folder / "devices.parquet").write_bytes(b"PAR1 but not quite")
    with pytest.raises(FedtideError, match=r"devices.parquet: not readable"):
        load_model(folder)
    (folder / "devices.parquet").unlink()
    with pytest.raises(FedtideError, match=r"devices.parquet: .*[Nn]o such file"):
        load_model(folder)


def test_a_hand_that_edits(folder):
    path = folder / "fleet.toml"
    lines = ["beta = [5, 5]" if t.startswith("beta = ") else t for t in path.read_text().split("\n")]
    path.write_text("\n".join(lines))
    assert load_model(folder).distribution.beta == (5, 5)


def _without(folder, table: str) -> None:
    path = folder / "fleet.toml"
    before, _, after = path.read_text("utf-8").partition(f"\n[{table}]\n")
    path.write_text(before + "\n" + after[after.index("\n[") :], "utf-8")


def test_without_the_table_of_habits_all_follow_the_same_clock(folder):
    _without(folder, "habits")
    again = load_model(folder)
    assert again.habits is None
    assert "habit" not in again.devices.columns


@pytest.mark.parametrize("table", ["stays", "absences"])
def test_stays_go_with_absences(folder, table):
    _without(folder, table)
    message = f"fleet.toml: {table} = None: must be a table: stays and absences are given together"
    with pytest.raises(FedtideError, match=message):
        load_model(folder)
