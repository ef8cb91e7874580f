"""The report of a retrieval: what it says is what the results say."""

import json
import math
import re

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import CameraPairs, evaluate_scores
from reid_torchmetrics.functional.retrieval.measures import AP_RULES, CMC_MODES, PRECISION_DIVISORS
from reid_torchmetrics.functional.retrieval.relevance import SAME_CAMERA_RULES
from reid_torchmetrics.report import write_report
from reid_torchmetrics.tasks import Duplicates
from tests.report import problems
from tests.report.pages import data, read, section


def test_the_numbers_are_those_of_the_results_with_their_conventions_in_words(report):
    results = problems.retrieval()
    page = report(results)
    rows = section(page, "numbers").rows("Means over queries")
    assert [row["measure"] for row in rows] == ["mAP (%)", "Rank-1 (%)"]
    assert [row["value"] for row in rows] == ["66.67", "50.00"]
    said = [each.text for each in section(page, "numbers").one("ul").all("li")]
    market = "gallery images of the query's identity and camera are removed"
    assert said == [
        f"Unless noted: {market}; junk identities: -1; queries without a match are left out.",
        "mAP: average precision, not interpolated, over all ranks.",
        "Rank-1: CMC of the first match, at rank 1.",
    ]


OPTIONS = [{"same_camera": rule} for rule in SAME_CAMERA_RULES]
OPTIONS += [{"rule": rule} for rule in AP_RULES] + [{"mode": mode} for mode in CMC_MODES]
OPTIONS += [{"precision_divisor": divisor} for divisor in PRECISION_DIVISORS]
OPTIONS += [{"empty_target_action": action} for action in ("skip", "neg", "pos")]


@pytest.mark.parametrize("options", OPTIONS)
def test_no_convention_is_an_identifier(report, options):
    results = problems.retrieval(reports=("map", "rank_1", "precision_5"), **options)
    said = section(report(results), "numbers").one("ul").text
    assert re.findall(r"\w+_\w+|\brule\b|positive: |camera: ", said) == []


def test_the_intervals_are_those_of_the_seed_0_or_of_a_given_generator(report):
    results = problems.retrieval()
    for options, seed in (({}, 0), ({"generator": torch.Generator().manual_seed(3)}, 3)):
        rows = section(report(results, **options), "numbers").rows("Means over queries")
        generator = torch.Generator().manual_seed(seed)
        for name, row in zip(results.per_query, rows, strict=True):
            interval = results.interval(name, generator=generator)
            assert row["95 % interval"] == f"{100 * float(interval.low):.2f} to {100 * float(interval.high):.2f}"


def test_a_rank_is_not_a_percentage(report):
    rows = section(report(problems.retrieval(reports=("mean_rank",))), "numbers").rows("Means over queries")
    assert (rows[0]["measure"], rows[0]["value"]) == ("Mean rank", "1.50")


def test_queries_are_counted_with_the_reasons_why_some_have_no_value_or_count_as_0(report):
    queries = section(report(), "numbers")
    rows = queries.rows("Queries; those without a positive are left out of the means")
    counts = [("evaluated", "2"), ("without a positive", "1"), ("all", "3")]
    assert [(row["queries"], row["number"]) for row in rows] == counts
    assert rows[1]["why"] == "no other gallery item has its identity"
    medians = {row["per query"]: row["median"] for row in queries.rows("Median over evaluated queries")}
    assert medians == {"positives": "2", "candidates": "4"}
    queries = section(report(problems.retrieval(empty_target_action="neg")), "numbers")
    assert queries.rows("Queries; those without a positive count as 0 in the means")
    assert queries.rows("Means over queries")[1]["value"] == "33.33"


@pytest.mark.slow
def test_the_curves_are_drawn_and_one_that_is_not_defined_has_its_reason(tmp_path):
    page = read(write_report(problems.retrieval(), tmp_path / "r.html"))
    shown = {name: section(page, name).all("svg") for name in ("numbers", "curves")}
    captions = {name: [each.attributes["aria-labelledby"] for each in svgs] for name, svgs in shown.items()}
    assert captions == {"numbers": ["cmc-caption"], "curves": ["precision-recall-caption", "first-ranks-caption"]}
    curves = section(read(write_report(problems.retrieval(ties="expected"), tmp_path / "r.html")), "curves")
    assert "Not shown: " in curves.text
    assert len(curves.all("figure")) == 1


