"""LVIS: the recorded numbers of lvis-api and of fixed AP, by dicts and by files, and what the lists of an image do."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from reid_torchmetrics import LvisMAP, compare
from reid_torchmetrics.functional.detection import DetectionResults, evaluate_images
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from tests.functional.detection.detection_samples import fed
from tests.golden.federated_cases import DetectionCase, detection_cases
from tests.paths import path

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
EXACT = 1e-12
MANY = (
    *("many_to_match", "many_to_average", "matched_classes", "averaged_classes"),
    *("cached_curves", "listed_rows", "many_boxes", "many_labels"),
)
"""from where on memory is saved"""


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
@pytest.mark.slow
def test_the_numbers_are_those_of_lvis(call):
    wrong = []
    for case in CASES:
        results = evaluated(case, case.dicts(), **CALLS[call])
        if np.abs(np.array(numbers(results)) - case.outputs[call]["results"]).max() > EXACT:
            wrong.append((case.name, call))
        if call == "lvis":  # of every class, bit for bit
            precision, recall = of_categories(case, results)
            np.testing.assert_array_equal(precision, case.outputs[call]["precision"])
            np.testing.assert_array_equal(recall, case.outputs[call]["recall"])
    assert {*wrong} == {pair for pair in TIED_AT_THE_LIMIT if pair[1] == call}
    assert len(CASES) == 37


@pytest.mark.parametrize("call", ["lvis", "fixed"])
@pytest.mark.slow
def test_many_detections_have_the_same_numbers_in_less_memory(call, monkeypatch):
    """Their labels are narrower, their boxes keep their format, and a few classes are evaluated at a time."""
    given = CASES[:6]
    expected = [evaluated(case, case.dicts(), **CALLS[call]) for case in given]
    for name in MANY:
        monkeypatch.setattr(*path(name), 1)
    for case, results in zip(given, expected, strict=True):
        found = evaluated(case, case.dicts(), **CALLS[call])
        assert numbers(found) == numbers(results)
        assert found.detections().ground_truth.tolist() == results.detections().ground_truth.tolist()


@pytest.mark.parametrize("boxes", [False, True])
@pytest.mark.slow
def test_files_of_masks_have_the_numbers_of_lvis(tmp_path, boxes):
    assert len(WITH_MASKS) == 9
    for case in WITH_MASKS:
        files = case.write(tmp_path, masks=True, boxes=boxes)
        # Where results have boxes, lvis-api takes the areas of these.
        results = evaluated(case, LvisMAP.coco_to_tm(*files, "segm"), iou_type="segm")
        expected = case.outputs["lvis_segm_bbox" if boxes else "lvis_segm"]
        np.testing.assert_allclose(numbers(results), expected["results"], atol=EXACT)
        given = LvisMAP.coco_to_tm(*files, "segm", detection_areas="shape")
        results = evaluated(case, given, iou_type="segm")
        expected = case.outputs["lvis_segm"]
        np.testing.assert_allclose(numbers(results), expected["results"], atol=EXACT)
        np.testing.assert_array_equal(of_categories(case, results)[0], expected["precision"])


@pytest.mark.slow
def test_a_result_without_a_mask_has_its_box_as_a_polygon(tmp_path):
    for case in WITH_MASKS:
        results, data_set = case.write(tmp_path, masks=True)
        rows = json.loads(Path(results).read_text(encoding="utf-8"))
        for row in rows:
            del row["segmentation"]
        Path(results).write_text(json.dumps(rows), encoding="utf-8")
        with pytest.warns(UserWarning, match="results have no `segmentation`: their boxes count as masks"):
            sides = LvisMAP.coco_to_tm(results, data_set, "segm")
        found = numbers(evaluated(case, sides, iou_type="segm"))
        np.testing.assert_allclose(found, case.outputs["lvis_segm_of_boxes"]["results"], atol=EXACT)


def box(x: float, size: float = 10.0) -> list[float]:
    return [x, 0.0, size, size]


def evaluated_one(detections, objects, *, lists=((), ()), ignored=None, **options) -> dict[str, float]:
    """The numbers for one image; detections are (box, score, label), objects (box, label)."""
    boxes = torch.tensor([each[0] for each in detections]).view(-1, 4)
    scores, labels = (torch.tensor([each[place] for each in detections]) for place in (1, 2))
    true = {"boxes": torch.tensor([each[0] for each in objects]).view(-1, 4)}
    true["labels"] = torch.tensor([each[1] for each in objects], dtype=torch.int64)
    true |= dict(zip(("neg_category_ids", "not_exhaustive_category_ids"), lists, strict=True))
    if ignored is not None:
        true["iscrowd"] = torch.tensor(ignored)
    metric = LvisMAP("xywh", **options)
    metric.update([{"boxes": boxes, "scores": scores, "labels": labels}], [true])
    return {name: float(value) for name, value in metric.compute().items() if value.ndim == 0}


WRONG, RIGHT = (box(50), 0.9, 1), (box(0), 0.8, 1)


def test_a_class_that_nobody_looked_for_is_neither_right_nor_wrong():
    other = (box(70), 0.95, 2)
    assert evaluated_one([other, RIGHT], [(box(0), 1)])["map"] == 1
    # Class 2 is absent for sure, and has no mean of its own; an ignored object is one that the image was searched for.
    assert evaluated_one([other, RIGHT], [(box(0), 1)], lists=([2], []))["map"] == 1
    assert evaluated_one([WRONG, RIGHT], [(box(0), 1)])["map"] == pytest.approx(0.5)


def test_nothing_is_wrong_in_a_class_with_more_objects():
    assert evaluated_one([WRONG, RIGHT], [(box(0), 1)], lists=([], [1]))["map"] == 1
    assert evaluated_one([WRONG, RIGHT], [(box(0), 1)], lists=([1], [1]))["map"] == 1  # wins


def test_an_ignored_object_is_taken_once():
    twice = [(box(50), 0.9, 1), (box(50), 0.85, 1), RIGHT]
    assert evaluated_one(twice[1:], [(box(0), 1), (box(50), 1)], ignored=[0, 1])["map"] == 1
    assert evaluated_one(twice, [(box(0), 1), (box(50), 1)], ignored=[0, 1])["map"] == pytest.approx(0.5)


def test_a_shape_without_area_vanishes():
    assert evaluated_one([(box(50, 0.0), 0.9, 1), RIGHT], [(box(0), 1), (box(80, 0.0), 1)])["map"] == 1


def test_the_limit_is_of_an_image_over_all_classes():
    others = [(box(20.0 * place), 0.9, 2) for place in range(2)]
    assert evaluated_one([*others, RIGHT], [(box(0), 1)], max_detections=2)["map"] == 0  # unlisted ones use it up
    assert evaluated_one([*others, RIGHT], [(box(0), 1)], max_detections=3)["map"] == 1
    assert evaluated_one([*others, RIGHT], [(box(0), 1)], max_detections=1, fixed=True)["map"] == 1  # of class 1
    assert evaluated_one([WRONG, RIGHT], [(box(0), 1)], max_detections=1, fixed=True)["map"] == 0


def test_frequencies_have_means_of_their_own():
    values = evaluated_one([RIGHT], [(box(0), 1), (box(30), 7), (box(60), 8)], frequencies={1: "r", 7: "c", 9: "f"})
    assert [values[f"map_{name}"] for name in ("rare", "common", "frequent")] == [1, 0, -1]
    assert values["map"] == pytest.approx(1 / 3)
    assert evaluated_one([RIGHT], [(box(0), 1)])["map_rare"] == -1


def test_one_number_and_the_numbers_of_classes():
    given = CASES[0].dicts()
    values = fed(LvisMAP("xywh", class_metrics=True), *given).compute()
    assert {"map_per_class", "map_50_per_class", "map_75_per_class", "mar_300_per_class", "classes"} < values.keys()
    assert values["classes"].shape == values["map_per_class"].shape
    label = int(values["classes"][0])
    one = fed(LvisMAP("xywh", metric=f"map_50/{label}"), *given).compute()
    assert one == values["map_50_per_class"][0]


def test_results_are_saved_compared_and_told(tmp_path):
    first, second = (evaluated(CASES[0], CASES[0].dicts(), max_detections=limit) for limit in (300, 2))
    first.save(tmp_path / "results.npz")
    again = DetectionResults.load(tmp_path / "results.npz")
    assert again.means == first.means
    assert again.evaluator.title == "LVIS"
    assert first.conventions["map_rare"].endswith(
        "rare classes alone; area range all, no limit; at most 300 detections of an image; boxes matched by the rules"
        " of LVIS; 2 rare, 3 common classes; means over classes"
    )
    assert "map_rare" in str(first)
    assert compare({"a": first, "b": first}, num_resamples=4, num_permutations=4).differences["map_rare"].p_value == 1
    with pytest.raises(ValueError, match="must be evaluated as `a` was; got max_detection_thresholds"):
        compare({"a": first, "b": second})


def test_one_function_gives_the_same():
    case = CASES[3]
    groups = {
        name: [label for label, each in case.frequencies.items() if each == letter]
        for letter, name in (("r", "rare"), ("c", "common"), ("f", "frequent"))
    }
    found = evaluate_images(*case.dicts(), evaluator="lvis", box_format="xywh", class_groups=groups)
    assert found.means == evaluated(case, case.dicts()).means
    assert found.confusion_matrix is not None


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"iou_type": "keypoints"}, ValueError, "`iou_type` must be one of 'bbox', 'segm'; got 'keypoints'."),
        ({"fixed": 1}, TypeError, "`fixed` must be"),
        ({"max_detections": 0}, ValueError, "`max_detections` must be"),
        ({"frequencies": ["r"]}, TypeError, "`frequencies` must be a mapping of labels to letters; got list."),
        ({"frequencies": {"a": "r"}}, TypeError, "`frequencies` must hold ints only; got 'a'."),
        ({"frequencies": {1: "rare"}}, ValueError, "`frequencies` must be one of 'r', 'c', 'f'; got 'rare'."),
        ({"metric": "map_r"}, ValueError, "`metric` must be one of 'map_rare', 'map', "),
    ],
)
def test_wrong_options_are_refused(options, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        LvisMAP(**options)


@pytest.mark.parametrize(
    ("groups", "kind", "message"),
    [
        (
            {"small": [1]},
            ValueError,
            "`class_groups` must have names that area ranges and thresholds lack; got 'small'.",
        ),
        ({"50": [1]}, ValueError, "`class_groups` must have names that area ranges and thresholds lack; got '50'."),
    ],
)
def test_wrong_groups_are_refused(groups, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        CocoGrid(class_groups=groups)
