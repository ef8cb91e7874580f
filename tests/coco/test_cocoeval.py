"""`COCOeval` gives the numbers and the text of pycocotools, under all parameters that users set."""

import re
import warnings
from typing import get_args

import numpy as np
import pytest

from reid_torchmetrics import _names
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.coco.evaluation import Params
from tests.coco.drawn import differing, draw, evaluated, is_same
from tests.profiles import of_each

IOU_TYPES = get_args(_names.CocoIouType)


def _images_and_categories(params):
    params.imgIds, params.catIds = params.imgIds[::-2] * 2, [*params.catIds[::-1], 12345]


def _areas(params):
    params.areaRng = [[0, 1e10], [0, 30], [30, 1024], [1024, 5000]][: len(params.areaRng)]


def _one_class_of_some(params):
    params.useCats, params.catIds = 0, params.catIds[:1]


def _area_of_one_size(params):
    params.areaRng, params.areaRngLbl = [[0, 1e10], [1024, 1024]], ["all", "point"]


def _thresholds(params):
    params.iouThrs, params.recThrs = np.array([0.3, 0.5, 0.75, 1.0]), np.linspace(0, 1, 11)


CHANGES = {
    "default": None,
    "images": _images_and_categories,
    "areas": _areas,
    "any area": lambda params: setattr(params, "areaRng", [[0, np.inf] for _ in params.areaRng]),
    "one class": lambda params: setattr(params, "useCats", 0),
    "few": lambda params: setattr(params, "maxDets", [1, 2, 5]),
    "one limit": lambda params: setattr(params, "maxDets", [100]),
    "two limits": lambda params: setattr(params, "maxDets", [1, 10]),
    "five limits": lambda params: setattr(params, "maxDets", [1, 2, 5, 10, 100]),
    "limits in another order": lambda params: setattr(params, "maxDets", [100, 1, 10]),
    "limits of keypoints": lambda params: setattr(params, "maxDets", [3, 20, 30]),
    "one class of some": _one_class_of_some,
    "a point": _area_of_one_size,
    "thresholds": _thresholds,
    "sigmas": lambda params: setattr(params, "kpt_oks_sigmas", np.linspace(0.02, 0.2, 17)),
}


@pytest.mark.parametrize("iou_type", IOU_TYPES)
@pytest.mark.parametrize("change", CHANGES)
def test_drawn_problems_give_what_pycocotools_gives(iou_type, change):
    first = IOU_TYPES.index(iou_type) + [*CHANGES].index(change)
    for seed in of_each(range(first, first + 5), suite=2):
        data_set, results = draw(seed, iou_type)
        (ours, our_text), (theirs, text) = (
            evaluated(data_set, results, iou_type, CHANGES[change], ours=is_ours) for is_ours in (True, False)
        )
        is_whole = len(theirs.stats) > 0  # pycocotools raises after its first line without three limits
        assert differing(ours, theirs) == ([] if is_whole else ["stats"])
        assert our_text == text or (not is_whole and our_text.startswith(text))
        assert len(ours.evalImgs) == len(theirs.evalImgs)
        for our_image, image in zip(ours.evalImgs, theirs.evalImgs, strict=True):
            assert (our_image is None) == (image is None)
            if image is not None:
                assert our_image.keys() == image.keys()
                assert all(is_same(our_image[key], value) for key, value in image.items())
        if iou_type == "keypoints" and change.startswith("one class"):
            continue  # nothing overlaps there: zeros, for an empty list
        assert ours.ious.keys() == theirs.ious.keys()
        for key, overlaps in theirs.ious.items():
            assert np.shape(ours.ious[key]) == np.shape(overlaps)
            assert np.allclose(ours.ious[key], overlaps, rtol=0, atol=1e-15)


def one_box(**changes):
    row = {"image_id": 7, "category_id": 1, "bbox": [10, 10, 40, 40]}
    return COCO(
        {
            "images": [{"id": 7}],
            "categories": [{"id": 1}],
            "annotations": [{"id": 1, "area": 1600, "iscrowd": 0, **row, **changes}],
        }
    ), row | {"score": 0.5}


