"""Results with several shapes in COCO's files: all entry points take areas as pycocotools does, or as they are told."""

import contextlib
import io
import json
import math
import tempfile
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import DetectionMAP, LvisMAP, VocMAP
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.command import main as command
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.detection.inputs import RunLengths
from tests.files.json_files import write_json
from tests.profiles import examples

SIZE = 160  # of images, in pixels; 32 and 96 are the borders of COCO's area ranges
NUMBERS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
KEYPOINT_NUMBERS = ("map", "map_50", "map_75", "map_medium", "map_large")
SHAPES = {"bbox": "bbox", "segm": "segmentation", "keypoints": "keypoints"}
SURPLUS = {"area": 1.0, "num_keypoints": 0, "iscrowd": 1, "id": 7, "ignore": 1, "is_good": True}


def box_of(random):
    width, height = random.choice((20, 31, 33, 60, 95, 97, 110)), random.choice((24, 32, 50, 96, 100))
    return [random.randrange(SIZE - width), random.randrange(SIZE - height), width, height]


def moved(box, random):
    """A box that overlaps another one, and may lie in another area range."""
    x, y, width, height = box
    return [x, y, max(1, round(width * random.choice((0.8, 1, 1, 1.2)))), height]


def shapes_of(boxes, *, compressed):
    """The columns of an object, each with a box of its own."""
    box, mask, points = boxes
    x, y, width, height = mask
    corners = [x, y, x + width, y, x + width, y + height, x, y + height]
    segmentation = [corners]
    if compressed:
        (segmentation,) = RunLengths.from_polygons([[corners]], (SIZE, SIZE)).to_coco(compressed=True)
    x, y, width, height = points
    keypoints = [value for i in range(17) for value in (x + width * (i % 5) / 4, y + height * (i % 4) / 3, 2)]
    return {"bbox": box, "segmentation": segmentation, "keypoints": keypoints}


def problem(seed, iou_type, *, is_complete=False):
    """Results with the evaluated shape and a draw of other keys, in any order, and a data set.

    Unless they must be complete, results without boxes may be evaluated by boxes around their masks or keypoints.
    """
    random = Random(seed)  # noqa: S311 - not for cryptography
    others = [key for shape, key in SHAPES.items() if shape != iou_type]
    keys = [SHAPES[iou_type], *random.sample(others, random.randrange(3))]
    if iou_type == "bbox" and not is_complete and len(keys) > 1 and random.random() < 0.5:
        keys.remove("bbox")
    surplus = random.sample(sorted(SURPLUS), random.randrange(4))
    annotations, results = [], []
    for image in (1, 2, 3):
        for _ in range(3):
            box = box_of(random)
            row = {"image_id": image, "category_id": random.choice((1, 2)), "id": len(annotations) + 1, "iscrowd": 0}
            columns = shapes_of([box] * 3, compressed=False)
            annotations.append(row | columns | {"area": box[2] * box[3], "num_keypoints": 17})
            for seen in (box, box_of(random)):
                shapes = shapes_of([moved(seen, random), moved(seen, random), moved(seen, random)], compressed=True)
                shapes = random.choice((shapes, shapes_of([box_of(random) for _ in range(3)], compressed=True)))
                result = {key: row[key] for key in ("image_id", "category_id")} | {"score": random.random()}
                result |= {key: SURPLUS[key] for key in surplus} | {key: shapes[key] for key in keys}
                pairs = list(result.items())
                random.shuffle(pairs)
                results.append(dict(pairs))
    images = [{"id": image, "width": SIZE, "height": SIZE, "file_name": f"{image}.jpg"} for image in (1, 2, 3)]
    categories = [{"id": label, "name": str(label)} for label in (1, 2)]
    return results, {"info": {}, "images": images, "annotations": annotations, "categories": categories}


def written(folder, results, data_set):
    return write_json(folder, results=results, data_set=data_set)


def by_coco(coco, evaluator, paths, iou_type):
    """The numbers of pycocotools' classes, ours or theirs, by name."""
    with contextlib.redirect_stdout(io.StringIO()):
        data_set = coco(paths[1])
        evaluation = evaluator(data_set, data_set.loadRes(paths[0]), iou_type)
        for step in (evaluation.evaluate, evaluation.accumulate, evaluation.summarize):
            step()
    return named(evaluation.stats.tolist(), iou_type)


def named(stats, iou_type):
    return dict(zip(KEYPOINT_NUMBERS if iou_type == "keypoints" else NUMBERS, stats, strict=False))


