"""Code that calls pycocotools runs unchanged: the sequences of calls of detectron2 and mmdetection."""

import contextlib
import copy
import importlib
import io
import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from reid_torchmetrics import coco as ours
from tests.coco.drawn import draw


def detectron2(modules, data_set, results, iou_type, path):
    """The steps of detectron2's `_evaluate_predictions_on_coco` and `_derive_coco_results`, with its subclass."""
    api, evaluation, masks = modules

    class COCOevalMaxDets(evaluation.COCOeval):
        def summarize(self):
            precision = self.eval["precision"][..., 0, len(self.params.maxDets) - 1]
            kept = precision[precision > -1]
            self.stats = np.array([np.mean(kept) if kept.size else -1.0])

    truth = api.COCO(path)
    results = copy.deepcopy(results)
    if iou_type == "segm":
        for row in results:
            row.pop("bbox", None)
            assert masks.area(row["segmentation"]) >= 0
    found = truth.loadRes(results)
    numbers = []
    for kind, limits in ((evaluation.COCOeval, [1, 10, 100]), (COCOevalMaxDets, [1, 10, 50])):
        evaluator = kind(truth, found, iou_type)
        if iou_type == "keypoints":
            evaluator.params.kpt_oks_sigmas = np.full(17, 0.05)
        else:
            evaluator.params.maxDets = limits
        evaluator.params.imgIds = sorted(truth.getImgIds())[:3]
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
        numbers += evaluator.stats.tolist()
        of_classes = [evaluator.eval["precision"][:, :, number, 0, -1] for number in range(len(data_set["categories"]))]
        numbers += [float(each[each > -1].mean()) for each in of_classes if (each > -1).any()]
    return numbers


def mmdetection(modules, data_set, results, iou_type, path):
    """The steps of mmdetection's `CocoMetric.compute_metrics`, with its class of the data set."""
    api, evaluation, _ = modules

    class Renamed(api.COCO):
        def __init__(self, annotation_file=None):
            super().__init__(annotation_file=annotation_file)
            self.img_ann_map, self.cat_img_map = self.imgToAnns, self.catToImgs

        def get_cat_ids(self, cat_names=(), sup_names=(), cat_ids=()):
            return self.getCatIds(cat_names, sup_names, cat_ids)

    truth = Renamed(path)
    with pytest.raises(IndexError):  # it takes this for "no results"
        truth.loadRes([])
    found = truth.loadRes(copy.deepcopy(results))
    numbers = []
    for categories in (1, 0):
        evaluator = evaluation.COCOeval(truth, found, iou_type)
        evaluator.params.catIds = truth.get_cat_ids(cat_names=[row["name"] for row in data_set["categories"]])
        evaluator.params.imgIds = truth.getImgIds()
        evaluator.params.maxDets = [100, 300, 1000]
        evaluator.params.iouThrs = np.linspace(0.5, 0.95, 10)
        evaluator.params.useCats = categories
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
        numbers += evaluator.stats.tolist()
        if categories:
            precisions = evaluator.eval["precision"]
            assert precisions.shape[2] == len(truth.get_cat_ids())
            name = truth.loadCats(truth.get_cat_ids()[0])[0]["name"]
            numbers += [float(precisions[:, :, 0, 0, -1].mean()), name]
    return numbers


def modules():
    return [importlib.import_module(f"pycocotools.{name}") for name in ("coco", "cocoeval", "mask")]


@pytest.fixture
def installed():
    ours.install()
    ours.install()  # a second call changes nothing
    try:
        yield modules()
    finally:
        ours.uninstall()


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints"])
@pytest.mark.parametrize("caller", [detectron2, mmdetection])
def test_callers_get_the_numbers_of_pycocotools(caller, iou_type, tmp_path, request):
    data_set, results = draw(11, iou_type)
    for row in (*data_set["annotations"], *results):
        if iou_type == "segm":
            row["segmentation"]["counts"] = row["segmentation"]["counts"].decode()
    path = str(tmp_path / "truth.json")
    (tmp_path / "truth.json").write_text(json.dumps(data_set), encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        expected = caller(modules(), data_set, results, iou_type, path)
        numbers = caller(request.getfixturevalue("installed"), data_set, results, iou_type, path)
    assert numbers == expected
    assert len(numbers) > 10


def test_the_classes_stand_in_the_place_of_pycocotools_until_that_is_undone(installed):
    from pycocotools import mask  # noqa: PLC0415
    from pycocotools.coco import COCO  # noqa: PLC0415
    from pycocotools.cocoeval import COCOeval, Params  # noqa: PLC0415

    assert (COCO, COCOeval, Params) == (ours.COCO, ours.COCOeval, ours.Params)
    package = importlib.import_module("pycocotools")
    assert (package.coco.COCO, package.cocoeval.COCOeval) == (COCO, COCOeval)
    assert mask.__name__ == "pycocotools.mask"
    assert mask is sys.modules["pycocotools.mask"]
    for module in modules()[:2]:  # detectron2 imports the masks from there
        assert module.maskUtils is mask
        assert not hasattr(module, "Missing")
    assert find_spec("pycocotools").name == "pycocotools"  # as code asks that looks whether it is installed
    ours.uninstall()
    api, evaluation, _ = modules()
    assert api.COCO is not ours.COCO
    assert evaluation.COCOeval is not ours.COCOeval
    ours.uninstall()  # nothing is left to undo
