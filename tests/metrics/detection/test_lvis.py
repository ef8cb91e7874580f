"""LVIS: the recorded numbers of lvis-api and of fixed AP, by dicts and by files, and what the lists of an image do."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics import LvisMAP
from reid_torchmetrics.functional.detection import DetectionResults
from tests.golden.federated_cases import DetectionCase, detection_cases
from tests.metrics.detection.detection_samples import fed

CASES = detection_cases("lvis")
WITH_MASKS = [case for case in CASES if "lvis_segm" in case.outputs]
CALLS = {
    "lvis": {},
    "lvis_max7": {"max_detections": 7},
    "fixed": {"fixed": True},
    "fixed3": {"fixed": True, "max_detections": 3},
    "fixed20": {"fixed": True, "max_detections": 20},
}
TIED_AT_THE_LIMIT = {("c09_ties", "fixed3")}
"""which of equal scores are beyond a limit of the data set depends on the order of its file there"""
SIZES = slice(3, 6)
"""the numbers of small, medium and large, which rest on the areas of detections"""
EXACT = 1e-12


def numbers(results: DetectionResults) -> list[float]:
    return [float(value) for value in results.summary().values()]


def of_categories(case: DetectionCase, results: DetectionResults) -> tuple[np.ndarray, np.ndarray]:
    """Precision and recall with all categories of the data set, as LVIS has them."""
    place = {label: k for k, label in enumerate(results.classes.tolist())}
    known = [k for k, label in enumerate(case.categories) if label in place]
    rows = [place[case.categories[k]] for k in known]
    shape = (len(case.categories), 4)
    precision, recall = np.full((10, 101, *shape), -1.0), np.full((10, *shape), -1.0)
    precision[:, :, known], recall[:, known] = (
        results.coco.precision[:, :, rows, :, 0],
        results.coco.recall[:, rows, :, 0],
    )
    return precision, recall


def evaluated(case: DetectionCase, given, **options) -> DetectionResults:
    metric = LvisMAP("xywh", frequencies=case.frequencies, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inverted boxes
        return fed(metric, *given).results()


@pytest.mark.parametrize("call", CALLS)
def test_the_numbers_are_those_of_lvis(call):
    wrong = []
    for case in CASES:
        found = numbers(evaluated(case, case.dicts(), **CALLS[call]))
        if np.abs(np.array(found) - case.outputs[call]["results"]).max() > EXACT:
            wrong.append((case.name, call))
    assert {*wrong} == {pair for pair in TIED_AT_THE_LIMIT if pair[1] == call}
    assert len(CASES) == 37


def test_precision_and_recall_of_every_class_are_those_of_lvis_bit_for_bit():
    for case in CASES:
        precision, recall = of_categories(case, evaluated(case, case.dicts()))
        np.testing.assert_array_equal(precision, case.outputs["lvis"]["precision"])
        np.testing.assert_array_equal(recall, case.outputs["lvis"]["recall"])


def test_files_have_the_numbers_of_lvis(tmp_path):
    for case in CASES:
        if (case.given["gt_box"] < 0).any():
            continue
        files = case.write(tmp_path)
        assert LvisMAP.frequencies_of(files[1]) == case.frequencies
        found = numbers(evaluated(case, LvisMAP.coco_to_tm(*files)))
        np.testing.assert_allclose(found, case.outputs["lvis"]["results"], atol=EXACT)


@pytest.mark.parametrize("boxes", [False, True])
def test_files_of_masks_have_the_numbers_of_lvis(tmp_path, boxes):
    assert len(WITH_MASKS) == 9
    for case in WITH_MASKS:
        given = LvisMAP.coco_to_tm(*case.write(tmp_path, masks=True, boxes=boxes), "segm")
        results = evaluated(case, given, iou_type="segm")
        expected = case.outputs["lvis_segm"]
        np.testing.assert_allclose(numbers(results), expected["results"], atol=EXACT)
        np.testing.assert_array_equal(of_categories(case, results)[0], expected["precision"])
        # Where results have boxes, lvis-api takes the areas of these.
        found, of_boxes = np.array(numbers(results)), case.outputs["lvis_segm_bbox"]["results"].copy()
        found[SIZES] = of_boxes[SIZES] = 0
        np.testing.assert_allclose(found, of_boxes, atol=EXACT)


def test_a_result_without_a_mask_has_its_box_as_a_polygon(tmp_path):
    for case in WITH_MASKS:
        results, data_set = case.write(tmp_path, masks=True)
        rows = json.loads(Path(results).read_text(encoding="utf-8"))
        for row in rows:
            del row["segmentation"]
        Path(results).write_text(json.dumps(rows), encoding="utf-8")
        found = np.array(numbers(evaluated(case, LvisMAP.coco_to_tm(results, data_set, "segm"), iou_type="segm")))
        expected = case.outputs["lvis_segm_of_boxes"]["results"].copy()
        found[SIZES] = expected[SIZES] = 0
        np.testing.assert_allclose(found, expected, atol=EXACT)
