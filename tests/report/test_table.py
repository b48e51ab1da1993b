from io import StringIO

from rich.console import Console

from fedtide.report import summary
from fedtide.report.table import markdown, rich_table


def printed(table, width=80) -> str:
    out = StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue()


def test_the_table_fits_a_terminal(make):
    text = printed(rich_table(summary(make().rounds)))
    assert max(map(len, text.splitlines())) <= 80
    rows = [line for line in text.splitlines() if line.strip().startswith(("FedAvg", "CA-Fed"))]
    assert len(rows) == 2
    assert "baseline" in rows[0]
    assert rows[1].rstrip().endswith("]")  # the interval of the difference, whole


def test_the_objective_has_no_percent(make):
    text = printed(rich_table(summary(make(accuracy=False).rounds)))
    assert "%" not in text
    assert "decile" not in text


def test_one_method_is_compared_with_nobody(make):
    assert "vs" not in markdown(summary(make(methods=("FedAvg",)).rounds))


def test_markdown(small):
    lines = markdown(summary(small.rounds, baseline="CA-Fed")).splitlines()
    assert len(lines) == 2 + 3
    assert lines[0].endswith("| vs CA-Fed, points |")
    assert lines[-1].startswith("| CA-Fed |")
    assert lines[-1].endswith("| baseline |")
    assert len({line.count("|") for line in lines}) == 1


def test_hostile_labels_stay_text(make):
    hostile = "[bold]a|b[/bold]"
    found = summary(make(methods=(hostile, "x")).rounds)
    assert hostile in printed(rich_table(found), width=120)
    assert "[bold]a\\|b[/bold]" in markdown(found)
