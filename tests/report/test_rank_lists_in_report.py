"""Single queries in a report: the hardest ones and confident mistakes, with pictures or without."""

from dataclasses import replace
from unittest import mock

import pytest
import torch
from PIL import Image

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate_scores
from tests.report import problems
from tests.report.pages import section

HARDEST = "Queries with the lowest average precision"
MISTAKES = "Queries whose best candidate is wrong, by falling margin"


def mistaken(*ranks: int) -> RetrievalResults:
    """One query for each rank, at which its only match is among three candidates."""
    identities = torch.arange(len(ranks))
    gallery = torch.arange(3 * len(ranks))
    scores = torch.full((len(ranks), len(gallery)), -1.0)
    for query, rank in enumerate(ranks):
        places = [place for place in range(len(gallery)) if place != query][: rank - 1]
        scores[query, places] = 1.0
        scores[query, query] = 0.5
    return evaluate_scores(scores, identities, gallery, reports=("map",))


def test_the_hardest_queries_are_in_a_table_where_there_are_no_pictures(report, with_lists):
    hardest = section(report(with_lists), "hardest")
    heads = ["query", "identity", "camera", "average precision (%)", "rank of the first match", "first 3 candidates"]
    assert [[*row.items()] for row in hardest.rows(HARDEST)] == [
        [*zip(heads, ["1", "2", "0", "50.00", "2", "2 wrong, right at 2"], strict=True)],
        [*zip(heads, ["0", "1", "0", "83.33", "1", "1 wrong, right at 1, 3"], strict=True)],
    ]


def test_names_of_images_are_beside_the_numbers_of_queries(report, with_lists):
    page = report(with_lists, image_names={0: "a/first.jpg", 1: "b/<second>.jpg"})
    assert [row["file"] for row in section(page, "hardest").rows(HARDEST)] == ["b/<second>.jpg", "a/first.jpg"]


@pytest.mark.parametrize(
    ("options", "names"),
    [({"gallery_image_names": {0: "c/third.x.jpg"}}, ["first", "third.x"]), ({}, ["first", "first"])],
)
def test_names_of_images_are_in_the_captions_of_pictures(report, with_lists, options, names):
    page = report(with_lists, pictures=problems.picture, image_names={0: "a/first.jpg"}, **options)
    _, row = section(page, "hardest").all("div", class_="pictures")  # query 0 is second
    captions = [figure.one("figcaption").children[-1] for figure in row.all("figure")]
    assert captions[:2] == names
    assert all(caption.startswith("id") for caption in captions[2:])  # labels alone


def test_a_mistake_is_a_query_whose_best_candidate_is_wrong_and_its_list_is_on_the_page_once_and_led_to(
    report, with_lists
):
    page = report(with_lists)
    assert section(page, "mistakes").all("p")[1].text == "Shown above: query 1."
    assert section(page, "hardest").one("tr", id="query-1").one("th").text == "1"
    mistakes = section(report(with_lists, pictures=problems.picture), "mistakes")
    assert mistakes.all("img") == mistakes.all("ul") == []
    assert mistakes.one("a").attributes["href"] == "#query-1"


def test_mistakes_that_are_not_among_the_hardest_queries_are_listed_without_fields(report):
    mistakes = section(report(mistaken(3, 2, 2, 1), num_hardest=1), "mistakes")
    assert [row["query"] for row in mistakes.rows(MISTAKES)] == ["1", "2"]
    assert mistakes.all("select") == []


@pytest.mark.parametrize(
    ("ranks", "sentence", "queries"),
    [
        ((1, 3, 1, 2), "2 of 4 queries are not perfect. ", ["1", "3"]),
        ((1, 3), "1 of 2 queries is not perfect. ", ["1"]),
        ((1, 1), "All 2 queries are perfect.", []),
        ((1,), "The query is perfect.", []),
    ],
)
def test_the_hardest_queries_are_those_that_are_not_perfect(report, ranks, sentence, queries):
    hardest = section(report(mistaken(*ranks)), "hardest")
    assert hardest.all("p", class_="note")[0].text.startswith(sentence)
    assert [row.attributes["id"] for row in hardest.all("tr") if "id" in row.attributes] == [
        f"query-{query}" for query in queries
    ]


