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
from reid_torchmetrics.functional.retrieval.reranking import EXPANSIONS, ORIGINAL_DISTANCES
from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES

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
DEFAULTS, *_ = CONVENTIONS  # what there is to choose; the options of all other tables are evaluated
EVALUATED = [table for table in CONVENTIONS if "option" in table.header and table is not DEFAULTS]
ROWS = [row for table in EVALUATED for row in table.rows]


def filled(table: Table) -> list[dict[str, str]]:
    """The rows of a table, with the cell above in the place of "same"."""
    found: list[dict[str, str]] = []
    for row in table.rows:
        found.append({name: found[-1][name] if cell == "same" else cell for name, cell in row.items()})
    return found


PROTOCOL_ROWS = [
    row if "positives" in row else {"dropped for a query": "nothing"} | row
    for table in tables(TEXTS["protocols.md"])
    if table.header[0] == "protocol"
    for row in filled(table)
]
"""the rows of protocols; nothing is dropped in a table without that column, unless it has lists"""


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    return run_code("conventions.md")


def numbers_of(row: dict[str, str]) -> list[str]:
    """The cells that hold the numbers of a row, one for each value."""
    cells = [row[column] for column in row if re.fullmatch(r"number|k = \d", column)]
    return cells[0].split(", ") if len(cells) == 1 else cells


def check_number(cell: str, value: float) -> None:
    """Every side of `(1/3 + 1/4)/2 = 7/24 = 0.2917` is the value: fractions exactly, decimals rounded."""
    if cell == "NaN":
        assert math.isnan(value)
        return
    for side in cell.split(" = "):
        if "." in side:
            assert value == pytest.approx(float(side), abs=5.1e-5)
        else:
            side = side.replace("\N{MULTIPLICATION SIGN}", "*")  # noqa: PLW2901 - an asterisk would begin italics
            fraction = eval(re.sub(r"\d+", r"Fraction(\g<0>)", side), {"Fraction": Fraction})  # noqa: S307 - our own text
            assert value == pytest.approx(float(fraction), abs=1e-9)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["option"].strip("`"))
def test_an_option_gives_the_number_in_its_row(row, names):
    option, cells = row["option"].strip("`"), numbers_of(row)
    if cells == ["`ValueError`"]:
        with pytest.raises(ValueError, match="empty_target_action"):
            eval(option, names)  # noqa: S307
        return
    value = eval(option, names)  # noqa: S307
    if cells:
        values = torch.as_tensor(value, dtype=torch.float64).flatten().tolist()
        assert len(values) == len(cells)
        for cell, one in zip(cells, values, strict=True):
            check_number(cell, one)


def test_the_numbers_of_a_table_of_conventions_all_differ():
    compared = [table for table in EVALUATED if table.header[0] == "convention"]
    assert len(compared) > 10
    for table in compared:
        found = [[cell.split(" = ")[-1] for cell in numbers_of(row)] for row in table.rows]
        assert all(found.count(numbers) == 1 for numbers in found), found


def test_the_table_of_the_gallery_is_the_gallery(names):
    (table,) = (table for table in CONVENTIONS if "score for A" in table.header)
    rows = table.rows
    assert [int(row["item"]) for row in rows] == list(range(1, 13))
    assert [int(row["identity"]) for row in rows] == names["gallery_identities"].tolist()
    assert [int(row["camera"]) for row in rows] == names["gallery_cameras"].tolist()
    assert [float(row["score for A"]) for row in rows] == pytest.approx(names["scores"][0].tolist())
    ranked = sorted((row for row in rows if row["rank"]), key=lambda row: int(row["rank"]))
    assert [int(row["rank"]) for row in ranked] == list(range(1, 11))
    order = [(-float(row["score for A"]), row["role for A"] == "positive") for row in ranked]
    assert order == sorted(order)
    ranks = rank_positives_from_scores(names["scores"], *names["labels"])
    assert [place for place, (_, positive) in enumerate(order, start=1) if positive] == ranks.rank.tolist()
    assert ranks.num_candidates[0] == len(ranked)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_tables_of_conventions_list_every_value_of_an_option(option):
    shown = re.findall(rf'\b{option}="(\w+)"', "".join(row["option"] for row in ROWS))
    assert set(shown) == set(OPTIONS[option])


@pytest.mark.parametrize("option", WITH_DEFAULTS)
def test_the_table_of_defaults_lists_every_value_and_marks_the_default(option):
    (row,) = (row for row in DEFAULTS.rows if row["option"] == f"`{option}`")
    default, others = (re.findall(r'`"(\w+)"`', row[column]) for column in ("default", "others"))
    assert sorted(default + others) == sorted(WITH_DEFAULTS[option])
    assert default == [next(iter(WITH_DEFAULTS[option]))]


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
    plain, ranks = Protocol("", ""), PositiveRanks.from_hits([[0, 0, 1, 0, 1, 1, 0, 0, 1, 0]], num_positives=[4])
    assert len(table.rows) == len(MEASURES)
    for row, each in zip(table.rows, MEASURES.values(), strict=True):
        k = 5 if each.takes_k else 0
        assert row["name"] == (f"`{each.name}_{k}`" if k else f"`{each.name}`")
        assert row["value of a query"] == each.describe(plain, k)
        assert "$" in row["formula"]
        check_number(row["number"], float(each.function(ranks, plain, k)))
    drawn = [row["name"] for row, each in zip(table.rows, MEASURES.values(), strict=True) if each.expectation]
    assert f"{', '.join(drawn[:-1])} and {drawn[-1]} also have an [expectation" in TEXTS["measures.md"]


def names_in(row: dict[str, str]) -> list[str]:
    """The protocols of a row: those that differ in their source only."""
    return re.findall(r"`(\w+)`", row["protocol"])


MARKET1501 = in_words(PROTOCOLS["market1501"])
"""what an empty cell means"""


def test_every_protocol_has_a_row_and_the_row_is_what_the_protocol_says():
    assert sorted(name for row in PROTOCOL_ROWS for name in names_in(row)) == sorted(PROTOCOLS)
    for row in PROTOCOL_ROWS:
        names, sources = names_in(row), row["source"].split("; ")
        for name, source in zip(names, sources * (len(names) // len(sources)), strict=True):
            words = in_words(PROTOCOLS[name])
            shown = {column: cell or MARKET1501[column] for column, cell in row.items()}
            assert shown == {column: words[column] for column in row} | {
                "protocol": row["protocol"],
                "source": row["source"],
            }
            assert words["source"].startswith(source)


def test_the_tables_of_protocols_show_all_fields_that_a_protocol_changes():
    plain = in_words(Protocol("", ""))
    for row in PROTOCOL_ROWS:
        words = in_words(PROTOCOLS[names_in(row)[0]])
        hidden = {column for column, value in words.items() if value != plain[column]} - set(row)
        assert hidden <= ({"dropped for a query"} if "positives" in row else set())  # lists instead of rules
