"""The report of a retrieval: what it says is what the results say."""

import json
import math
from dataclasses import replace

import pytest
import torch
from matplotlib.figure import Figure

from reid_torchmetrics.functional.retrieval import CameraPairs, RetrievalResults, evaluate_scores
from reid_torchmetrics.report import curve_sections, write_report
from tests.report import problems
from tests.report.pages import Element, data, read, section

HARDEST = "Queries with the lowest average precision"
MISTAKES = "Queries whose best candidate is wrong, by falling margin"


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Writes a report and reads it; figures take their time, and have no part in most tests."""

    def write(results=None, **options) -> Element:
        return read(write_report(problems.retrieval() if results is None else results, tmp_path / "r.html", **options))

    for name in ("plot_camera_pairs", "plot_cmc", "plot_first_ranks", "plot_retrieval_precision_recall"):
        monkeypatch.setattr(curve_sections, name, lambda *_, **__: (Figure((0.1, 0.1)), None))
    return write


@pytest.fixture
def with_lists():
    return problems.of_metric(rank_lists=problems.rank_lists())


def test_the_numbers_are_those_of_the_results_with_their_conventions_in_words(report):
    results = problems.retrieval()
    rows = section(report(results), "numbers").rows("Means over queries")
    assert [row["measure"] for row in rows] == ["map (%)", "rank_1 (%)"]
    assert [row["value"] for row in rows] == ["66.67", "50.00"]
    assert [row["convention"] for row in rows] == [*results.conventions.values()]


def test_the_intervals_are_those_of_the_seed_0_or_of_a_given_generator(report):
    results = problems.retrieval()
    for options, seed in (({}, 0), ({"generator": torch.Generator().manual_seed(3)}, 3)):
        rows = section(report(results, **options), "numbers").rows("Means over queries")
        generator = torch.Generator().manual_seed(seed)
        for name, row in zip(results.values, rows, strict=True):
            interval = results.interval(name, generator=generator)
            assert row["95 % interval"] == f"{100 * float(interval.low):.2f} to {100 * float(interval.high):.2f}"


def test_a_rank_is_not_a_percentage(report):
    rows = section(report(problems.retrieval(reports=("mean_rank",))), "numbers").rows("Means over queries")
    assert (rows[0]["measure"], rows[0]["value"]) == ("mean_rank", "1.50")


def test_queries_are_counted_with_the_reasons_why_some_have_no_value(report):
    queries = section(report(), "queries")
    rows = queries.rows("Queries; those without a positive are left out of the means")
    assert [(row["queries"], row["number"]) for row in rows] == [
        ("evaluated", "2"),
        ("without a positive", "1"),
        ("all", "3"),
    ]
    assert rows[1]["why"] == "no other gallery item has its identity"
    medians = {row["per query"]: row["median"] for row in queries.rows("Median over evaluated queries")}
    assert medians == {"positives": "2", "candidates": "4"}


def test_queries_that_count_as_0_are_said_to(report):
    page = report(problems.retrieval(empty_target_action="neg"))
    assert section(page, "queries").rows("Queries; those without a positive count as 0 in the means")
    assert section(page, "numbers").rows("Means over queries")[1]["value"] == "33.33"


def test_the_curves_are_drawn(tmp_path):
    page = read(write_report(problems.retrieval(), tmp_path / "r.html"))
    figures = section(page, "curves").all("figure")
    assert [each.one("svg").attributes["aria-labelledby"] for each in figures] == [
        "cmc-caption",
        "precision-recall-caption",
        "first-ranks-caption",
    ]


def test_a_curve_that_is_not_defined_has_its_reason(tmp_path):
    page = read(write_report(problems.retrieval(ties="expected"), tmp_path / "r.html"))
    curves = section(page, "curves")
    assert "Not shown: " in curves.text
    assert len(curves.all("figure")) == 2


def test_the_hardest_queries_are_in_a_table_where_there_are_no_pictures(report, with_lists):
    hardest = section(report(with_lists), "hardest")
    assert hardest.rows(HARDEST) == [
        {
            "query": "1",
            "identity": "2",
            "camera": "0",
            "average precision (%)": "50.00",
            "first right answer at rank": "2",
            "first 3 candidates": "2 wrong, right at 2",
        },
        {
            "query": "0",
            "identity": "1",
            "camera": "0",
            "average precision (%)": "83.33",
            "first right answer at rank": "1",
            "first 3 candidates": "1 wrong, right at 1, 3",
        },
    ]


def test_a_mistake_is_a_query_whose_best_candidate_is_wrong(report, with_lists):
    assert [row["query"] for row in section(report(with_lists), "mistakes").rows(MISTAKES)] == ["1"]


def test_only_so_many_queries_are_shown_as_are_asked_for(report, with_lists):
    page = report(with_lists, num_hardest=1, num_mistakes=1)
    assert [row["query"] for row in section(page, "hardest").rows(HARDEST)] == ["1"]


def test_more_queries_than_ten_are_folded(report):
    scores, identities = torch.eye(25).flip(0), torch.arange(25)
    page = report(evaluate_scores(scores, identities, identities, reports=("map",)))
    (folded,) = section(page, "hardest").all("details")
    assert folded.one("summary").text == "15 more"
    assert len(folded.rows(f"{HARDEST}, continued")) == 15


def test_pictures_of_a_rank_list_are_in_its_order_with_words_for_all_that_is_seen(report, with_lists):
    asked = []

    def picture(number):
        asked.append(number)
        return problems.picture(number)

    page = report(with_lists, pictures=picture, gallery_pictures=lambda number: problems.picture(10 + number))
    first, second = section(page, "hardest").one("ul").all("li")
    assert (
        first.one("p").text == "query 1, identity 2, camera 0, average precision 50.00 %, first right answer at rank 2"
    )
    assert [each.attributes["alt"] for each in first.all("img")] == ["query", "wrong", "right", "wrong"]
    assert [each.text for each in first.all("figcaption")] == [
        "queryid\N{NO-BREAK SPACE}2 cam\N{NO-BREAK SPACE}0",
        "1. 0.900id\N{NO-BREAK SPACE}1 cam\N{NO-BREAK SPACE}1",
        "2. 0.500id\N{NO-BREAK SPACE}2 cam\N{NO-BREAK SPACE}1",
        "3. 0.400id\N{NO-BREAK SPACE}1 cam\N{NO-BREAK SPACE}2",
    ]
    assert asked == [1, 0]
    assert second.attributes["id"] == "query-0"


def test_a_first_right_answer_behind_the_list_is_shown_behind_it(report):
    short = problems.rank_lists().first(1)
    page = report(problems.of_metric(rank_lists=short), pictures=problems.picture)
    cells = section(page, "hardest").one("li", id="query-1").all("figure")
    assert [each.attributes["class"] for each in cells] == ["query", "wrong", "right first"]
    assert cells[-1].one("figcaption").text == "2. 0.500id\N{NO-BREAK SPACE}2 cam\N{NO-BREAK SPACE}1"


def test_padding_is_not_shown(report):
    lists = problems.rank_lists()
    padded = replace(lists, index=torch.tensor([[0, 2, 1], [0, 2, -1], [1, 2, 0]]))
    page = report(problems.of_metric(rank_lists=padded), pictures=problems.picture)
    cells = section(page, "hardest").one("li", id="query-1").all("figure")
    assert [each.attributes["class"] for each in cells] == ["query", "wrong", "right"]


def test_a_rank_list_is_on_the_page_once_and_led_to(report, with_lists):
    page = report(with_lists, pictures=problems.picture)
    mistakes = section(page, "mistakes")
    assert mistakes.all("img") == []
    assert mistakes.one("a").attributes["href"] == "#query-1"


def test_labels_that_are_not_known_are_left_out(report):
    lists = replace(problems.rank_lists(), query_identities=None, query_cameras=None, identities=None, cameras=None)
    lists = replace(lists, first_positive_camera=None)
    results = problems.of_metric(rank_lists=lists, query_identities=None, query_cameras=None)
    page = report(results, pictures=problems.picture)
    item = section(page, "hardest").one("li", id="query-1")
    assert item.one("p").text == "query 1, average precision 50.00 %, first right answer at rank 2"
    assert [each.text for each in item.all("figcaption")][:2] == ["query", "1. 0.900"]
    plain = section(report(results), "hardest").rows(HARDEST)[0]
    assert [*plain][:2] == ["query", "average precision (%)"]


def test_results_that_can_make_rank_lists_are_asked_for_ten_candidates(report, monkeypatch):
    asked = []

    def nearest(_, k):
        asked.append(k)
        return problems.rank_lists()

    monkeypatch.setattr(RetrievalResults, "nearest", nearest)
    rows = section(report(), "hardest").rows(HARDEST)
    assert asked == [10]
    assert rows[0]["first 3 candidates"] == "2 wrong, right at 2"


def test_why_rank_lists_cannot_be_made_is_said(report, monkeypatch):
    def nearest(*_):
        raise ValueError("`scores` must <fit>.")

    monkeypatch.setattr(RetrievalResults, "nearest", nearest)
    assert "Not shown: `scores` must <fit>." in section(report(), "mistakes").text


def test_where_rank_lists_are_missing_the_page_says_how_to_get_them(report):
    page = report(problems.of_metric(), pictures=problems.picture)
    for name in ("hardest", "mistakes"):
        assert "metric.results(nearest=10)" in section(page, name).text
        assert section(page, name).all("img") == []
    assert [row["query"] for row in section(page, "hardest").rows(HARDEST)] == ["1", "0"]


def test_where_pairs_of_cameras_are_missing_the_page_says_how_to_get_them(report):
    pairs = section(report(problems.of_metric()), "camera-pairs")
    assert "metric.results(camera_pairs=True)" in pairs.text
    assert pairs.all("figure") == []


def test_pairs_of_cameras_are_drawn_and_listed(report):
    # Of camera 1 query 0 finds its item first, of camera 2, too; query 1 finds its item second in both.
    pairs = section(report(), "camera-pairs")
    assert len(pairs.all("figure")) == 1
    rows = pairs.rows("map (%)")
    assert rows == [
        {"query camera": "0", "gallery camera 1": "75.00", "gallery camera 2": "75.00"},
        {"query camera": "5", "gallery camera 1": "undefined", "gallery camera 2": "undefined"},
    ]


def test_without_cameras_there_are_neither_cameras_nor_pairs_and_the_page_says_why(report):
    page = report(evaluate_scores(problems.SCORES, *problems.LABELS[:2], reports=("map",)))
    for name in ("camera-pairs", "cameras"):
        assert "Not shown: `" in section(page, name).text
        assert section(page, name).all("table") == []


def test_cameras_and_identities_have_the_means_of_their_queries(report):
    page = report()
    assert section(page, "cameras").rows("Means over the queries of each camera") == [
        {"camera": "0", "queries": "2", "with a value": "2", "map (%)": "66.67", "rank_1 (%)": "50.00"},
        {"camera": "5", "queries": "1", "with a value": "0", "map (%)": "undefined", "rank_1 (%)": "undefined"},
    ]
    rows = section(page, "identities").rows("Means over the queries of each identity")
    assert [(row["identity"], row["map (%)"]) for row in rows] == [("2", "50.00"), ("1", "83.33"), ("3", "undefined")]


def test_identities_have_names_that_are_escaped(report, with_lists):
    nasty = '</script><script>alert("x")</script>'
    page = report(with_lists, names={2: nasty}, pictures=problems.picture, title=nasty)
    assert len(page.all("script")) == 2
    assert nasty in section(page, "identities").text
    assert nasty in section(page, "hardest").text
    assert page.one("h1").text == page.one("title").text == nasty


def test_the_page_has_the_results_for_programs_and_for_readers(report):
    results = problems.retrieval()
    page = report(results)
    assert {name: value for name, value in data(page).items() if name != "versions"} == results.to_dict() | {
        "protocol": json.loads(json.dumps(results.protocol.to_dict()))
    }
    assert json.loads(section(page, "provenance").one("pre").text) == data(page)
    assert section(page, "provenance").rows("Versions")[1] == {"package": "torch", "version": str(torch.__version__)}


def test_a_page_without_a_valid_query_says_undefined(report):
    scores = torch.rand(2, 2)
    results = evaluate_scores(scores, torch.tensor([1, 2]), torch.tensor([3, 4]), reports=("map", "rank_1"))
    page = report(results)
    rows = section(page, "numbers").rows("Means over queries")
    assert [(row["value"], row["95 % interval"]) for row in rows] == [("undefined", "undefined")] * 2
    assert math.isnan(results.means["map"])
    assert data(page)["measures"]["map"]["value"] is None


def test_queries_are_called_by_their_numbers_in_the_data_set(report):
    lists = replace(problems.rank_lists(), query_index=torch.tensor([70, 71, 72]))
    results = problems.of_metric(rank_lists=lists, query_index=torch.tensor([70, 71, 72]))
    assert [row["query"] for row in section(report(results), "hardest").rows(HARDEST)] == ["71", "70"]


def test_all_pairs_of_cameras_that_are_held_are_drawn(report):
    def pairs(value):
        one = torch.tensor([1])
        return CameraPairs(one, one, torch.tensor([[value]], dtype=torch.float64), torch.tensor([[1]]))

    held = {"map": pairs(0.5), "rank_1": pairs(0.25), "mean_rank": pairs(3.0)}
    results = problems.of_metric(camera_pairs=held)
    object.__setattr__(results, "by_camera_pair", held.__getitem__)
    shown = section(report(results), "camera-pairs")
    assert len(shown.all("figure")) == 2
    assert [shown.rows(name)[0]["gallery camera 1"] for name in ("map (%)", "rank_1 (%)", "mean_rank")] == [
        "50.00",
        "25.00",
        "3",
    ]
