"""The table of results: one row for each claim, the newest."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from harness import claims

HEAD = "# Results\n\n" + f"| {' | '.join(claims.COLUMNS)} |\n" + "| --- " * 8 + "|\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "RESULTS.md"
    path.write_text(HEAD, encoding="utf-8")
    return path


def row(seen):
    return seen, "1.3 MB", "yes", "2 cores", "abc", "Monday"


def cells(table):
    return [line.split(" | ")[:3] for line in table.read_text(encoding="utf-8").splitlines()[4:]]


def test_a_claim_that_is_seen_again_takes_the_place_of_its_row(table):
    claims.record(table, "b.py", {"One.": row("1 MB"), "Two.": row("2 MB")}, is_all=True)
    claims.record(table, "a.py", {"One.": row("9 MB")}, is_all=True)
    claims.record(table, "b.py", {"One.": row("1.2 MB")}, is_all=False)
    assert cells(table) == [["| `a.py`", "One.", "9 MB"], ["| `b.py`", "One.", "1.2 MB"], ["| `b.py`", "Two.", "2 MB"]]
    assert table.read_text(encoding="utf-8").startswith("# Results\n\n| script | claim | seen | limit | holds |")


def test_a_claim_that_a_script_makes_no_more_loses_its_row(table):
    claims.record(table, "a.py", {"Old.": row("1 MB")}, is_all=True)
    claims.record(table, "a.py", {"New.": row("2 MB")}, is_all=True)
    assert cells(table) == [["| `a.py`", "New.", "2 MB"]]


@pytest.fixture
def a_run(monkeypatch):
    monkeypatch.setattr(claims, "_HOLDS", {})
    monkeypatch.setattr(claims, "_ROWS", {})
    return claims


def test_a_sentence_is_claimed_once(a_run):
    a_run.claim("Small.", 1, 2, "MB")
    with pytest.raises(ValueError, match=r"claimed twice: Small\."):
        a_run.claim("Small.", 1, 2, "MB")


def test_a_comparison_says_the_ratio_of_the_rounds_and_both_medians(a_run):
    a_run.compare("Fast.", [1.0, 3.0, 2.0], [2.0, 2.0, 2.0], 0.9, peer="peer")
    a_run.compare("Small.", [100.0, 300.0], [1000.0], 0.9, unit="MB")
    assert a_run._ROWS["Fast."] == ("1 times (2 s over 2 s of peer)", "0.9 times", "**no**")
    assert a_run._ROWS["Small."] == ("0.2 times (200 MB over 1,000 MB)", "0.9 times", "yes")


@pytest.mark.parametrize("ends_well", [True, False])
def test_the_parts_that_are_named_are_measured_though_one_fails(a_run, monkeypatch, capsys, ends_well):
    def first():
        raise AssertionError

    def second():
        a_run.claim("Small.", 1, 2 if ends_well else 0, "MB")

    monkeypatch.delenv("RECORD", raising=False)
    for named, code in ((["second"], not ends_well), ([], 1)):
        monkeypatch.setattr(sys, "argv", ["script.py", *named])
        a_run._HOLDS.clear()
        with pytest.raises(SystemExit) as ended:
            a_run.main(first, second)
        assert ended.value.code == code
    assert capsys.readouterr().out.count("holds  Small." if ends_well else "FAILS  Small.") == 2


def test_a_part_that_is_not_there_is_refused(a_run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script.py", "third"])
    with pytest.raises(SystemExit):
        a_run.main(test_a_part_that_is_not_there_is_refused)
    assert "parts are test_a_part_that_is_not_there_is_refused" in capsys.readouterr().err


def test_the_table_has_sentences_of_scripts_that_are_there():
    *_, head, rule, rows = claims.RESULTS.read_text(encoding="utf-8").rpartition("| ---" + " | ---" * 7 + " |\n")
    assert head.endswith(f"| {' | '.join(claims.COLUMNS)} |\n"), rule
    for line in rows.splitlines():
        script, text, _, _, holds, *others = (cell.strip() for cell in line.strip("|").split(" | "))
        assert (claims.RESULTS.parent / script.strip("`")).is_file()
        assert text.endswith(".")
        assert holds in ("yes", "**no**")
        assert len(others) == 3


def test_a_run_is_recorded_with_its_machine_commit_and_day(a_run, table, monkeypatch):
    monkeypatch.setattr(claims, "RESULTS", table)
    monkeypatch.setattr(claims, "busy_seconds", lambda: 0.0)
    monkeypatch.setattr(claims, "commit", lambda: "abc")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "a.py", raising=False)
    monkeypatch.setattr(sys, "argv", ["a.py"])
    monkeypatch.setenv("RECORD", "1")
    with pytest.raises(SystemExit):
        a_run.main(lambda: a_run.claim("Small.", 1, 2, "MB"))
    *_, last = table.read_text(encoding="utf-8").splitlines()
    assert last.startswith("| `a.py` | Small. | 1 MB | 2 MB | yes | ")
    assert f" | {claims.machine()} | abc | 20" in last


def test_a_part_beside_busy_programs_is_not_recorded_and_its_old_row_stays(a_run, table, monkeypatch):
    def quiet():
        a_run.claim("Fast.", 1, 2, "s")

    def disturbed():
        a_run.claim("Small.", 9, 20, "MB")

    claims.record(table, "a.py", {"Small.": row("1 MB"), "Fast.": row("3 s")}, is_all=True)
    busy = iter([0.0, 0.0, 5.0, 900.0])  # before and after each part
    monkeypatch.setattr(claims, "RESULTS", table)
    monkeypatch.setattr(claims, "busy_seconds", lambda: next(busy))
    monkeypatch.setattr(claims, "commit", lambda: "abc")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "a.py", raising=False)
    monkeypatch.setattr(sys, "argv", ["a.py"])
    monkeypatch.setenv("RECORD", "1")
    with pytest.raises(SystemExit, match="not recorded: disturbed"):
        a_run.main(quiet, disturbed)
    assert cells(table) == [["| `a.py`", "Fast.", "1 s"], ["| `a.py`", "Small.", "1 MB"]]
