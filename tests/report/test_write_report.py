"""The file: one page that holds all that it shows, written as a whole or not at all, and the same every time."""

import re
from itertools import pairwise
from unittest import mock

import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.retrieval import evaluate_scores
from reid_torchmetrics.report import write, write_report
from tests.report import problems
from tests.report.pages import parse

KINDS = {
    "retrieval": (problems.retrieval, lambda: {"identity_names": {1: "one"}, "title": "A title"}),
    "metric": (lambda: problems.of_metric(rank_lists=problems.rank_lists()), lambda: {"pictures": problems.picture}),
    "empty": (lambda: evaluate_scores(torch.rand(0, 2), torch.arange(0), torch.arange(2)), dict),
    "detection": (problems.detection, lambda: {"class_names": {3: "three"}}),
    "coco": (problems.coco, dict),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def html(kind, tmp_path_factory):
    return written(kind, tmp_path_factory.mktemp("reports") / "report.html").decode("utf-8")


def written(kind, path):
    results, options = KINDS[kind]
    return write_report(results(), path, **options()).read_bytes()


@pytest.fixture(scope="module")
def page(html):
    return parse(html)


@pytest.mark.slow
def test_the_page_is_well_formed_and_says_what_it_is(html, page):
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert page.one("html").one("head").one("meta", name="viewport")
    assert page.one("title").text == page.one("h1").text != ""
    *_, script = page.all("script")
    assert script.attributes == {}
    assert len(script.text.strip().splitlines()) <= 30


def test_all_ids_are_unique_and_all_links_lead_to_one(page):
    ids = [each.attributes["id"] for each in page.all() if "id" in each.attributes]
    assert len(set(ids)) == len(ids)
    assert {each.attributes["href"][1:] for each in page.all("a")} <= set(ids)
    named = [each.attributes["aria-labelledby"] for each in page.all() if "aria-labelledby" in each.attributes]
    assert {*named} <= {*ids}


def test_nothing_is_loaded_from_elsewhere(html, page):
    loaded = [each.attributes.get(key) for each in page.all() for key in ("src", "href", "srcset", "data", "action")]
    assert all(each.startswith(("#", "data:")) for each in loaded if each is not None)
    style = page.one("style").text + "".join(each.attributes.get("style") or "" for each in page.all())
    assert "@import" not in style
    assert re.findall(r"url\((?!#)", html) == []


def test_headings_are_in_order_and_every_section_is_in_the_contents_and_shows_something(page):
    levels = [int(each.name[1]) for each in page.all() if re.fullmatch(r"h[1-6]", each.name)]
    assert levels[0] == 1
    assert all(second - first <= 1 for first, second in pairwise(levels))
    contents = [each.attributes["href"] for each in page.one("nav").all("a")]
    assert contents == [f"#{each.attributes['id']}" for each in page.all("section")]
    assert all(each.all("table") or each.all("figure") or each.all("p") for each in page.all("section"))


def test_every_picture_has_words_and_every_table_a_caption(page):
    assert all(each.attributes["alt"] for each in page.all("img"))
    assert all(each.one("caption").text for each in page.all("table"))
    assert all("aria-labelledby" in each.attributes for each in page.all("svg"))


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes(kind, html, tmp_path):
    assert written(kind, tmp_path / "another name.html") == html.encode("utf-8")


@pytest.mark.slow
def test_folders_are_made_an_older_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "folder" / "report.html"
    path.parent.mkdir(parents=True)
    path.write_text("older", encoding="utf-8")
    assert reid_torchmetrics.write_report(problems.coco(), str(path)) == path
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    assert [*path.parent.iterdir()] == [path]
    assert write_report(problems.coco(), tmp_path / "other" / "r.html").exists()


def test_a_page_that_fails_leaves_the_older_file_and_one_that_cannot_take_its_place_nothing(tmp_path, monkeypatch):
    path, folder = tmp_path / "report.html", tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="folder"):
        write_report(problems.coco(), folder)
    path.write_text("older", encoding="utf-8")
    monkeypatch.setitem(write._PAGES, DetectionResults, (mock.Mock(side_effect=RuntimeError), "a detection"))
    with pytest.raises(RuntimeError):
        write_report(problems.coco(), path)
    assert path.read_text(encoding="utf-8") == "older"
    assert {*tmp_path.iterdir()} == {path, folder}


OPTIONS_OF = {
    "retrieval": ("gallery_pictures", "num_hardest", "num_mistakes", "generator", "identity_names"),
    "detection": ("num_worst", "detections", "ground_truths", "box_format", "class_names"),
}


@pytest.mark.parametrize(("kind", "other"), [("retrieval", "detection"), ("detection", "retrieval")])
def test_an_option_of_the_other_kind_is_refused(kind, other, tmp_path):
    for name in OPTIONS_OF[other]:
        value = {1: "one"} if name.endswith("_names") else []
        message = rf"^`{name}` must be left out for results of a {kind}; got {type(value).__name__}\.$"
        with pytest.raises(ValueError, match=message):
            write_report(KINDS[kind][0](), tmp_path / "r.html", **{name: value})


NO_RESULTS = (
    "`results` must be those of an evaluation, such as `evaluate` or `evaluate_boxes`, or of a metric's `results()`;"
    " got dict."
)
ONE_SIDE = (
    "`pictures`, `detections` and `ground_truths` must be given together, or `pictures` alone for"
    " `results(boxes=True)`; got `pictures`, `detections` alone."
)
GALLERY = "`gallery_pictures` must come with `pictures`, those of the queries; got None for them."
NO_MAPPING = "must be a mapping of labels to names; got list."
PICTURES = "`pictures` must be a function of a number or be indexed by it; got int."
FORMAT = "`box_format` must be one of 'xyxy', 'xywh', 'cxcywh'; got 'yxyx'."


@pytest.mark.parametrize(
    ("results", "options", "error", "message"),
    [
        (dict, {}, TypeError, NO_RESULTS),
        (problems.retrieval, {"num_hardest": 0}, ValueError, "`num_hardest` must be at least 1; got 0."),
        (problems.retrieval, {"num_mistakes": 1.5}, TypeError, "`num_mistakes` must be an int; got float."),
        (problems.retrieval, {"comparison": 1}, TypeError, "`comparison` must be one of Comparison or None; got int."),
        (problems.retrieval, {"generator": 1}, TypeError, "`generator` must be one of Generator or None; got int."),
        (problems.retrieval, {"identity_names": ["a"]}, TypeError, f"`identity_names` {NO_MAPPING}"),
        (problems.retrieval, {"image_names": ["a"]}, TypeError, f"`image_names` {NO_MAPPING}"),
        (problems.retrieval, {"gallery_image_names": ["a"]}, TypeError, f"`gallery_image_names` {NO_MAPPING}"),
        (problems.retrieval, {"pictures": 3}, TypeError, PICTURES),
        (problems.retrieval, {"title": 1}, TypeError, "`title` must be one of str or None; got int."),
        (problems.coco, {"class_names": {1: 2}}, TypeError, "`class_names` must have strings as names; got 1: 2."),
        (problems.detection, {"num_worst": 0}, ValueError, "`num_worst` must be at least 1; got 0."),
        (problems.detection, {"box_format": "yxyx"}, ValueError, FORMAT),
        (problems.detection, {"pictures": [], "detections": []}, ValueError, ONE_SIDE),
        (problems.retrieval, {"gallery_pictures": problems.picture}, ValueError, GALLERY),
    ],
)
def test_a_wrong_value_has_a_message(results, options, error, message, tmp_path):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        write_report(results(), tmp_path / "r.html", **options)
    assert [*tmp_path.iterdir()] == []
