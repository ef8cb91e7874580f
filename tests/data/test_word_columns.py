"""Tables of lists: columns give what the lines say, or an error that names the first line at fault."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.data import list_lines, read_ground_truth, read_retrieved
from reid_torchmetrics.data.text_files import parse_floats

FORMS = {"run": read_retrieved, "rank": read_retrieved, "qrels": read_ground_truth, "grades": read_ground_truth}
LINES = {
    "run": "{query} Q0 {item} 1 {number} x",
    "rank": "{query} {item} {number}",
    "qrels": "{query} 0 {item} {number}",
    "grades": "{query} {item} {number}",
}
NAMES = ["q1", "q2", "7", "\u00e9t\u00e9", "\u65e5\u672c", "a" * 50]
SCORES = [
    "1.50",
    "0.25",
    "-3.75",
    "-0.00",
    "12",
    ".5",
    "5.",
    "1e3",
    "+2.0",
    "0.1234567890123456789",
    "99999999999999999.5",
]
INTEGERS = ["1", "2", "0", "007", "123456789012345678"]
FAULTS = [
    "{query} Q0 {item} 1 1e999 x",
    "q1",
    "a b c d e f g",
    "{query} Q0 {item} 1 nan x",
    "{query} Q0 {item} 1 1_0 x",
    "{query} Q0 {item} 1 -inf x",
    "{query} Q1 {item} 1 0.5 x",
    "{query} {item} 1_0",
    "{query} {item} 1234567890123456789",
    "{query} {item} x",
    "{query} 0 {item} 1.5",
    "{query} 1 {item} 1",
    "{query} 0 {item} +-1",
    "a\0 Q0 b 1 0.5 x",
    "a \0 b 1 0.5 x",
]
BREAKS = ["\n", "\r\n", "\n\n", "\n \t\n", "\r"]


@st.composite
def texts(draw):
    """Lines of a form, with faults, blank lines, and all kinds of white space; about half are without a fault."""
    form = draw(st.sampled_from([*FORMS]))
    numbers = SCORES if form == "run" else INTEGERS
    if draw(st.booleans()):
        numbers = [f"{number:.3f}" for number in (0.5, 12.25, 0, 100)] if form == "run" else INTEGERS[:2]
    line_break = draw(st.sampled_from(BREAKS))
    blank = draw(st.sampled_from([" ", "\t", "  ", " \u00a0", "\x1f"]))
    lines = []
    table = {}
    has_fault = draw(st.booleans())
    for place in range(draw(st.integers(1, 12))):
        query, number = draw(st.sampled_from(NAMES)), draw(st.sampled_from(numbers))
        lines.append(LINES[form].format(query=query, item=f"d{place}", number=number).replace(" ", blank))
        table.setdefault(query, {})[f"d{place}"] = float(number) if form == "run" else int(number)
    if has_fault:
        fault = draw(st.sampled_from([*FAULTS, lines[0]])).format(query="q1", item="d")
        lines.insert(draw(st.integers(0, len(lines))), fault)
    if draw(st.sampled_from([False, False, True])):
        lines.insert(0, "query-id corpus-id score")
    start = draw(st.sampled_from(["", "", "\ufeff", "\n", " "]))
    end = draw(st.sampled_from(["", line_break, line_break * 2]))
    return form, start + line_break.join(lines) + end, table, has_fault


@given(texts())
def test_columns_hold_what_the_lines_say(tmp_path_factory, problem):
    form, text, table, has_fault = problem
    path = tmp_path_factory.getbasetemp() / "lists.txt"
    path.write_text(text, encoding="utf-8", newline="")
    if form == "rank":
        has_fault |= any(len(set(ranks.values())) < len(ranks) for ranks in table.values())
        table = {query: sorted(ranks, key=ranks.get) for query, ranks in table.items()}
    if has_fault:
        with suppress(ValueError):  # some faults of one form are lines of another
            FORMS[form](path, form=form)
    else:
        assert repr(FORMS[form](path, form=form)) == repr(table)


@pytest.mark.parametrize("fault_at", [0, 4_000, 9_999])
def test_the_line_of_a_fault_is_named_in_a_long_file(tmp_path, fault_at):
    lines = [f"q{place // 100} Q0 d{place} 1 {place / 8:.4f} x" for place in range(10_000)]
    path = tmp_path / "a.run"
    path.write_text("\n".join(lines), encoding="utf-8")
    run = read_retrieved(path)
    assert sum(map(len, run.values())) == 10_000
    assert run["q99"]["d9999"] == 9_999 / 8
    lines[fault_at] = lines[fault_at].replace(" x", "")
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=f"{path}:{fault_at + 1}: "):
        read_retrieved(path, form="run")


def test_a_long_table_needs_no_look_at_its_lines(tmp_path, monkeypatch):
    path = tmp_path / "a.run"
    path.write_text(
        "\ufeff" + "q Q0 d1 1 -0.50 x\r\n\r\nq\tQ0\td2 2  -1e-3 x\r\nr Q0 d1 1 7 x", encoding="utf-8", newline=""
    )
    monkeypatch.delattr(list_lines, "split_lines")
    assert read_retrieved(path) == {"q": {"d1": -0.5, "d2": -0.001}, "r": {"d1": 7.0}}


@pytest.mark.parametrize(
    "word", ["nan", "-inf", "Infinity", "1..5", "1.5.", ".", "-.", "--1.5", "1.-5", "1.5-", "-", "x"]
)
def test_a_word_that_is_no_number_makes_a_column_none(word):
    assert parse_floats(["1.5", word, "2.5"]) is None
    assert parse_floats([word]) is None