def by_metric(paths, iou_type, **options):
    metric = DetectionMAP("xywh", iou_type=iou_type)
    images = DetectionMAP.coco_to_tm(*paths, iou_type, guesses=[], **options)
    for image in range(len(images[0])):  # one image in a batch
        metric.update(*(side[image : image + 1] for side in images))
    return metric.results().means


def by_function(paths, iou_type):
    images = DetectionMAP.coco_to_tm(*paths, iou_type, guesses=[])
    return evaluate_images(*images, box_format="xywh", iou_type=iou_type).means


def by_command(paths, iou_type, *options):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert command(["detect", paths[1], paths[0], "--iou-type", iou_type, "--json", "-", *options]) == 0
    numbers = json.loads(out.getvalue())["numbers"]
    return {name: -1 if row["value"] is None else row["value"] for name, row in numbers.items()}


def assert_equal(numbers, expected):
    assert {name: numbers[name] for name in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("ignore")
@examples(12)
@given(seed=st.integers(0, 2**32), iou_type=st.sampled_from(sorted(SHAPES)))
def test_every_entry_point_takes_areas_as_pycocotools_from_rows_with_surplus_keys(seed, iou_type):
    pycocotools = pytest.importorskip("pycocotools.coco")
    evaluators = pytest.importorskip("pycocotools.cocoeval")
    with tempfile.TemporaryDirectory() as folder:
        paths = written(Path(folder), *problem(seed, iou_type))
        expected = by_coco(pycocotools.COCO, evaluators.COCOeval, paths, iou_type)
        assert_equal(by_coco(COCO, COCOeval, paths, iou_type), expected)
        for evaluate in (by_metric, by_function, by_command):
            assert_equal(evaluate(paths, iou_type), expected)


@pytest.mark.filterwarnings("ignore")
@examples(6)
@given(seed=st.integers(0, 2**32), iou_type=st.sampled_from(sorted(SHAPES)))
def test_areas_of_the_evaluated_shape_are_those_of_rows_without_surplus_keys(seed, iou_type):
    results, data_set = problem(seed, iou_type, is_complete=True)
    kept = {"image_id", "category_id", "score", SHAPES[iou_type]}
    plain = [{key: row[key] for key in row if key in kept} for row in results]
    with tempfile.TemporaryDirectory() as folder:
        expected = by_metric(written(Path(folder), plain, data_set), iou_type)
        paths = written(Path(folder), results, data_set)
        assert_equal(by_metric(paths, iou_type, detection_areas="shape"), expected)
        assert_equal(by_command(paths, iou_type, "--detection-areas", "shape"), expected)


def one_image(*results):
    """A truth of 50 x 50 pixels, which is medium, and results in its image."""
    truth = {"id": 1, "image_id": 1, "category_id": 1, "area": 2500, "iscrowd": 0}
    truth |= shapes_of([[10, 10, 50, 50]] * 3, compressed=False)
    image = {"id": 1, "width": SIZE, "height": SIZE, "neg_category_ids": [], "not_exhaustive_category_ids": []}
    categories = [{"id": 1, "name": "cat", "frequency": "c"}]
    data_set = {"images": [image], "annotations": [truth], "categories": categories}
    return [{"image_id": 1, "category_id": 1} | row for row in results], data_set


SMALL, MEDIUM, RIGHT = [100, 100, 20, 20], [100, 100, 50, 50], [10, 10, 50, 50]


def test_areas_of_lvis_are_those_of_boxes_as_in_its_api(tmp_path):
    # A wrong mask of 400 pixels, in a box of 2,500, comes before the right one: of the medium ones one of two is right.
    wrong = {"score": 0.9} | shapes_of([MEDIUM, SMALL, SMALL], compressed=True)
    right = {"score": 0.8} | shapes_of([RIGHT] * 3, compressed=True)
    for row in (wrong, right):
        del row["keypoints"]
    paths = written(tmp_path, *one_image(wrong, right))
    for areas, expected in (("coco", 0.5), ("shape", 1.0)):
        metric = LvisMAP("xywh", iou_type="segm")
        metric.update(*LvisMAP.coco_to_tm(*paths, "segm", detection_areas=areas, guesses=[]))
        assert float(metric.compute()["map_medium"]) == expected


def test_a_line_tells_where_areas_come_from_if_they_are_not_of_the_evaluated_shape(tmp_path):
    result = {"score": 0.9} | shapes_of([RIGHT] * 3, compressed=True)
    lines = {}
    for iou_type in ("bbox", "segm", "keypoints"):
        guesses = []
        DetectionMAP.coco_to_tm(*written(tmp_path, *one_image(result)), iou_type, guesses=guesses)
        lines[iou_type] = [line.partition(": ")[2] for line in guesses]
    line = "the sizes of results are those of their boxes, as in pycocotools"
    assert lines == {"bbox": [], "segm": [line], "keypoints": [line]}
    guesses = []
    paths = written(tmp_path, *one_image(result))
    DetectionMAP.coco_to_tm(*paths, "segm", detection_areas="shape", guesses=guesses)
    VocMAP.coco_to_tm(*paths, guesses=guesses)  # has no area ranges
    assert guesses == []


def test_results_of_keypoints_alone_have_boxes_around_them_as_in_pycocotools(tmp_path):
    result = {"score": 0.9, "keypoints": shapes_of([RIGHT] * 3, compressed=True)["keypoints"]}
    paths = written(tmp_path, *one_image(result))
    assert by_metric(paths, "bbox")["map"] == pytest.approx(1.0)
    assert by_coco(COCO, COCOeval, paths, "bbox")["map"] == pytest.approx(1.0)


def test_a_result_without_the_box_of_the_first_result_is_an_error_that_names_it(tmp_path):
    first = {"score": 0.9} | shapes_of([RIGHT] * 3, compressed=True)
    second = {key: value for key, value in first.items() if key != "bbox"}
    paths = written(tmp_path, *one_image(first, second))
    with pytest.raises(ValueError, match=r"must have `bbox` in every row of `results`; got .* in `results\[1\]`"):
        DetectionMAP.coco_to_tm(*paths, "segm", guesses=[])


def detection(**columns):
    box = torch.tensor([[10.0, 10, 60, 60]])
    return {"boxes": box, "scores": torch.tensor([0.9]), "labels": torch.tensor([1])} | columns


TARGET = {"boxes": torch.tensor([[10.0, 10, 60, 60]]), "labels": torch.tensor([1])}
WRONG = {"boxes": torch.tensor([[100.0, 100, 150, 150]])}


@pytest.mark.parametrize("invalid", ["count", "drop"])
def test_update_takes_areas_of_detections_for_the_area_ranges(invalid):
    # The wrong box has 2,500 pixels, which is medium, and its area says small.
    for area, expected in ((400.0, 1.0), (2500.0, 0.5), (math.nan, 0.5)):
        metric = DetectionMAP(invalid=invalid)
        rows = detection(boxes=torch.cat([WRONG["boxes"], TARGET["boxes"]]), scores=torch.tensor([0.95, 0.9]))
        rows |= {"labels": torch.tensor([1, 1]), "detection_area": torch.tensor([area, 2500.0])}
        metric.update([rows], [TARGET])
        assert float(metric.compute()["map_medium"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("areas", "rule"),
    [
        ([torch.tensor([1.0, 2.0])], r"have shape \[1\]"),
        ([torch.tensor([1j])], "have a real dtype"),
        (["large"], "be a tensor"),
        ([torch.tensor([])], r"have shape \[1\]"),
        ([torch.tensor([]), torch.tensor([1.0, 2.0])], r"have shape \[1\]"),  # of two images
    ],
)
def test_areas_of_detections_that_do_not_fit_are_an_error(areas, rule):
    preds = [detection(detection_area=area) for area in areas]
    with pytest.raises((TypeError, ValueError), match=rf"`preds\[0\]\['detection_area'\]` must {rule}"):
        DetectionMAP().update(preds, [TARGET] * len(preds))


@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_areas_of_no_detections_may_be_in_any_batch(iou_type):
    nothing = {"boxes": torch.empty(0, 4), "scores": torch.empty(0), "labels": torch.empty(0, dtype=torch.int64)}
    nothing |= {"masks": torch.empty(0, 8, 8, dtype=torch.bool), "detection_area": torch.empty(0)}
    mask = {"masks": torch.ones(1, 8, 8, dtype=torch.bool)}
    for columns in ({}, {"detection_area": torch.tensor([400.0])}):
        metric = DetectionMAP(iou_type=iou_type)
        for image in (nothing, detection(**mask, **columns)):
            metric.update([image], [TARGET | mask])
        assert float(metric.compute()["map"]) == pytest.approx(0.505, abs=1e-3)  # 51 of 101 recalls


def test_areas_of_some_detections_only_are_an_error():
    area = torch.tensor([400.0])
    with pytest.raises(ValueError, match=r"`preds\[1\]\['detection_area'\]` must be given because `preds` gives it"):
        DetectionMAP().update([detection(detection_area=area), detection()], [TARGET, TARGET])
    metric = DetectionMAP()
    metric.update([detection(detection_area=area)], [TARGET])
    metric.update([detection()], [TARGET])
    with pytest.raises(ValueError, match="`detection_area` must be given for all samples or for none; got it for 1 of"):
        metric.compute()
