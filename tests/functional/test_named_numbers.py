"""Numbers of results by their names: looked up, as tables, in notebooks, as figures."""

import copy
import json
import math
import pickle
import re
from pathlib import Path

import pytest

from reid_torchmetrics import plot, tasks
from reid_torchmetrics.functional import retrieval
from reid_torchmetrics.functional.model_tables import split_conventions
from reid_torchmetrics.tasks.comparison import comma_separated
from tests.functional.saved_results import COMPARISON, DETECTION, RETRIEVAL, difference
from tests.report import pages, problems

PICTURES = (Path(__file__).parents[2] / "docs" / "how_to" / "pictures.md").read_text(encoding="utf-8")


def test_numbers_of_a_retrieval_are_looked_up_by_name():
    results = problems.retrieval()
    assert results["map"] == pytest.approx(2 / 3)
    assert dict(results) == results.means == {"map": pytest.approx(2 / 3), "rank_1": 0.5}
    assert [*results] == [*results.keys()] == ["map", "rank_1"]
    assert "map" in results
    assert "minp" not in results


@pytest.mark.parametrize("results", [problems.retrieval(), problems.detection()], ids=["retrieval", "detection"])
def test_a_number_that_is_written_as_an_attribute_is_pointed_out(results):
    kind = type(results).__name__
    with pytest.raises(AttributeError, match=rf"^'{kind}' object has no attribute 'map': write `results\['map'\]`$"):
        results.map  # noqa: B018
    for name in ("maps", "_map", "append"):
        with pytest.raises(AttributeError, match=rf"^'{kind}' object has no attribute '{name}'$"):
            getattr(results, name)
    with pytest.raises(KeyError, match=r"`name` must be one of 'map', .*; got 'mAP'"):
        results["mAP"]
    for other in (copy.copy(results), copy.deepcopy(results), pickle.loads(pickle.dumps(results))):
        assert dict(other) == dict(results)


