"""The documents on measures, conventions and protocols: their tables say what the code does."""

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    MEASURES,
    PROTOCOLS,
    PositiveRanks,
    Protocol,
    rank_positives_from_scores,
)
from reid_torchmetrics.functional.retrieval.measures import (
    AP_NORMALIZERS,
    AP_RULES,
    CMC_MODES,
    EMPTY_TARGET_ACTIONS,
    PRECISION_DIVISORS,
)
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import SAME_CAMERA_RULES
from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES
from reid_torchmetrics.tasks.reranking import EXPANSIONS, ORIGINAL_DISTANCES

DOCS = Path(__file__).parents[1] / "docs"
TEXTS = {name: (DOCS / name).read_text(encoding="utf-8") for name in ("measures.md", "conventions.md", "protocols.md")}
OPTIONS = {
    "rule": AP_RULES,
    "normalizer": AP_NORMALIZERS,
    "precision_divisor": PRECISION_DIVISORS,
    "mode": CMC_MODES,
    "ties": TIE_POLICIES,
    "same_camera": SAME_CAMERA_RULES,
    "empty_target_action": EMPTY_TARGET_ACTIONS,
    "distance": ORIGINAL_DISTANCES,
    "expanded": EXPANSIONS,
}
WITH_DEFAULTS = {
    "rule": AP_RULES,
    "mode": CMC_MODES,
    "same_camera": SAME_CAMERA_RULES,
    "ties": TIE_POLICIES,
    "similarity": SIMILARITIES,
    "empty_target_action": EMPTY_TARGET_ACTIONS,
}


class Table(NamedTuple):
    """A table of a document, cells without the blanks around them."""

    header: list[str]
    rows: list[dict[str, str]]


