"""`evalImgs` of batches and processes that callers merge: the sequences of torchvision, DETR and mmdetection."""

import contextlib
import copy
import io
import itertools
import re
from collections import defaultdict
from typing import get_args

import numpy as np
import pytest
from pycocotools import coco as their_coco
from pycocotools import cocoeval as their_evaluation

from reid_torchmetrics import _names
from reid_torchmetrics import coco as ours
from tests.coco.drawn import ARRAYS, differing, draw, evaluated, is_same

IOU_TYPES = get_args(_names.CocoIouType)
BOTH = ((ours.COCO, ours.COCOeval), (their_coco.COCO, their_evaluation.COCOeval))


def torchvision(evaluator):
    """The images of a batch in one call."""
    evaluator.evaluate()
    params = evaluator.params
    return np.asarray(evaluator.evalImgs).reshape(-1, len(params.areaRng), len(params.imgIds))


def detr(evaluator):
    """The images of a batch one by one, as older versions of torchvision do."""
    params = evaluator.params
    params.imgIds, params.catIds = [*np.unique(params.imgIds)], [*np.unique(params.catIds)]
    params.maxDets = sorted(params.maxDets)
    evaluator._prepare()
    overlaps = evaluator.computeOks if params.iouType == "keypoints" else evaluator.computeIoU
    evaluator.ious = {key: overlaps(*key) for key in itertools.product(params.imgIds, params.catIds)}
    found = [
        evaluator.evaluateImg(image, category, ends, params.maxDets[-1])
        for category, ends, image in itertools.product(params.catIds, params.areaRng, params.imgIds)
    ]
    evaluator._paramsEval = copy.deepcopy(params)
    return np.asarray(found).reshape(len(params.catIds), len(params.areaRng), len(params.imgIds))