RIGHT = "None: the best candidate is right wherever the gallery has a match, for"


@pytest.mark.parametrize(
    ("identities", "text"),
    [
        ([0, 9, 9], f"{RIGHT} 1 of 3 queries."),
        ([0, 1, 9], f"{RIGHT} 2 of 3 queries."),
        ([0, 1, 2], "None: the best candidate of every query is right."),
        ([9, 9, 9], "None: the gallery has a match for 0 of 3 queries."),
        ([], "None: the gallery has a match for 0 of 0 queries."),
    ],
)
def test_without_a_mistake_the_page_says_of_how_many_queries_that_is_true(report, identities, text):
    # Query i is nearest to gallery item i of identity i.
    results = evaluate_scores(torch.eye(3)[: len(identities)], torch.tensor(identities, dtype=int), torch.arange(3))
    assert section(report(results), "mistakes").all("p")[-1].text == text


def test_only_so_many_queries_are_shown_as_are_asked_for_and_a_single_one_has_no_fields(report, with_lists):
    page = report(with_lists, num_hardest=1, num_mistakes=1)
    assert [row["query"] for row in section(page, "hardest").rows(HARDEST)] == ["1"]
    assert section(page, "hardest").all(class_="filtered") == []


@pytest.mark.parametrize("pictures", [None, problems.picture])
def test_queries_have_fields_to_filter_and_sort_them_which_are_hidden_without_a_script(report, with_lists, pictures):
    box = section(report(with_lists, pictures=pictures), "hardest").one("div", class_="filtered")
    fields = {each.text.split()[0]: each.one("select") for each in box.all("label")}
    assert [*fields] == ["identity", "order"]  # both are of camera 0
    assert [each.attributes["value"] for each in fields["identity"].all("option")] == ["", "1", "2"]
    assert [each.attributes["value"] for each in fields["order"].all("option")] == ["", "1", "-1"]
    assert "hidden" in box.all("p")[0].attributes
    items = box.all("li") or box.one("tbody").all("tr")
    facts = [[each.text for each in (item.all("span") or item.all())] for item in items]
    places = {name: int(each.attributes["data-column"]) for name, each in fields.items()}
    assert [each[places["identity"]] for each in facts] == ["2", "1"]
    assert [each[places["order"]].split()[0] for each in facts] == ["50.00", "83.33"]


@pytest.mark.filterwarnings("ignore:Queries of 25 of 25 identities")  # as if they were numbered in two ways
def test_more_queries_than_ten_are_folded(report):
    scores, identities = torch.eye(25).roll(1, 0), torch.arange(25)  # no query is perfect
    page = report(evaluate_scores(scores, identities, identities, reports=("map",)))
    (folded,) = section(page, "hardest").all("details")
    assert folded.one("summary").text == "15 more"
    assert len(folded.rows(f"{HARDEST}, continued")) == 15


SHOWN = {(32, 64): ("64", "128"), (64, 32): ("192", "96"), (64, 128): ("64", "128"), (300, 600): ("64", "128")}


@pytest.mark.parametrize("size", SHOWN)
def test_pictures_of_any_size_are_shown_as_large_as_those_of_market_1501(report, with_lists, size):
    page = report(with_lists, pictures=lambda _: Image.new("RGB", size))
    pictures = section(page, "hardest").all("img")
    assert {(each.attributes["width"], each.attributes["height"]) for each in pictures} == {SHOWN[size]}