def test_pairs_of_cameras_are_drawn_and_listed_or_the_page_says_how_to_get_them(report):
    # Of camera 1 query 0 finds its item first, of camera 2, too; query 1 finds its item second in both.
    pairs = section(report(), "camera-pairs")
    assert len(pairs.all("figure")) == 1
    assert pairs.rows("mAP (%)") == [
        {"query camera": "0", "gallery camera 1": "75.00", "gallery camera 2": "75.00"},
        {"query camera": "5", "gallery camera 1": "n/a", "gallery camera 2": "n/a"},
    ]
    pairs = section(report(problems.of_metric()), "camera-pairs")
    assert "metric.results(camera_pairs=True)" in pairs.text
    assert pairs.all("figure") == []


def test_without_cameras_there_are_neither_cameras_nor_pairs_and_the_page_says_why(report):
    page = report(evaluate_scores(problems.SCORES, *problems.LABELS[:2], reports=("map",)))
    for name in ("camera-pairs", "cameras"):
        assert "Not shown: `" in section(page, name).text
        assert section(page, name).all("table") == []


def test_cameras_and_identities_have_the_means_of_their_queries(report):
    page = report()
    assert section(page, "cameras").rows("Means over the queries of each camera") == [
        {"camera": "0", "queries": "2", "with a value": "2", "mAP (%)": "66.67", "Rank-1 (%)": "50.00"},
        {"camera": "5", "queries": "1", "with a value": "0", "mAP (%)": "n/a", "Rank-1 (%)": "n/a"},
    ]
    rows = section(page, "identities").rows("Means over the queries of each identity")
    assert [(row["identity"], row["mAP (%)"]) for row in rows] == [("2", "50.00"), ("1", "83.33"), ("3", "n/a")]


def test_identities_are_ordered_with_the_worst_first_where_the_number_is_a_rank(report):
    identities = section(report(problems.retrieval(reports=("mean_rank", "map"))), "identities")
    rows = identities.rows("Means over the queries of each identity")
    assert [(row["identity"], row["Mean rank"]) for row in rows] == [("2", "2"), ("1", "1"), ("3", "n/a")]
    assert identities.one("summary").text == "All 3 identities, by falling Mean rank"


def test_identities_have_names_that_are_escaped(report, with_lists):
    nasty = '</script><script>alert("x")</script>'
    page = report(with_lists, identity_names={2: nasty}, pictures=problems.picture, title=nasty)
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
    assert [(row["value"], row["95 % interval"]) for row in rows] == [("n/a", "n/a")] * 2
    assert math.isnan(results.means["map"])
    assert data(page)["measures"]["map"]["value"] is None


def test_tables_have_the_cameras_with_the_most_queries(report):
    query, gallery = torch.arange(60), torch.arange(45) + 100
    num_valid = torch.ones(60, 45, dtype=torch.int64)
    num_valid[:20] = 0
    num_valid[:, 40] = 0
    pairs = {"map": CameraPairs(query, gallery, torch.full((60, 45), 0.5, dtype=torch.float64), num_valid)}
    results = problems.of_metric(camera_pairs=pairs)
    object.__setattr__(results, "by_camera_pair", pairs.__getitem__)
    shown = section(report(results), "camera-pairs")
    rows = shown.rows("mAP (%)")
    assert [row["query camera"] for row in rows] == [str(camera) for camera in range(20, 60)]
    assert [*rows[0]][1:] == [f"gallery camera {camera}" for camera in range(100, 140)]
    assert shown.one("summary").text == "As tables, of 40 cameras at most, those with the most queries"


@pytest.mark.slow
def test_the_worst_of_many_identities_are_listed(report):
    scores, identities = torch.eye(1100), torch.arange(1100)
    scores[1050, 7] = 2.0
    page = report(evaluate_scores(scores, identities, identities, reports=("map",)))
    shown = section(page, "identities")
    rows = shown.rows("Means over the queries of each identity")
    assert [row["identity"] for row in rows] == ["1050", *map(str, range(999))]
    assert shown.one("summary").text == "The worst 1,000 of 1,100 identities, by rising mAP"


