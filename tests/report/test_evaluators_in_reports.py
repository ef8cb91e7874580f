"""Reports of every evaluator: what it reports is on the page, and images are judged as it matches."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, LvisMAP, VocMAP, YoloMAP, plot
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes, evaluate_images
from reid_torchmetrics.functional.detection.evaluation import title_of
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.plot import judged_like, plot_comparison
from reid_torchmetrics.plot.judged_boxes import Judgment
from reid_torchmetrics.report import write_report
from reid_torchmetrics.tasks import compare
from tests.functional.detection.detection_samples import fed, images
from tests.profiles import each_row
from tests.report.pages import data, read, section

pytestmark = pytest.mark.usefixtures("empty_figures")

# Both detections overlap the first ground truth most, the second one by 90/110 and the other ground truth by 80/120.
# COCO and Ultralytics match it with the one that is left; for the others it is wrong.
FIRST, SECOND, BETWEEN = [0.0, 0.0, 10.0, 10.0], [0.0, 3.0, 10.0, 13.0], [0.0, 1.0, 10.0, 11.0]
DETECTIONS = {
    "boxes": torch.tensor([FIRST, BETWEEN, [50.0, 50.0, 60.0, 60.0]]),
    "scores": torch.tensor([0.9, 0.8, 0.7]),
    "labels": torch.tensor([1, 1, 1]),
}
GROUND_TRUTHS = {"boxes": torch.tensor([FIRST, SECOND]), "labels": torch.tensor([1, 1])}
METRICS = {
    "coco": DetectionMAP,
    "lvis": LvisMAP,
    "lvis_fixed": partial(LvisMAP, fixed=True),
    "voc": VocMAP,
    **{name: partial(YoloMAP, matching=name) for name in ("ultralytics", "scaled_yolov4", "yolov4")},
}
"""the metric classes of evaluators; others are asked for by `evaluate_images` alone"""


def num_right_by(evaluator):
    """One where a detection takes the best ground truth of all, else two."""
    row = EVALUATORS[evaluator]
    takes_what_is_left = row.has_breakdown or row.is_federated
    return 2 if takes_what_is_left else 1


def picture(_: int) -> np.ndarray:
    return np.full((100, 100, 3), 200, np.uint8)


def results_of(evaluator, **options):
    if evaluator not in METRICS:
        return evaluate_images([DETECTIONS], [GROUND_TRUTHS], evaluator=evaluator, class_names={1: "cat"}, **options)
    metric = METRICS[evaluator](class_names={1: "cat"})
    metric.update([DETECTIONS], [GROUND_TRUTHS])
    return metric.results(**options)


@each_row("evaluator", EVALUATORS)
@pytest.mark.slow
def test_the_page_has_the_numbers_the_classes_and_the_errors_of_the_evaluator(evaluator, tmp_path):
    results = results_of(evaluator, across_classes=True)
    page = read(write_report(results, tmp_path / "page.html"))
    title = EVALUATORS[evaluator].title
    assert page.one("h1").text == f"Detection results, {title}"
    numbers = {row["measure"]: row["value"] for row in section(page, "numbers").rows(f"Numbers by {title}")}
    assert numbers == {
        f"{title_of(name)} (%)": f"{100 * value:.2f}" if value >= 0 else "n/a" for name, value in results.means.items()
    }
    assert [*data(page)["classes"]] == ["cat"]
    (columns,) = section(page, "classes").all("thead")
    headings = [each.text for each in columns.all("th")]
    assert len(set(headings)) == len(headings)
    assert len(section(page, "numbers").all("figure")) == 2
    # The confusion of classes has a meaning for all, kinds of errors where detections take what is left.
    errors, is_greedy = section(page, "errors"), EVALUATORS[evaluator].has_breakdown
    assert len(errors.all("figure")) == 1 + is_greedy
    assert (f"Not shown: errors of {EVALUATORS[evaluator].title} have no kinds: " in errors.text) == (not is_greedy)


@each_row("evaluator", EVALUATORS)
@pytest.mark.slow
def test_images_are_judged_as_the_evaluator_matches_with_boxes_of_the_results(evaluator, tmp_path, monkeypatch):
    options, draw = [], plot.draw_boxes
    monkeypatch.setattr(plot, "draw_boxes", lambda *a, **k: options.append(k) or draw(*a, **k))
    page = read(write_report(results_of(evaluator, boxes=True), tmp_path / "page.html", pictures=picture))
    images = section(page, "images")
    if num_right_by(evaluator) == 2:
        assert images.all("p")[0].text == "None: every ground truth is found, and nothing else."
        return
    # F1 is 2/3 with the first detection alone, and lower with the second one.
    assert images.rows("Objects of each image") == [{"image": "0", "right": "1", "wrong": "0", "missed": "1"}]
    assert len(images.all("img")) == 1
    assert [each["evaluator"] for each in options] == [EVALUATORS[evaluator]]


@each_row("evaluator", EVALUATORS)
def test_a_box_in_a_picture_is_judged_by_the_evaluator(evaluator):
    judgment = Judgment(0.0, 0.5, "xyxy", average="macro", evaluator=EVALUATORS[evaluator])
    counts = Counter(each.outcome for each in judgment.judge(DETECTIONS, GROUND_TRUTHS))
    num_right = num_right_by(evaluator)
    assert counts == Counter(right=num_right, wrong=3 - num_right, missed=2 - num_right)


@each_row("evaluator", EVALUATORS)
def test_crowds_and_difficult_ground_truths_are_not_missed(evaluator):
    judgment = Judgment(0.0, 0.5, "xyxy", average="macro", evaluator=EVALUATORS[evaluator])
    nothing = {name: values[:0] for name, values in DETECTIONS.items()}
    crowd = judgment.judge(nothing, GROUND_TRUTHS | {"iscrowd": torch.tensor([1, 0])})
    assert [(each.outcome, each.remark) for each in crowd] == [("ignored", "crowd"), ("missed", "")]
    difficult = judgment.judge(DETECTIONS, GROUND_TRUTHS | {"difficult": torch.tensor([1, 0])})
    assert ("difficult" in {each.remark for each in difficult}) == (evaluator == "voc")
    if evaluator == "voc":  # both detections belong to the difficult one
        outcomes = [(each.outcome, each.score is None) for each in difficult]
        ignored = [("ignored", True), ("ignored", False), ("ignored", False)]
        assert outcomes == [*ignored, ("missed", True), ("wrong", False)]


@pytest.mark.parametrize("whole_pixels", [True, False])
def test_boxes_of_voc_are_judged_in_the_units_of_its_metric(whole_pixels):
    # 3 by 2 pixels in 3 by 4 with both edges inside, IoU 1/2; without them 2 by 1 in 2 by 3, IoU 1/3.
    detections = {"boxes": torch.tensor([[0.0, 0.0, 2.0, 1.0]]), "scores": torch.ones(1), "labels": torch.tensor([1])}
    ground_truths = {"boxes": torch.tensor([[0.0, 0.0, 2.0, 3.0]]), "labels": torch.tensor([1])}
    metric = VocMAP(metric="map", whole_pixels=whole_pixels)
    metric.update([detections], [ground_truths])
    assert metric.compute() == whole_pixels
    packed = Detections(
        detections["boxes"] * 1.0, torch.ones(1), detections["labels"], torch.zeros(1, dtype=torch.int64)
    )
    truths = GroundTruths(ground_truths["boxes"] * 1.0, ground_truths["labels"], torch.zeros(1, dtype=torch.int64))
    by_function = evaluate_boxes(packed, truths, evaluator="voc", whole_pixels=whole_pixels)
    by_images = evaluate_images([detections], [ground_truths], evaluator="voc", whole_pixels=whole_pixels)
    for results in (metric.results(), by_function, by_images):
        judgment = Judgment(0.0, 0.5, "xyxy", average="macro", evaluator=results.evaluator)
        outcomes = [each.outcome for each in judgment.judge(detections, ground_truths)]
        assert outcomes == (["right"] if whole_pixels else ["missed", "wrong"])
        assert (results.evaluator == EVALUATORS["voc"]) == whole_pixels


@pytest.mark.parametrize("whole_pixels", [True, False])
def test_the_boxes_of_voc_have_the_outcomes_that_its_results_count(whole_pixels):
    preds, target = images(47, 20, with_ids=True)
    for each in target:
        each["difficult"] = torch.arange(len(each["labels"])) % 3 == 1
    results = fed(VocMAP(whole_pixels=whole_pixels), preds, target).results(boxes=True)
    counted, options = results.image_errors(), judged_like(results)
    names = ("min_score", "iou_threshold", "average", "evaluator")
    judgment = Judgment(box_format="xyxy", **{name: options[name] for name in names})
    num_ignored = 0
    for place, boxes in enumerate(zip(*results.boxes_of(results.images), strict=True)):
        judged = judgment.judge(*boxes)
        counts = Counter(box.outcome for box in judged)
        assert counts["right"] == counted.num_true_positives[place]
        assert counts["wrong"] == counted.num_false_positives[place]
        assert counts["missed"] == counted.num_misses[place]
        num_ignored += sum(bool(box.remark) for box in judged)
    # Crowds may be difficult, too.
    assert num_ignored == sum(int((each["difficult"] | each.get("iscrowd", 0) > 0).sum()) for each in target)


WITHOUT_THRESHOLD = {
    "map_75": lambda: DetectionMAP(iou_thresholds=[0.5, 0.6]),
    "map_50": lambda: VocMAP(iou_thresholds=[0.75]),
}


@pytest.mark.parametrize("lacking", WITHOUT_THRESHOLD)
@pytest.mark.slow
def test_a_number_at_a_threshold_that_is_not_the_metrics_is_left_out(lacking, tmp_path):
    results = fed(WITHOUT_THRESHOLD[lacking](), *images(0)).results()
    comparison = compare(results, results, num_resamples=3, num_permutations=3)
    page = write_report(results, tmp_path / "page.html", comparison=comparison).read_text(encoding="utf-8")
    figure, _ = plot_comparison(comparison)
    labels = [text.get_text() for text in figure.findobj(match=lambda each: hasattr(each, "get_text"))]
    for each in ("map", "map_50", "map_75"):
        title, is_there = each.replace("map", "mAP").replace("_", ""), each != lacking
        assert (each in comparison.differences) == (each in comparison.to_dict()["measures"]) == is_there
        assert (f"\n  {each} " in str(comparison)) == is_there
        assert (f">{title} (%)<" in page) == is_there
        assert (title in labels) == is_there