REPORTED = problems.retrieval(reports=("minp", "rank_1"))
DETECTED = problems.detection()
COMPARED = COMPARISON["two models"]()
MAPPINGS = {
    "means": (REPORTED.means, "'minp', 'rank_1'", True),
    "per_query": (REPORTED.per_query, "'minp', 'rank_1'", True),
    "conventions": (REPORTED.conventions, "'minp', 'rank_1'", True),
    "means of a detection": (DETECTED.means, "'map', 'map_50', .*", False),
    "conventions of a detection": (DETECTED.conventions, "'map', 'map_50', .*", False),
    "differences": (COMPARED.differences, "'map', 'minp', 'rank_1', 'rank_5', 'rank_10'", False),
    "conventions of a comparison": (COMPARED.conventions, "'map', 'minp', .*", False),
    "results": (REPORTED, "'minp', 'rank_1'", True),
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_number_that_is_not_there_is_an_error_with_those_that_are(name):
    mapping, listed, is_reported = MAPPINGS[name]
    with pytest.raises(KeyError) as caught:
        mapping["precision_5"]
    how = r": `reports=\(\.\.\., 'precision_5'\)` adds it" if is_reported else ""
    assert re.fullmatch(rf"`name` must be one of {listed}; got 'precision_5'{how}\.", caught.value.args[0])
    other, meant = ("Rank_1", "rank_1") if "rank_1" in mapping else ("map50", "map_50")
    with pytest.raises(KeyError, match=f"got '{other}', which may be '{meant}'"):
        mapping[other]


@pytest.mark.parametrize("name", [name for name in MAPPINGS if name != "results"])
def test_numbers_by_name_are_dicts_as_any(name):
    mapping, plain = MAPPINGS[name][0], dict(MAPPINGS[name][0])
    assert mapping == plain
    assert (repr(mapping), str(mapping), [*mapping]) == (repr(plain), str(plain), [*plain])
    assert mapping.get("x") is None
    for other in (copy.copy(mapping), copy.deepcopy(mapping), pickle.loads(pickle.dumps(mapping))):
        assert difference(dict(other), plain) == ""
        with pytest.raises(KeyError, match="must be one of"):
            other["x"]
    if name.startswith(("means", "conventions")):
        assert json.loads(json.dumps(mapping)) == plain


def test_the_convention_that_all_numbers_share_is_printed_once():
    results = problems.retrieval(reports=("map", "rank_1"))
    head, *lines, last = str(results).splitlines()
    assert "2 of 3 queries valid" in head
    assert lines == [
        "  map          0.6667  average precision, not interpolated, over all ranks",
        "  rank_1       0.5000  CMC of the first match, at rank 1",
    ]
    cameras = "gallery images of the query's identity and camera are removed"
    shared = f"{cameras}; junk identities: -1; queries without a match are left out"
    assert last == f"  similarity: given scores; ties: pessimistic; {shared}"
    alone = str(problems.retrieval(reports=("map",))).splitlines()
    assert alone[1] == "  map          0.6667"
    assert "average precision, not interpolated, over all ranks; gallery images" in alone[2]


def test_words_that_only_some_numbers_share_stay_with_these():
    alone, shared = split_conventions({"a": "one; x; y", "b": "two; x; y", "c": "two; y"})
    assert (alone, shared) == ({"a": "one; x", "b": "two; x", "c": "two"}, "y")
    # Unless others say something else in their place.
    alone, shared = split_conventions({"a": "one; x; y", "b": "two; x; y", "c": "two; z; y"})
    assert (alone, shared) == ({"a": "one", "b": "two", "c": "two; z"}, "x; y")
    assert split_conventions({}) == ({}, "")


def compared_without_queries():
    results = RETRIEVAL["not ranked"]()
    return tasks.compare(results, results, num_resamples=2, num_permutations=2)


UNDEFINED = {
    "retrieval": RETRIEVAL["not ranked"],
    "detection": DETECTION["no images"],
    "comparison": compared_without_queries,
}


@pytest.mark.parametrize("kind", UNDEFINED)
def test_an_undefined_number_is_not_available_in_all_that_is_read(kind):
    results = UNDEFINED[kind]()
    texts = [str(results), f"{results:.1%}", results.to_markdown(), results.to_latex()]
    for text in texts:
        assert "n/a" in text
        assert not re.search(r"\bnan\b|-1\.0|= -1", text)
    assert ",," in comma_separated(results.model_table(), 1)  # a program reads it
    html = results._repr_html_()
    assert '<td style="color: gray">n/a</td>' in html
    assert "<td>n/a</td>" not in html


@pytest.mark.parametrize("make", [problems.retrieval, problems.detection, DETECTION["no images"]])
def test_a_notebook_shows_a_table_of_the_numbers(make):
    results = make()
    shown = pages.parse(results._repr_html_())
    cells = [[each.text for each in row.all() if each.name in ("th", "td")] for row in shown.one("table").all("tr")]
    assert cells == [[name, f"{value:.4f}" if value >= 0 else "n/a"] for name, value in results.means.items()]
    head, *_, last = str(results).splitlines()
    assert (shown.one("caption").text, shown.one("p").text) == (head, last.strip())


def test_a_notebook_shows_names_as_they_are():
    results = problems.retrieval(protocol=retrieval.Protocol("<b>&", "me"))
    assert "protocol <b>&, 2 of 3" in pages.parse(results._repr_html_()).one("caption").text


def test_numbers_are_a_frame_with_their_conventions():
    pytest.importorskip("pandas")
    for results in (problems.retrieval(), problems.detection()):
        frame = results.to_frame()
        assert frame.index.name == "number"
        assert dict(frame["value"]) == results.means
        assert dict(frame["convention"]) == results.conventions


def test_queries_are_a_frame_with_their_labels():
    pytest.importorskip("pandas")
    frame = problems.retrieval().to_frame("query")
    assert frame.index.tolist() == [0, 1, 2]
    assert frame["query_identities"].tolist() == [1, 2, 3]
    assert frame["query_cameras"].tolist() == [0, 0, 5]
    assert frame["num_positives"].tolist() == [2, 2, 0]
    assert frame["map"].tolist()[:2] == pytest.approx([5 / 6, 1 / 2])
    assert math.isnan(frame["map"][2])
    assert [*RETRIEVAL["lists"]().to_frame("query")][:2] == ["num_positives", "num_candidates"]


def test_classes_are_a_frame_by_name():
    pytest.importorskip("pandas")
    frame = problems.detection().to_frame("class")
    assert frame.index.tolist() == ["class 3", "class 7"]
    assert frame["ground truths"].tolist() == [2, 1]
    assert frame["map"].tolist() == pytest.approx([51 / 101, 1])
    assert DETECTION["no images"]().to_frame("class").empty


def test_a_frame_of_something_else_is_refused():
    with pytest.raises(ValueError, match="`per` must be one of 'number', 'query'; got 'class'"):
        problems.retrieval().to_frame("class")


def test_results_draw_what_their_field_looks_at_first():
    from matplotlib.figure import Figure  # noqa: PLC0415 - as the package does

    _, ax = problems.retrieval().plot()
    assert ax.get_xlabel() == "rank (no change from 10 to 50)"
    own = Figure().subplots()
    figure, ax = problems.detection().plot(ax=own)
    assert (figure, ax) == (own.figure, own)
    assert ax.get_xlabel() == "recall (%)"
    _, ax = problems.retrieval().plot("precision_recall")
    assert ax.get_xlabel() == "recall (%)"


def test_the_words_of_plot_name_every_figure():
    for kind, rows in plot.FIGURES.items():
        for name in rows:
            assert f'"{name}"' in kind.plot.__doc__, f"`results.plot` must name the figure {name!r} in its docstring"
    for name in plot.FIGURES[type(problems.retrieval())]:
        assert f"`val/{name}`" in PICTURES, f"add `val/{name}` to the table of loggers in docs/how_to/pictures.md"


def test_a_figure_that_results_do_not_have_is_refused_with_the_reason():
    names = ", ".join(map(repr, plot.FIGURES[type(problems.retrieval())]))
    with pytest.raises(ValueError, match=f"`figure` must be one of {names}; got 'roc'"):
        problems.retrieval().plot("roc")
    with pytest.raises(ValueError, match=r"got 'confusion_matrix': results\(across_classes=True\) of a metric holds"):
        problems.detection().plot("confusion_matrix")
