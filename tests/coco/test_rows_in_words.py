"""`COCOeval` names the row, and the parameter to change, where files do not fit."""

import numpy as np
import pytest

from reid_torchmetrics.coco import COCO, COCOeval
from tests.files.json_files import write_json

ROW = {"image_id": 7, "category_id": 1, "bbox": [10, 10, 30, 40]}
POINTS = {"keypoints": [10, 10, 2, 40, 50, 2], "num_keypoints": 2}
MASK = {"segmentation": [[10, 10, 40, 10, 40, 50, 10, 50]]}


def evaluated(iou_type, annotations, results, **data_set):
    images = [{"id": 7, "width": 100, "height": 100}]
    truth = {"images": images, "categories": [{"id": 1}], "annotations": annotations, **data_set}
    truth = COCO({name: rows for name, rows in truth.items() if rows is not None})
    evaluation = COCOeval(truth, truth.loadRes(results), iou_type)
    evaluation.evaluate()
    evaluation.accumulate()
    return float(np.mean(evaluation.eval["precision"][:, :, 0, 0, -1]))


def annotation(number=1, **columns):
    return {"id": number, "area": 1200, "iscrowd": 0, **ROW, **columns}


def test_another_number_of_keypoints_names_the_sigmas():
    with pytest.raises(
        ValueError, match=r"x, y and visibility for each of the 17 `params.kpt_oks_sigmas`; got 6 values"
    ):
        evaluated("keypoints", [annotation(**POINTS)], [{**ROW, **POINTS, "score": 0.9}])


def test_a_data_set_without_categories_is_an_error():
    with pytest.raises(ValueError, match=r"`cocoGt` must have `categories` where `params\.useCats` is 1; got none"):
        evaluated("bbox", [annotation()], [{**ROW, "score": 0.9}], categories=None)


@pytest.mark.parametrize("empty", [{}, {"segmentation": []}, {"segmentation": None}])
def test_boxes_that_count_as_masks_are_told(empty):
    results = [{**ROW, **MASK, "score": 0.9}]
    with pytest.warns(UserWarning, match="1 of 2 annotations have no `segmentation`: their boxes count as masks"):
        assert evaluated("segm", [annotation(**MASK), annotation(2, **empty)], results) > 0
    with pytest.raises(ValueError, match="must have a `segmentation`; got none in 1 annotations"):
        evaluated("segm", [annotation(**empty)], results)


@pytest.mark.parametrize("key", ["score", "category_id", "image_id"])
def test_a_result_without_a_required_key_is_named(tmp_path, key):
    result = {**ROW, "score": 0.9}
    del result[key]
    with pytest.raises(ValueError, match=f"`{key}`"):
        evaluated("bbox", [annotation()], [result])
    with pytest.raises(ValueError, match=f"`{key}`"):
        evaluated("bbox", [annotation()], *write_json(tmp_path, found=[result]))


def test_a_confidence_in_the_place_of_a_score_is_named():
    with pytest.raises(
        ValueError, match="`score` must be a finite number; got `confidence` in its place in annotation 1"
    ):
        evaluated("bbox", [annotation()], [{**ROW, "confidence": 0.9}])


@pytest.mark.parametrize("value", ["1.5", None, [1], True])
def test_a_text_is_no_number(value):
    with pytest.raises(ValueError, match="`score` must be a finite number; got"):
        evaluated("bbox", [annotation()], [{**ROW, "score": value}])
