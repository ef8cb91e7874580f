"""The report of a detection: what it says is what the results say."""

import json
from unittest import mock

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, plot
from reid_torchmetrics.report import write_report
from tests.report import problems
from tests.report.pages import Element, data, read, section

pytestmark = pytest.mark.usefixtures("empty_figures")

NUMBERS = "Numbers by COCO"
THRESHOLDS = "mean over 10 IoU thresholds from 0.5 to 0.95"
LIMITS = "area range all, no limit; at most 100 detections of an image and class"
OPTIONS = "boxes matched by the rules of COCO; means over classes"
CLASSES = "Means over IoU thresholds; AP50 at IoU 0.5; AP75 at IoU 0.75"
NASTY = "</script><script>alert('x')</script>"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Of the metric with names and of the function, by their kind."""
    folder = tmp_path_factory.mktemp("reports")
    return {
        "metric": read(write_report(problems.detection(), folder / "metric.html", class_names={3: "cat", 7: NASTY})),
        "function": read(write_report(problems.coco(), folder / "function.html")),
    }


@pytest.mark.parametrize("kind", ["metric", "function"])
@pytest.mark.slow
def test_the_twelve_numbers_are_those_of_the_results(pages, kind):
    rows = section(pages[kind], "numbers").rows(NUMBERS)
    numbers = {row["measure"]: row["value"] for row in rows}
    # Class 3 has 51/101 and class 7 has 1: the mean is 75.25 %. Of class 3 a half is found, of class 7 all.
    assert numbers == {
        **dict.fromkeys(("mAP (%)", "mAP50 (%)", "mAP75 (%)", "mAP medium (%)"), "75.25"),
        **dict.fromkeys(("mAR1 (%)", "mAR10 (%)", "mAR100 (%)", "mAR medium (%)"), "75.00"),
        **dict.fromkeys(("mAP small (%)", "mAP large (%)", "mAR small (%)", "mAR large (%)"), "n/a"),
    }


def test_the_convention_is_said_once_and_what_differs_for_each_number(pages):
    listed = [each.text for each in section(pages["metric"], "numbers").one("ul").all("li")]
    assert listed == [
        f"Unless noted: average precision, as in COCO; {THRESHOLDS}; {LIMITS}; {OPTIONS}.",
        "mAP50: at IoU 0.5.",
        "mAP75: at IoU 0.75.",
        "mAP small: area range small, 0 to 32² pixels.",
        "mAP medium: area range medium, 32² to 96² pixels.",
        "mAP large: area range large, 96² pixels or more.",
        "mAR1: largest recall; at most 1 detection of an image and class.",
        "mAR10: largest recall; at most 10 detections of an image and class.",
        "mAR100: largest recall.",
        "mAR small: largest recall; area range small, 0 to 32² pixels.",
        "mAR medium: largest recall; area range medium, 32² to 96² pixels.",
        "mAR large: largest recall; area range large, 96² pixels or more.",
    ]


def test_the_classes_have_their_names_counts_and_values(pages):
    cat, other = section(pages["metric"], "classes").rows(CLASSES)
    assert cat == {
        "class": "cat",
        "ground truths": "2",
        "detections": "2",
        "AP (%)": "50.50",
        "AP50 (%)": "50.50",
        "AP75 (%)": "50.50",
        "recall (%)": "50.00",
        "F1 (%)": "66.67",
        "confidence": "0.900",
    }
    assert other["class"] == NASTY
    assert len(pages["metric"].all("script")) == 2
    plain = section(pages["function"], "classes").rows(CLASSES)
    assert [(row["class"], row["AP (%)"]) for row in plain] == [("class 3", "50.50"), ("class 7", "100.00")]


@pytest.mark.parametrize("kind", ["metric", "function"])
def test_the_images_with_the_most_errors_are_listed(pages, kind):
    assert len(section(pages[kind], "numbers").all("figure")) == 2
    (row,) = section(pages[kind], "images").rows("Objects of each image")
    assert row == {"image": "1", "right": "0", "wrong": "0", "missed": "1"}


BOXES = {"detections": problems.DETECTIONS, "ground_truths": problems.GROUND_TRUTHS}


def black(_) -> np.ndarray:
    return np.zeros((300, 300, 3), dtype=np.uint8)


def boxes_of(*labels: int) -> dict:
    return {"boxes": torch.tensor([problems.BOX]).repeat(len(labels), 1), "labels": torch.tensor(labels)}


def page_of(folder, *labels: int, report=None, **options) -> Element:
    """The page of one image whose boxes are all found."""
    metric, boxes = DetectionMAP(**options), boxes_of(*labels)
    metric.update([boxes | {"scores": torch.full((len(labels),), 0.5)}], [boxes])
    return read(write_report(metric.results(), folder / "r.html", **(report or {})))


NO_BOXES = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
RIGHT = boxes_of(1) | {"scores": torch.tensor([0.9])}, boxes_of(1)
OF_NOTHING = boxes_of(9) | {"scores": torch.tensor([0.99])}, NO_BOXES
EMPTY = NO_BOXES | {"scores": torch.zeros(0)}, NO_BOXES


def images_section(*images: tuple[dict, dict], folder) -> Element:
    metric = DetectionMAP()
    metric.update([found for found, _ in images], [true for _, true in images])
    return section(read(write_report(metric.results(), folder / "r.html")), "images")


@pytest.mark.slow
def test_without_errors_the_page_says_what_that_means(tmp_path):
    for images, said in (
        ([RIGHT, EMPTY], "None: every ground truth is found, and nothing else."),
        ([EMPTY, EMPTY], "None: there are neither ground truths nor detections that count."),
        ([], "None: there are no images."),
    ):
        assert images_section(*images, folder=tmp_path).all("p")[0].text == said


@pytest.mark.parametrize("images", [[OF_NOTHING] * 20, [RIGHT, RIGHT, *[OF_NOTHING] * 10]])
@pytest.mark.slow
def test_detections_of_a_class_without_ground_truths_are_errors_of_their_images(images, tmp_path):
    rows = images_section(*images, folder=tmp_path).rows("Objects of each image")
    assert [int(row["image"]) for row in rows] == [place for place, each in enumerate(images) if each is OF_NOTHING]
    assert {(row["right"], row["wrong"], row["missed"]) for row in rows} == {("0", "1", "0")}


@pytest.mark.parametrize("is_function", [True, False])
@pytest.mark.slow
def test_images_are_drawn_with_their_boxes(is_function, tmp_path):
    boxes = {name: values.__getitem__ for name, values in BOXES.items()} if is_function else BOXES
    image = mock.Mock(side_effect=black)
    page = read(write_report(problems.detection(), tmp_path / "r.html", pictures=image, **boxes))
    assert image.mock_calls == [mock.call(1)]
    (item,) = section(page, "images").one("ul").all("li")
    assert item.one("img").attributes["alt"] == "image 1 with its boxes"


@pytest.mark.slow
def test_boxes_have_the_names_of_the_metric_as_the_tables_have(tmp_path, monkeypatch):
    seen, draw = [], plot.draw_boxes
    monkeypatch.setattr(plot, "draw_boxes", lambda *a, **k: seen.append(k["class_names"]) or draw(*a, **k))
    metric = DetectionMAP(class_names={3: "cat", 7: "dog"})
    metric.update(problems.DETECTIONS, problems.GROUND_TRUTHS)
    for names in ({}, {"class_names": {3: "lion"}}):
        write_report(metric.results(), tmp_path / "r.html", pictures=black, **BOXES, **names)
    assert seen == [{3: "cat", 7: "dog"}, {3: "lion"}]


@pytest.mark.slow
def test_an_image_that_is_missing_has_the_reason_in_its_place(tmp_path):
    with pytest.warns(UserWarning, match="A picture of the report is missing"):
        page = read(write_report(problems.detection(), tmp_path / "r.html", pictures=[], **BOXES))
    (item,) = section(page, "images").one("ul").all("li")
    assert item.all("p")[1].text == "No picture: `pictures` must have a picture for each number; got none for 1."


@pytest.mark.slow
def test_images_with_names_are_asked_for_and_shown_by_them(tmp_path):
    names = ["rooms/a.jpg", "rooms/<b>.jpg", "rooms/c.jpg"]
    metric = DetectionMAP()
    truths = [each | {"image_id": name} for each, name in zip(problems.GROUND_TRUTHS, names, strict=True)]
    metric.update(problems.DETECTIONS, truths)
    image = mock.Mock(side_effect=black)
    sides = {"detections": problems.DETECTIONS, "ground_truths": truths}
    boxes = {side: dict(zip(names, values, strict=True)) for side, values in sides.items()}
    page = read(write_report(metric.results(), tmp_path / "r.html", pictures=image, **boxes))
    assert image.mock_calls == [mock.call(names[1])]
    (row,) = section(page, "images").rows("Objects of each image")
    assert row["image"] == names[1]
    (item,) = section(page, "images").one("ul").all("li")
    assert item.one("img").attributes["alt"] == f"image {names[1]} with its boxes"
    page = read(write_report(metric.results(boxes=True), tmp_path / "r.html", pictures=image))
    assert len(section(page, "images").all("img")) == 1


@pytest.mark.slow
def test_the_worst_of_many_images_are_seen_at_once(tmp_path):
    metric = DetectionMAP()
    found, true = [EMPTY[0]] * 8, [boxes_of(0)] * 8
    metric.update(found, true)
    options = {"pictures": black, "detections": found, "ground_truths": true}
    page = read(write_report(metric.results(), tmp_path / "r.html", num_worst=7, **options))
    images = section(page, "images")
    assert len(images.all("img")) == 7
    assert [each.text for each in images.all("summary")] == ["1 more", "Their objects in numbers"]


def test_the_page_has_the_numbers_for_programs(pages):
    found = data(pages["metric"])
    assert found["numbers"]["map"]["value"] == pytest.approx((51 / 101 + 1) / 2)
    assert found["numbers"]["map_small"]["value"] is None
    assert found["classes"]["cat"]["map"] == pytest.approx(51 / 101)
    assert json.loads(section(pages["metric"], "provenance").one("pre").text) == found


@pytest.mark.slow
def test_an_area_without_an_end_is_json_and_all_classes_together_are_called_so(tmp_path):
    page = page_of(tmp_path, 0, area_ranges={"all": (0.0, float("inf"))})
    assert data(page)["area_ranges"] == {"all": [0.0, None]}
    page = page_of(tmp_path, 3, average="micro", report={"class_names": {0: "no"}})
    (row,) = section(page, "classes").rows(CLASSES)
    assert row["class"] == "all classes together"


@pytest.mark.slow
def test_many_classes_are_folded_and_have_a_filter(tmp_path):
    page = page_of(tmp_path, *range(21))
    (folded,) = section(page, "classes").all("details")
    assert folded.one("summary").text == "All 21 classes"
    assert folded.one("label").text == "class beginning with "
    assert section(page, "images").all("table") == []