def merged(classes, evaluate, data_set, results, iou_type, *, flat):
    """The evaluation of two processes, the second of which sees the first image again, in batches of two images."""
    coco, evaluation = classes
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco()
        truth.dataset = copy.deepcopy(data_set)
        truth.createIndex()
        images = [row["id"] for row in data_set["images"]]
        shares = images[: len(images) // 2 + 1], [*images[len(images) // 2 + 1 :], images[0]]
        ids, parts = [], []
        for share in shares:
            evaluator = evaluation(copy.deepcopy(truth), iouType=iou_type)
            for start in range(0, len(share), 2):
                batch = sorted(share[start : start + 2])
                rows = [copy.deepcopy(row) for row in results if row["image_id"] in batch]
                evaluator.cocoDt = coco.loadRes(truth, rows) if rows else coco()
                evaluator.params.imgIds = list(batch)
                parts.append(evaluate(evaluator))
                ids += batch
        unique, first = np.unique(ids, return_index=True)
        together = np.concatenate(parts, 2)[..., first]
        evaluator.evalImgs = [*together.flatten()] if flat else together
        evaluator.params.imgIds = [*unique]
        evaluator._paramsEval = copy.deepcopy(evaluator.params)
        evaluator.accumulate()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        evaluator.summarize()
    return evaluator, printed.getvalue()


@pytest.mark.parametrize("iou_type", IOU_TYPES)
@pytest.mark.parametrize("evaluate", [torchvision, detr])
def test_merged_batches_give_the_arrays_of_pycocotools(evaluate, iou_type):
    num_empty = 0
    for seed in range(100, 104):
        data_set, results = draw(seed, iou_type)
        if seed % 2:  # an image without results
            results = [row for row in results if row["image_id"] != data_set["images"][0]["id"]]
            num_empty += 1
        if not results:
            continue
        our_own, our_text = merged(BOTH[0], evaluate, data_set, results, iou_type, flat=seed < 102)
        theirs, text = merged(BOTH[1], evaluate, data_set, results, iou_type, flat=True)
        assert differing(our_own, theirs) == []
        assert our_text == text
        whole, _ = evaluated(data_set, results, iou_type, ours=False)
        assert differing(our_own, whole) == []
    assert num_empty == 2


class Chunks:
    """As mmdetection's `COCOevalMP`, with a `_prepare` of its own, which has none of the class below."""

    def _prepare(self):
        params = self.params
        self._gts, self._dts = defaultdict(list), defaultdict(list)
        for side, rows in ((self.cocoGt, self._gts), (self.cocoDt, self._dts)):
            for row in side.dataset["annotations"]:
                if row["category_id"] in params.catIds and row["image_id"] in params.imgIds:
                    rows[row["image_id"], row["category_id"]].append(row)
        for row in itertools.chain(*self._gts.values()):
            row["ignore"] = row["iscrowd"]
        self.evalImgs = defaultdict(list)
        self.eval = {}

    def evaluate(self):
        self.params.catIds = [*np.unique(self.params.catIds)]
        chunks = self.params.catIds[:1], self.params.catIds[1:]
        self.evalImgs = [each for chunk in chunks for each in self.of_categories(chunk)]
        self._paramsEval = copy.deepcopy(self.params)

    def of_categories(self, categories):
        self._prepare()
        params = self.params
        asked = itertools.product(categories, params.areaRng, params.imgIds)
        self.seen = [self.computeIoU(image, category) for category, _, image in asked]
        asked = itertools.product(categories, params.areaRng, params.imgIds)
        return [self.evaluateImg(image, category, ends, max(params.maxDets)) for category, ends, image in asked]


def test_a_class_with_its_own_steps_gets_the_arrays_of_pycocotools():
    for seed in range(5):
        data_set, results = draw(seed, "bbox")
        evaluators = []
        for coco, evaluation in BOTH:
            with contextlib.redirect_stdout(io.StringIO()):
                truth = coco()
                truth.dataset = copy.deepcopy(data_set)
                truth.createIndex()
                own = type("Own", (Chunks, evaluation), {})
                if evaluation is their_evaluation.COCOeval:  # it reads `ious`, which its `evaluate` makes
                    own.evaluate = evaluation.evaluate
                evaluator = own(truth, truth.loadRes(copy.deepcopy(results)), "bbox")
                evaluator.evaluate()
                evaluator.accumulate()
                evaluator.summarize()
            evaluators.append(evaluator)
        assert differing(*evaluators) == []
        assert evaluators[0].eval["counts"] == evaluators[1].eval["counts"]


def pair(seed=0, iou_type="bbox", change=None):
    data_set, results = draw(seed, iou_type)
    return [evaluated(data_set, results, iou_type, change, ours=is_ours)[0] for is_ours in (True, False)]


@pytest.mark.parametrize("iou_type", IOU_TYPES)
def test_methods_of_one_image_give_what_pycocotools_gives(iou_type):
    for our_own, theirs in (pair(seed, iou_type) for seed in range(3)):
        params = theirs.params
        for image, category in itertools.product([*params.imgIds, -5], params.catIds):
            name = "computeOks" if iou_type == "keypoints" else "computeIoU"
            overlaps = [getattr(each, name)(image, category) for each in (our_own, theirs)]
            assert np.shape(overlaps[0]) == np.shape(overlaps[1])
            assert np.allclose(*overlaps, rtol=0, atol=1e-15)
            if image not in params.imgIds:
                continue
            for ends, most in itertools.product((params.areaRng[0], [20, 900]), (params.maxDets[-1], 2)):
                found = [each.evaluateImg(image, category, ends, most) for each in (our_own, theirs)]
                assert (found[0] is None) == (found[1] is None)
                assert found[0] is None or all(is_same(found[0][key], value) for key, value in found[1].items())
        for name in ("_gts", "_dts"):
            rows, their_rows = (getattr(each, name) for each in (our_own, theirs))
            assert isinstance(rows, defaultdict)
            for key, listed in their_rows.items():
                assert [row["id"] for row in rows[key]] == [row["id"] for row in listed]
        for key, listed in our_own._gts.items():
            assert [bool(row["ignore"]) for row in listed] == [bool(row["ignore"]) for row in theirs._gts[key]]
            if iou_type == "segm":
                assert [row["segmentation"] for row in listed] == [row["segmentation"] for row in theirs._gts[key]]


def test_changes_in_the_matches_count():
    for our_own, theirs in (pair(seed) for seed in range(5)):
        lists = []
        for evaluator in (our_own, theirs):
            found = copy.deepcopy(evaluator.evalImgs)
            for number, row in enumerate(filter(None, found)):
                row["dtIgnore"] = np.asarray(row["dtIgnore"], dtype=bool)
                row["dtIgnore"][number % 10 :, ::3] = True  # from some threshold on
                row["gtIgnore"] = np.asarray(row["gtIgnore"])
                row["gtIgnore"][number % 4 :: 3] = 1
            found[:: len(found) // 2 + 1] = [None] * len(found[:: len(found) // 2 + 1])
            lists.append(found)
            evaluator.evalImgs = found
            evaluator.params.recThrs, evaluator.params.maxDets = np.array([0, 0.3, 0.9]), [1, 10, 100]
            with contextlib.redirect_stdout(io.StringIO()):
                evaluator.accumulate()
        assert [name for name in ARRAYS if not is_same(our_own.eval[name], theirs.eval[name])] == []
        assert our_own.evalImgs is lists[0]


def test_evaluate_takes_the_place_of_what_was_assigned():
    our_own, theirs = pair()
    our_own.evalImgs = [None] * len(our_own.evalImgs)
    our_own.accumulate()
    assert our_own.eval["recall"].max() == -1
    our_own.params.catIds, categories = [], our_own.params.catIds
    our_own.evaluate()
    assert (our_own.evalImgs, our_own.ious) == ([], {})
    our_own.evalImgs = []
    our_own.accumulate()
    assert our_own.eval["counts"][2] == 0
    our_own.params.catIds = categories
    our_own.evaluate()
    our_own.accumulate()
    assert is_same(our_own.eval["recall"], theirs.eval["recall"])
    assert any(our_own.evalImgs)


def test_a_step_that_only_a_subclass_has_is_no_part_of_evaluate():
    class Own(ours.COCOeval):
        _prepare = Chunks._prepare

    our_own, _ = pair()
    evaluator = Own(our_own.cocoGt, our_own.cocoDt, "bbox")
    evaluator.evaluate()
    with pytest.raises(ValueError, match=r"`evaluate` must be called first, with `COCOeval\._prepare`"):
        evaluator.accumulate()


def test_results_on_a_data_set_of_pycocotools_are_read():
    data_set, results = draw(0, "bbox")
    theirs = their_coco.COCO()
    theirs.dataset = data_set
    with contextlib.redirect_stdout(io.StringIO()):
        theirs.createIndex()
    found = ours.COCO.loadRes(theirs, results)
    assert found.anns == ours.COCO(data_set).loadRes(results).anns
    assert found.imgs == theirs.imgs


def without(key):
    return lambda found, _: [row and {name: row[name] for name in row if name != key} for row in found]


def of_other_scores(found, _):
    return [row and row | {"dtScores": [float("nan")] * len(row["dtScores"])} for row in found]


OF_DICTS = "^`evalImgs` must hold dicts with `dtScores` .D., finite"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found, _: found[1:], r"`evalImgs` must have a dict or None for each of \d+ categories, 4 area ranges"),
        (lambda found, _: [row and 3 for row in found], OF_DICTS),
        (without("dtMatches"), OF_DICTS),
        (of_other_scores, OF_DICTS),
        (lambda found, params: setattr(params, "iouThrs", [0.5]) or found, OF_DICTS),
        (lambda found, params: setattr(params, "catIds", [123]) or found, "`params` must have the `catIds`, `areaRng`"),
    ],
)
def test_metrics_that_were_merged_wrongly_are_refused(change, message):
    our_own, _ = pair()
    before = our_own._paramsEval
    our_own.evalImgs = change(our_own.evalImgs, our_own.params)
    our_own._paramsEval = before
    with pytest.raises(ValueError, match=re.compile(message)):
        our_own.accumulate()