def tables(text: str) -> list[Table]:
    """All tables of a document."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE):
        header, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in block.splitlines())
        found.append(Table(header, [dict(zip(header, row, strict=True)) for row in rows]))
    return found


def run_code(name: str) -> dict[str, object]:
    """Run the Python blocks of a document one after the other; returns the names that they define."""
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", TEXTS[name], flags=re.DOTALL):
        exec(compile(code, name, "exec"), names)  # noqa: S102 - our own text
    return names


CONVENTIONS = tables(TEXTS["conventions.md"])
DEFAULTS = CONVENTIONS[0]
"""the options with their defaults; the options of all other tables are evaluated"""
EVALUATED = [table for table in CONVENTIONS[1:] if "option" in table.header]
ROWS = [row for table in EVALUATED for row in table.rows]


def filled(table: Table) -> list[dict[str, str]]:
    """The rows of a table, with the cell above in the place of "same"."""
    rows: list[dict[str, str]] = []
    for row in table.rows:
        filled_row = dict(row)
        for name, cell in row.items():
            if cell == "same":
                filled_row[name] = rows[-1][name]
        rows.append(filled_row)
    return rows


def rows_of_protocols() -> list[dict[str, str]]:
    """The rows of protocols; nothing is dropped in a table without that column, unless it has lists."""
    rows = []
    for table in tables(TEXTS["protocols.md"]):
        if table.header[0] != "protocol":
            continue
        for row in filled(table):
            if "positives" not in row:
                row.setdefault("dropped for a query", "nothing")
            rows.append(row)
    return rows


PROTOCOL_ROWS = rows_of_protocols()


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    return run_code("conventions.md")


def numbers_of(row: dict[str, str]) -> list[str]:
    """The cells that hold the numbers of a row, one for each value."""
    if "number" in row:
        return row["number"].split(", ")
    return [cell for column, cell in row.items() if re.fullmatch(r"k = \d", column)]


def check_number(cell: str, value: float) -> None:
    """Every side of `(1/3 + 1/4)/2 = 7/24 = 0.2917` is the value: fractions exactly, decimals rounded."""
    if cell == "NaN":
        assert math.isnan(value)
        return
    for text in cell.split(" = "):
        if "." in text:
            assert value == pytest.approx(float(text), abs=5.1e-5)
            continue
        # The page has a multiplication sign, as an asterisk would begin italics.
        expression = text.replace("\N{MULTIPLICATION SIGN}", "*")
        exact_expression = re.sub(r"\d+", r"Fraction(\g<0>)", expression)
        fraction = eval(exact_expression, {"Fraction": Fraction})  # noqa: S307 - our own text
        assert value == pytest.approx(float(fraction), abs=1e-9)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["option"].strip("`"))
def test_an_option_gives_the_number_in_its_row(row, names):
    expression = row["option"].strip("`")
    cells = numbers_of(row)
    if cells == ["`ValueError`"]:
        with pytest.raises(ValueError, match="empty_target_action"):
            eval(expression, names)  # noqa: S307
        return
    result = eval(expression, names)  # noqa: S307
    if cells:
        values = torch.as_tensor(result, dtype=torch.float64).flatten().tolist()
        for cell, value in zip(cells, values, strict=True):
            check_number(cell, value)


def test_the_numbers_of_a_table_of_conventions_all_differ():
    compared = [table for table in EVALUATED if table.header[0] == "convention"]
    assert len(compared) > 10
    for table in compared:
        rounded = [tuple(cell.split(" = ")[-1] for cell in numbers_of(row)) for row in table.rows]
        assert len(set(rounded)) == len(rounded), rounded


def test_the_table_of_the_gallery_is_the_gallery(names):
    (table,) = (table for table in CONVENTIONS if "score for A" in table.header)
    rows = table.rows
    assert [int(row["item"]) for row in rows] == list(range(1, 13))
    assert [int(row["identity"]) for row in rows] == names["gallery_identities"].tolist()
    assert [int(row["camera"]) for row in rows] == names["gallery_cameras"].tolist()
    assert [float(row["score for A"]) for row in rows] == pytest.approx(names["scores"][0].tolist())

    # The column of ranks is that of the scores, with positives behind negatives of the same score.
    candidates = sorted((row for row in rows if row["rank"]), key=lambda row: int(row["rank"]))
    assert [int(row["rank"]) for row in candidates] == list(range(1, 11))
    order = [(-float(row["score for A"]), row["role for A"] == "positive") for row in candidates]
    assert order == sorted(order)
    ranks = rank_positives_from_scores(names["scores"], *names["labels"])
    positives = [row for row in candidates if row["role for A"] == "positive"]
    assert [int(row["rank"]) for row in positives] == ranks.rank.tolist()
    assert ranks.num_candidates[0] == len(candidates)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_tables_of_conventions_list_every_value_of_an_option(option):
    all_options = "".join(row["option"] for row in ROWS)
    listed_values = re.findall(rf'\b{option}="(\w+)"', all_options)
    assert set(listed_values) == set(OPTIONS[option])


@pytest.mark.parametrize("option", WITH_DEFAULTS)
def test_the_table_of_defaults_lists_every_value_and_marks_the_default(option):
    (row,) = (row for row in DEFAULTS.rows if row["option"] == f"`{option}`")
    default = re.findall(r'`"(\w+)"`', row["default"])
    other_values = re.findall(r'`"(\w+)"`', row["others"])
    first_value, *_ = WITH_DEFAULTS[option]
    assert default == [first_value]
    assert sorted(default + other_values) == sorted(WITH_DEFAULTS[option])


CAMERA_RULES = {"same_identity": ["its identity in its camera"], "all": ["its camera"], "keep": []}
CLOTHES = {"keep": [], "drop_same": ["its identity in its clothes"], "drop_other": ["its identity in other clothes"]}
NORMALIZERS = {"positives": "n", "attainable": "min(n, {k})", "hits": "its hits"}
DIVISORS = {"k": "k", "last_positive": "min(k, rank of the last positive)", "calibrated": "min(n, k), of as many"}


def in_words(protocol: Protocol) -> dict[str, str]:
    """What the tables say of a protocol, by column."""
    return {
        "protocol": f"`{protocol.name}`",
        "dropped for a query": _dropped(protocol),
        "average precision": _precision(protocol),
        "CMC": _cmc(protocol),
        "P@k divided by": DIVISORS[protocol.precision_divisor],
        "positives": ", ".join(f"`{name}`" for name in protocol.positive_lists),
        "positives within": "" if protocol.radius is None else f"{protocol.radius:g}",
        "junk": ", ".join(f"`{name}`" for name in protocol.junk_lists),
        "without a positive": {"skip": "left out", "neg": "counts 0"}[protocol.empty_target_action],
        "reported": ", ".join(f"`{name}`" for name in protocol.reports),
        "source": protocol.source,
    }


def _dropped(protocol: Protocol) -> str:
    parts = CAMERA_RULES[protocol.same_camera] + CLOTHES[protocol.clothes]
    parts += [f"for the CMC {rule}" for rule in CAMERA_RULES.get(protocol.cmc_same_camera or "keep", [])]
    parts += [f"camera {camera} being {other}" for camera, other in protocol.camera_map]
    if protocol.search_cameras is not None:
        parts.append(f"all cameras but {', '.join(map(str, protocol.search_cameras))}")
    parts += [f"identity {identity}" for identity in protocol.junk_identities]
    return "; ".join(parts) or "nothing"


def _precision(protocol: Protocol) -> str:
    parts = [protocol.rule]
    if protocol.k is not None:
        parts.append(f"first {protocol.k}, divided by {NORMALIZERS[protocol.normalizer].format(k=protocol.k)}")
    if protocol.gallery_draw is not None and not protocol.gallery_draw_for_map:
        parts.append("of the whole gallery")
    return ", ".join(parts)


def _cmc(protocol: Protocol) -> str:
    if protocol.gallery_draw is None:
        return {"first_match": "first match", "all_shots": "all shots"}[protocol.mode]
    gallery = f"drawn: {protocol.gallery_draw.shots} of each {protocol.gallery_draw.per.replace('_', ' ')}"
    return gallery + (", from the queries" if protocol.queries_in_draw else "")


def test_every_measure_has_a_row_with_its_words_its_formula_and_its_number():
    (table,) = (table for table in tables(TEXTS["measures.md"]) if table.header[0] == "name")
    protocol = Protocol("", "")
    ranks = PositiveRanks.from_hits([[0, 0, 1, 0, 1, 1, 0, 0, 1, 0]], num_positives=[4])
    with_expectation = []
    for row, measure in zip(table.rows, MEASURES.values(), strict=True):
        k = 5 if measure.takes_k else 0
        assert row["name"] == (f"`{measure.name}_{k}`" if k else f"`{measure.name}`")
        assert row["value of a query"] == measure.describe(protocol, k)
        assert "$" in row["formula"]
        check_number(row["number"], float(measure.function(ranks, protocol, k)))
        if measure.expectation:
            with_expectation.append(row["name"])
    *first_names, last_name = with_expectation
    assert f"{', '.join(first_names)} and {last_name} also have an [expectation" in TEXTS["measures.md"]


def names_in(row: dict[str, str]) -> list[str]:
    """The protocols of a row: those that differ in their source only."""
    return re.findall(r"`(\w+)`", row["protocol"])


MARKET1501 = in_words(PROTOCOLS["market1501"])
"""what an empty cell means"""


def test_every_protocol_has_a_row_and_the_row_is_what_the_protocol_says():
    assert sorted(name for row in PROTOCOL_ROWS for name in names_in(row)) == sorted(PROTOCOLS)
    for row in PROTOCOL_ROWS:
        names = names_in(row)
        sources = row["source"].split("; ")
        if len(sources) == 1:  # of all protocols in the row
            sources = sources * len(names)
        columns = [column for column in row if column not in ("protocol", "source")]
        for name, source in zip(names, sources, strict=True):
            words = in_words(PROTOCOLS[name])
            for column in columns:
                expected = row[column] or MARKET1501[column]
                assert words[column] == expected, f"{name}: {column}"
            assert words["source"].startswith(source)


def test_the_tables_of_protocols_show_all_fields_that_a_protocol_changes():
    defaults = in_words(Protocol("", ""))
    for row in PROTOCOL_ROWS:
        first_name, *_ = names_in(row)
        words = in_words(PROTOCOLS[first_name])
        changed_columns = {column for column, text in words.items() if text != defaults[column]}
        if "positives" in row:  # lists take the place of the rules
            changed_columns.discard("dropped for a query")
        assert changed_columns <= row.keys(), first_name