def evaluator_of(truth, result, **params):
    evaluator = COCOeval(truth, truth.loadRes([result]), "bbox")
    vars(evaluator.params).update(params)
    return evaluator


def test_the_summary_takes_one_limit(capsys):
    evaluator = evaluator_of(*one_box(), maxDets=[100])
    evaluator.evaluate()
    evaluator.accumulate()
    evaluator.summarize()
    assert evaluator.stats[[0, 1, 6, 8]].tolist() == [pytest.approx(1), pytest.approx(1), 1, 1]
    assert capsys.readouterr().out.count("maxDets=100") == 12


def test_an_area_of_the_results_own_decides_on_its_range():
    truth, result = one_box()
    results = truth.loadRes([result])
    results.dataset["annotations"][0] |= {"area": 20000, "bbox": [100, 100, 40, 40]}
    evaluator = COCOeval(truth, results, "bbox")
    evaluator.evaluate()
    assert [bool(image["dtIgnore"].all()) for image in evaluator.evalImgs] == [False, True, True, False]


def test_other_parameters_after_evaluate_are_those_of_the_arrays():
    evaluator = evaluator_of(*one_box())
    evaluator.evaluate()
    evaluator.params.recThrs, evaluator.params.catIds = [0.5], [1, 2]
    evaluator.accumulate()
    assert evaluator.eval["precision"].shape == (10, 1, 2, 4, 3)
    assert evaluator.eval["counts"] == [10, 1, 2, 4, 3]
    assert evaluator.eval["recall"][0, :, 0, 0].tolist() == [1, -1]


def test_an_evaluation_without_results_or_categories_is_empty():
    truth, _ = one_box()
    evaluator = COCOeval(truth, COCO(), "bbox")
    evaluator.evaluate()
    evaluator.accumulate()
    assert set(evaluator.eval["recall"].ravel().tolist()) == {0, -1}
    evaluator.params.catIds = []
    evaluator.evaluate()
    evaluator.accumulate()
    evaluator.summarize()
    assert evaluator.stats.tolist() == [-1] * 12


def test_annotation_0_counts_as_missed_with_a_warning():
    evaluator = evaluator_of(*one_box(id=0))
    with pytest.warns(UserWarning, match="^Annotation 0 counts as missed"):
        evaluator.evaluate()
    evaluator.accumulate()
    assert evaluator.eval["recall"].max() == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"area": None}, "`area` must be a finite number; got None in annotation 1."),
        ({"bbox": [1, 2, 3]}, "`bbox` must be 4 finite numbers; got [1, 2, 3] in annotation 1."),
        ({"bbox": [1, 2, 3, float("nan")]}, "`bbox` must be 4 finite numbers; got [1, 2, 3, nan] in annotation 1."),
    ],
)
def test_an_annotation_that_is_refused_is_named(changes, message):
    truth, result = one_box(**changes)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        evaluator_of(truth, result).evaluate()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iouThrs": [0.5, 2]}, "`iouThrs` must hold shares"),
        ({"recThrs": [0.5, 0.4]}, "`recThrs` must ascend"),
        ({"maxDets": [0]}, "`maxDets` must be"),
        ({"areaRng": [[2, 1]]}, "`areaRng` must have a least area first"),
    ],
)
def test_a_parameter_that_is_refused_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        evaluator_of(*one_box(), **changes).evaluate()


def test_ids_that_come_twice_are_refused():
    truth, result = one_box()
    truth.dataset["annotations"].append({**truth.dataset["annotations"][0]})
    truth.createIndex()
    with pytest.raises(ValueError, match=r"`annotations` must have an id of their own; got 1 2 times\."):
        evaluator_of(truth, result).evaluate()