def test_pictures_of_a_rank_list_are_in_its_order_with_words_for_all_that_is_seen(report, with_lists):
    asked = []

    def picture(number):
        asked.append(number)
        return problems.picture(number)

    page = report(with_lists, pictures=picture, gallery_pictures=lambda number: problems.picture(10 + number))
    first, second = section(page, "hardest").one("ul").all("li")
    facts = "Query 1, identity 2, camera 0, average precision 50.00 %, rank of the first match 2"
    assert first.one("p").text == facts
    assert [each.attributes["alt"] for each in first.all("img")] == ["query", "wrong", "right", "wrong"]
    assert [each.text for each in first.all("figcaption")] == [
        "queryid\N{NO-BREAK SPACE}2 cam\N{NO-BREAK SPACE}0",
        "1. 0.900id\N{NO-BREAK SPACE}1 cam\N{NO-BREAK SPACE}1",
        "2. 0.500id\N{NO-BREAK SPACE}2 cam\N{NO-BREAK SPACE}1",
        "3. 0.400id\N{NO-BREAK SPACE}1 cam\N{NO-BREAK SPACE}2",
    ]
    assert asked == [1, 0]
    assert second.attributes["id"] == "query-0"


def test_a_first_right_answer_behind_the_list_is_shown_behind_it_and_padding_is_not(report):
    lists = problems.rank_lists()
    padded = replace(lists, index=torch.tensor([[0, 2, 1], [0, 2, -1], [1, 2, 0]]))
    for shown, classes in ((lists.first(1), ["query", "wrong", "right first"]), (padded, ["query", "wrong", "right"])):
        page = report(problems.of_metric(rank_lists=shown), pictures=problems.picture)
        cells = section(page, "hardest").one("li", id="query-1").all("figure")
        assert [each.attributes["class"] for each in cells] == classes
        assert cells[-1].one("figcaption").text == "2. 0.500id\N{NO-BREAK SPACE}2 cam\N{NO-BREAK SPACE}1"


@pytest.mark.parametrize(
    ("pictures", "why"),
    [
        ([problems.picture(0)], "`pictures` must have a picture for each number; got none for 1."),
        (lambda number: None if number else problems.picture(0), "`pictures(1)` must be an image of Pillow, "),
        (lambda number: problems.picture(0) if number == 0 else 1 / 0, "division by zero"),
    ],
)
def test_a_picture_that_is_missing_has_the_reason_in_its_place(report, with_lists, pictures, why):
    with pytest.warns(UserWarning, match=r"^A picture of the report is missing; the page says why in its place\.$"):
        page = report(with_lists, pictures=pictures)
    cells = section(page, "hardest").one("li", id="query-1").all("figure")
    assert [len(cell.all("img")) for cell in cells] == [0, 1, 0, 0]  # query 1, then 0, 2 and 1 of the gallery
    assert cells[0].one("p").text.startswith(f"No picture: {why}")
    assert cells[0].one("figcaption").text.startswith("query")


def test_labels_that_are_not_known_are_left_out(report):
    lists = replace(problems.rank_lists(), query_identities=None, query_cameras=None, identities=None, cameras=None)
    lists = replace(lists, first_positive_camera=None)
    results = problems.of_metric(rank_lists=lists, query_identities=None, query_cameras=None)
    page = report(results, pictures=problems.picture)
    item = section(page, "hardest").one("li", id="query-1")
    assert item.one("p").text == "Query 1, average precision 50.00 %, rank of the first match 2"
    assert [each.text for each in item.all("figcaption")][:2] == ["query", "1. 0.900"]
    plain = section(report(results), "hardest").rows(HARDEST)[0]
    assert [*plain][:2] == ["query", "average precision (%)"]


def test_results_that_can_make_rank_lists_are_asked_for_ten_candidates_and_say_why_they_cannot(report, monkeypatch):
    nearest = mock.Mock(side_effect=[problems.rank_lists(), ValueError("`scores` must <fit>.")])
    monkeypatch.setattr(RetrievalResults, "nearest", nearest)
    rows = section(report(), "hardest").rows(HARDEST)
    assert nearest.mock_calls == [mock.call(10)]
    assert rows[0]["first 3 candidates"] == "2 wrong, right at 2"
    assert "Not shown: `scores` must <fit>." in section(report(), "mistakes").text


def test_the_page_says_how_to_get_missing_rank_lists(report):
    page = report(problems.of_metric(), pictures=problems.picture)
    for name in ("hardest", "mistakes"):
        assert "metric.results(nearest=10)" in section(page, name).text
        assert section(page, name).all("img") == []
    assert [row["query"] for row in section(page, "hardest").rows(HARDEST)] == ["1", "0"]
