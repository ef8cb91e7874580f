"""The contract of an evaluator of detections: what every row of `EVALUATORS` must satisfy, and rows that do not."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, get_args
from unittest import mock

import pytest
import torch

from reid_torchmetrics import _names
from reid_torchmetrics.functional.detection import DetectionResults, evaluate_images
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator
from tests.contracts.missing import assert_nothing_missing
from tests.profiles import each_row
from tests.reference import evaluators as reference
from tests.reference.detection import Detection, GroundTruth, box_area

DOCS = Path(__file__).parents[2] / "docs"
NUM_IMAGES, NUM_CLASSES = 6, 3
# The look-up of a row imports its task, with rows that nobody has named.
YOLO, VOC = EVALUATORS["ultralytics"], EVALUATORS["voc"]
YOLOV4, SCALED = EVALUATORS["yolov4"], EVALUATORS["scaled_yolov4"]
Rows = tuple[list[Detection], list[GroundTruth]]


def draw_rows(seed: int) -> Rows:
    """Detections of distinct scores near the ground truths of some images, and others."""
    random = Random(seed)  # noqa: S311 - nothing is to be kept secret
    detections, truths = [], []
    scores = [place / 100 for place in range(1, 100)]
    random.shuffle(scores)
    for image in range(NUM_IMAGES):
        for _ in range(random.randint(0, 4)):
            label = random.randrange(NUM_CLASSES)
            box = tuple(float(random.randint(least, most)) for least, most in ((0, 60), (0, 60), (10, 60), (10, 60)))
            truths.append(GroundTruth(image, label, box, is_crowd=False, area=box_area(box)))
            for _ in range(random.randint(0, 2)):
                moved = tuple(side + random.randint(-3, 3) for side in box)
                detections.append(Detection(image, label, moved, scores.pop()))
        for _ in range(2):
            box = tuple(float(random.randint(5, 60)) for _ in range(4))
            detections.append(Detection(image, random.randrange(NUM_CLASSES), box, scores.pop()))
    return detections, truths


def dicts_of(rows: Rows, row: Evaluator) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The images of `evaluate_images`, annotated in full."""
    preds, target = [], []
    for image in range(NUM_IMAGES):
        found = [detection for detection in rows[0] if detection.image == image]
        true = [truth for truth in rows[1] if truth.image == image]
        preds.append(_columns(found) | {"scores": torch.tensor([detection.score for detection in found])})
        target.append(_columns(true))
        if row.is_federated:
            target[-1] |= {"neg_category_ids": [*range(NUM_CLASSES)], "not_exhaustive_category_ids": []}
    return preds, target


def _columns(rows: Any) -> dict[str, Any]:
    boxes = torch.tensor([row.box for row in rows]).reshape(-1, 4)
    return {"boxes": boxes, "labels": torch.tensor([row.label for row in rows], dtype=torch.int64)}


def check_evaluator(name: str, row: Evaluator, folder: Path) -> None:
    """Raise an AssertionError unless a row keeps the contract of an evaluator; its message says what to add."""
    pages = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")]
    reference_words = (
        "has no slow reference: add its matching and its rule to `EVALUATORS` of tests/reference/evaluators.py"
    )
    found = {
        reference_words: name in reference.EVALUATORS,
        "is no `EvaluatorName`: add it to `TaskEvaluator` in _names.py, by which its task is found": name
        in get_args(_names.EvaluatorName),
        "is on no page of docs/: add a row to detection/options.md": any(f'"{name}"' in page for page in pages),
    }
    assert_nothing_missing(name, found)
    titles = [other.title for key, other in EVALUATORS.items() if key != name]
    assert row.title not in ("", *titles), f"{name!r} must have a `title` of its own; got {row.title!r}"
    check_fields(name, row)
    with mock.patch.dict(EVALUATORS, {name: row}):
        for seed in range(3):
            check_numbers(name, row, draw_rows(seed))
        check_results(name, row, folder)


def check_fields(name: str, row: Evaluator) -> None:
    """Rules are known, and the default is one of them; a confidence is reported or None."""
    assert row.rule in row.rules, f"{name!r} has the rule {row.rule!r}, which is not among its rules {row.rules}"
    unknown = {*row.rules} - AP_RULES.keys()
    assert not unknown, f"{name!r} has rules that `AP_RULES` lacks: {sorted(unknown)}"
    assert row.confidence is None or row.reports_confidence, (
        f"{name!r} has a `confidence` and reports nothing at one: set `reports_confidence`"
    )


def check_numbers(name: str, row: Evaluator, rows: Rows) -> None:
    """The mean average precision is that of the slow reference, for any order of images and any memory."""
    preds, target = dicts_of(rows, row)
    found = float(evaluate_images(preds, target, evaluator=name, box_format="xywh").means["map"])
    expected = reference.EVALUATORS[name](*rows)
    assert found == pytest.approx(expected, abs=1e-9), (
        f"mean average precision of {name!r} is {found}, not {expected} as in tests/reference/evaluators.py"
    )
    turned = evaluate_images(preds[::-1], target[::-1], evaluator=name, box_format="xywh", max_bytes=1000)
    assert float(turned.means["map"]) == found, f"numbers of {name!r} depend on the order of images, or on `max_bytes`"


def check_results(name: str, row: Evaluator, folder: Path) -> None:
    """Results have words, tables and files, and a breakdown of errors or a reason."""
    preds, target = dicts_of(draw_rows(0), row)
    results = evaluate_images(preds, target, evaluator=name, box_format="xywh", across_classes=True)
    path = folder / "results.npz"
    results.save(path)
    loaded = DetectionResults.load(path)
    assert repr(dict(loaded.means)) == repr(dict(results.means)), f"results of {name!r} change in a file"
    kept = {each.evaluator.title for each in (results, loaded)}
    assert kept == {row.title}, f"results of {name!r} name the evaluators {sorted(kept)}, not {row.title!r}"
    if row.has_breakdown:
        results.error_breakdown()
        return
    with pytest.raises(ValueError, match=r"^`error_breakdown` |kinds"):
        results.error_breakdown()


@each_row("name", EVALUATORS)
def test_an_evaluator_keeps_its_contract(name, tmp_path):
    check_evaluator(name, EVALUATORS[name], tmp_path)


def test_every_reference_is_of_a_row():
    assert reference.EVALUATORS.keys() <= EVALUATORS.keys()


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("mine", YOLO, "'mine' has no slow reference: add its matching and its rule"),
        ("mine", YOLO, "'mine' is no `EvaluatorName`: add it"),
        ("mine", YOLO, "'mine' is on no page of docs/: add a row"),
        ("voc", replace(VOC, title="COCO"), "'voc' must have a `title` of its own; got 'COCO'"),
        ("voc", replace(VOC, rules=("voc07",)), "'voc' has the rule 'voc', which is not among its rules"),
        ("voc", replace(VOC, rules=("voc", "voc10")), r"rules that `AP_RULES` lacks: \['voc10'\]"),
        ("voc", replace(VOC, confidence=0.1), "set `reports_confidence`"),
        ("yolov4", replace(YOLOV4, match=SCALED.match), "mean average precision of 'yolov4' is "),
        ("ultralytics", replace(YOLO, rule="yolo"), "mean average precision of 'ultralytics' is "),
    ],
)
def test_an_evaluator_that_breaks_the_contract_is_told_so(name, row, message, tmp_path):
    with pytest.raises(AssertionError, match=message):
        check_evaluator(name, row, tmp_path)