def test_steps_in_another_order_are_refused():
    truth, _ = one_box()
    with pytest.raises(ValueError, match="`evaluate` must be called first"):
        COCOeval(truth, truth, "bbox").accumulate()
    with pytest.raises(ValueError, match="`summarize` must be called after `accumulate`"):
        COCOeval(truth, truth, "bbox").summarize()
    with pytest.raises(ValueError, match="`iouType` must be one of 'bbox', 'segm', 'keypoints'; got 'box'"):
        COCOeval(truth, truth, "box")


@pytest.mark.parametrize("name", ["computeIoU", "computeOks", "evaluateImg"])
def test_a_subclass_with_overlaps_or_matches_of_its_own_is_refused(name):
    kind = type("Rotated", (COCOeval,), {name: lambda *_: []})
    with pytest.raises(TypeError, match=rf"^`{name}` must be that of `COCOeval`.*; got Rotated\.{name}\.$"):
        kind(*one_box(), "bbox").evaluate()


@pytest.mark.parametrize("name", ["_gts", "_dts"])
def test_objects_that_a_subclass_changes_are_refused(name):
    def prepare(self, change):
        COCOeval._prepare(self)
        for rows in getattr(self, name).values():
            for row in rows:
                row.update(change)

    truth, found = one_box()
    for change in ({"ignore": 1}, {}):
        kind = type("Own", (COCOeval,), {"_prepare": lambda self, change=change: prepare(self, change)})
        evaluation = kind(truth, truth.loadRes([found]), "bbox")
        if change:
            message = rf"^`_prepare` must leave the objects as they are; .*; got another `{name}`\.$"
            with pytest.raises(TypeError, match=message):
                evaluation.evaluate()
        else:
            evaluation.evaluate()


def test_arrays_of_matches_cannot_be_changed():
    truth, found = one_box()
    evaluation = COCOeval(truth, truth.loadRes([{"score": 0.9, **found}]), "bbox")
    evaluation.evaluate()
    row = next(row for row in evaluation.evalImgs if row is not None)
    arrays = {name for name, value in row.items() if isinstance(value, np.ndarray)}
    assert arrays == {"dtMatches", "gtMatches", "gtIgnore", "dtIgnore"}
    for name in arrays:
        with pytest.raises(ValueError, match="read-only"):
            row[name][:] = 1


def test_parameters_get_the_defaults_of_other_shapes():
    changed, fresh = Params("bbox"), {name: vars(Params(name)) for name in ("bbox", "keypoints")}
    for name, reset in (("keypoints", changed.setKpParams), ("bbox", changed.setDetParams)):
        changed.maxDets, changed.imgIds, changed.useCats = [7], [3], 0
        reset()
        expected = fresh[name] | {"iouType": "bbox"}
        assert {key: repr(value) for key, value in vars(changed).items()} == {
            key: repr(value) for key, value in expected.items()
        }


def test_nothing_is_downloaded():
    with pytest.raises(NotImplementedError, match="`download` must not be called: nothing is downloaded"):
        COCO().download()


@pytest.mark.parametrize("num_ranges", [1, 2, 4])
def test_shares_get_a_warning_where_there_are_area_ranges_besides_the_first(num_ranges):
    boxes = [[0.04 * place, 0.03 * place, 0.1 + 0.01 * place, 0.1] for place in range(12)]
    rows = [{"id": k, "image_id": 1, "category_id": 1, "bbox": box, "area": 0.5} for k, box in enumerate(boxes, 1)]
    truth = COCO({"images": [{"id": 1}], "categories": [{"id": 1}], "annotations": rows})
    evaluation = COCOeval(truth, truth.loadRes([row | {"score": 0.5} for row in rows]), "bbox")
    evaluation.params.areaRng = evaluation.params.areaRng[:num_ranges]
    evaluation.params.areaRngLbl = evaluation.params.areaRngLbl[:num_ranges]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        evaluation.evaluate()
        evaluation.accumulate()
    assert ["Most of 24 checked boxes lie within [0, 1]" in str(one.message) for one in told] == [True] * (
        num_ranges > 1
    )