MEANS = "Means over queries"
COLUMNS = ("all queries", "without near copies")


def near(query, gallery, *, within=False) -> Duplicates:
    ends = (torch.tensor(end, dtype=torch.int64) for end in (query, gallery))
    return Duplicates(*ends, torch.ones(len(query)), within, "cosine", 0.95, num_queries=3)


def duplicate_numbers(page) -> list[list[str]]:
    rows = section(page, "duplicates").rows(MEANS)
    return [[row["measure"], *(row[column] for column in COLUMNS)] for row in rows]


def test_numbers_stand_beside_those_without_the_queries_of_pairs(report):
    page = report(duplicates=near([0, 0], [1, 3]))
    # Average precision 5/6 of query 0 and 1/2 of query 1, of which only query 0 is right at first; query 2 has none.
    assert duplicate_numbers(page) == [["mAP (%)", "66.67", "50.00"], ["Rank-1 (%)", "50.00", "0.00"]]
    sentence = "2 pairs of cosine 0.95 or more: 1 of 3 queries has a near copy."
    assert sentence in section(page, "duplicates").text
    assert not section(page, "duplicates").all("img")
    # Within one set both items of a pair are left out.
    page = report(duplicates=near([0], [1], within=True))
    assert duplicate_numbers(page) == [["mAP (%)", "66.67", "n/a"], ["Rank-1 (%)", "50.00", "n/a"]]
    assert "1 pair of cosine 0.95 or more: 2 of 3 items have a near copy." in section(page, "duplicates").text
    assert not report().all("section", id="duplicates")


@pytest.mark.parametrize("given", ["pictures", "gallery_pictures", "duplicate_pictures"])
def test_pictures_of_pairs_are_those_of_queries_and_of_what_they_are_near_to(report, with_lists, given):
    asked = []

    def pictures(name):
        def picture(number):
            asked.append((name, number))
            return problems.picture(0)

        return picture

    options = ["pictures", "gallery_pictures", "duplicate_pictures"]
    options = {name: pictures(name) for name in options[: options.index(given) + 1]}
    page = report(with_lists, duplicates=near([1], [2]), num_hardest=1, num_mistakes=1, **options)
    assert section(page, "duplicates").one("img").attributes["alt"] == "pairs with the highest scores"
    index = int(with_lists.query_index[1])
    place = asked.index(("pictures", index))
    assert asked[place + 1] == (given, 2)


def test_within_one_set_pictures_of_both_are_those_of_the_queries(report, with_lists):
    asked = []

    def picture(number):
        asked.append(number)
        return problems.picture(0)

    found = near([0], [2], within=True)
    report(with_lists, duplicates=found, pictures=picture, gallery_pictures=lambda _: problems.picture(0))
    assert asked[:2] == with_lists.query_index[[0, 2]].tolist()


def test_pictures_in_an_array_are_taken(report, with_lists):
    images = np.zeros((50, 16, 8, 3), dtype=np.uint8)
    page = report(with_lists, duplicates=near([1], [2]), pictures=images, gallery_pictures=images)
    assert len(section(page, "duplicates").all("img")) == 1


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        (
            {"duplicates": near([3], [0])},
            ValueError,
            "`duplicates.query` must lie in [0, 3); got values from 3 to 3.",
        ),
        (
            {"duplicates": near([0], [3], within=True)},
            ValueError,
            "`duplicates.query` must lie in [0, 3); got values",
        ),
        ({"duplicates": [0]}, TypeError, "`duplicates` must be"),
        ({"duplicate_pictures": 3}, TypeError, "`duplicate_pictures` must be a function of a number"),
        ({"duplicate_pictures": problems.picture}, ValueError, "`duplicate_pictures` must come with `pictures` and"),
    ],
)
def test_arguments_that_do_not_fit_are_named(report, options, kind, said):
    with pytest.raises(kind, match=re.escape(said)):
        report(**options)
