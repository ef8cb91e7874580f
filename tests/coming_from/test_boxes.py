"""From dicts and files of boxes: what the pages on MeanAveragePrecision and pycocotools say, both being run."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection import COCO_IOU_THRESHOLDS, COCO_RECALL_THRESHOLDS
from tests.coming_from.coco_files import stats_of, write
from tests.coming_from.pages import Row, check_row, live, names, names_of, rows, run, their_blocks
from tests.functional.detection.detection_samples import Dicts, fed, images, torchmetrics_peer
from tests.golden.coco_cases import RealProblem, val2014

FLOAT64 = {"iou_thresholds": [*COCO_IOU_THRESHOLDS], "rec_thresholds": [*COCO_RECALL_THRESHOLDS]}
LIMITS = {"max_detection_thresholds": [1, 5, 10]}
CALLS: dict[str, dict[str, Any]] = {"map_without_100": LIMITS, "mar_without_100": LIMITS}
"""what both are asked for besides thresholds"""
VALUES = {"map_without_100": "map", "mar_without_100": "mar_10"}

pytestmark = pytest.mark.filterwarnings("ignore:Encountered more than", "ignore:.* are not finite or have")


BAD_BOXES = {"inverted": (40.0, 10.0, 5.0, 60.0), "nan": (float("nan"), 10.0, 5.0, 60.0)}


def with_bad(preds: Dicts, kind: str) -> Dicts:
    """The detections with one more in each image, a box of a kind with the highest score."""
    more = {"boxes": torch.tensor([BAD_BOXES[kind]]), "scores": torch.ones(1), "labels": torch.tensor([3])}
    return [{key: torch.cat([more[key], values]) for key, values in each.items()} for each in preds]


@cache
def images_of(case: str, output: str = "") -> tuple[Dicts, Dicts]:
    """The images of a row, with their `image_id`."""
    preds, target = of_val2014(val2014()) if case == "val2014" else images(5, num_levels=3, with_ids=True)
    if output.partition("_with_")[2] in BAD_BOXES:
        return with_bad(preds, output.partition("_with_")[2]), target
    if output == "map_of_a_repeated_image":
        return [*preds, preds[2]], [*target, target[2]]
    if output == "map_of_nothing":
        return preds[:1], [{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64), "image_id": 1}]
    return preds, target


def of_val2014(problem: RealProblem) -> tuple[Dicts, Dicts]:
    """100 images by ascending number; boxes are corner, width and height."""
    preds, target = [], []
    for image in problem.images.tolist():
        found, true = problem.detection_images == image, problem.ground_truth_images == image
        keys = ("boxes", "scores", "labels")
        columns = (getattr(problem, f"detection_{key}")[found] for key in keys)
        preds.append(dict(zip(keys, map(torch.from_numpy, columns), strict=True)))
        columns = problem.ground_truth_boxes, problem.ground_truth_labels, problem.is_crowd.astype(int), problem.areas
        tensors = (torch.from_numpy(column[true]) for column in columns)
        target.append(dict(zip(("boxes", "labels", "iscrowd", "area"), tensors, strict=True)) | {"image_id": image})
    return preds, target


@pytest.mark.parametrize("row", rows("mean_average_precision"), ids=names_of)
def test_mean_average_precision_differs_as_the_page_says(row: Row) -> None:
    case, _, output = row.key.split("/")
    preds, target = images_of(case, output)
    call = {"box_format": "xywh"} if case == "val2014" else CALLS.get(output, {})
    name = VALUES.get(output, "map")

    def ours(options: dict[str, Any]) -> float:
        without = {"image_id"} & set(options)
        chosen = {name: value for name, value in options.items() if name not in without}
        given = [{key: value for key, value in each.items() if key not in without} for each in target]
        return float(fed(DetectionMAP(**call, **chosen), preds, given).compute()[name])

    values = values_of_peer(case, "" if case == "val2014" else output)
    check_row(row, ours, live(row, float(values[name]), precision="float32"))


@cache
def values_of_peer(case: str, output: str) -> dict[str, Any]:
    """What TorchMetrics gives, with its own thresholds for `val2014` and with ours for other images."""
    options = {"box_format": "xywh"} if case == "val2014" else CALLS.get(output, {}) | FLOAT64
    with torchmetrics_peer() as peer:
        return fed(peer(**options), *images_of(case, output)).compute()


@pytest.mark.parametrize("row", rows("pycocotools"), ids=names_of)
def test_pycocotools_differs_as_the_page_says(row: Row, tmp_path: Path) -> None:
    case, _, output = row.key.split("/")
    preds, target = of_val2014(val2014()) if case == "val2014" else images(5, num_levels=9999, with_ids=True)
    if output.partition("_with_")[2] in BAD_BOXES:
        preds = with_bad(preds, output.partition("_with_")[2])
    iou_type = "segm" if output == "stats_of_masks" else "bbox"
    is_xywh = case == "val2014"
    first_id = int(output != "stats_with_id_0")
    paths = write(tmp_path, preds, target, first_id=first_id, is_xywh=is_xywh, with_masks=iou_type == "segm")
    limits = {"max_detection_thresholds": (1, 5, 10)} if output == "stats_without_100" else {}

    def ours(options: dict[str, Any]) -> list[float]:
        results = names("pycocotools")["coco_results"](*paths, iou_type, **limits, **options)
        summary = results.summary()
        sizes = ("small", "medium", "large")
        keys = ["map", "map_50", "map_75", *(f"map_{size}" for size in sizes)]
        keys += [f"mar_{each}" for each in (*results.coco.grid.max_detection_thresholds, *sizes)]
        return [float(summary[key]) for key in keys]

    theirs = live(row, val2014().stats if is_xywh else stats_of(*paths, iou_type, PARAMS.get(output, {})))
    check_row(row, ours, theirs)


PARAMS = {
    "stats_without_100": {"maxDets": [1, 5, 10]},
    "stats_without_categories": {"useCats": 0},
    "stats_of_two_thresholds": {"iouThrs": [0.5, 0.75], "maxDets": [1, 2, 100]},
}
"""what pycocotools is asked for"""


def test_their_code_on_the_files_of_ours_gives_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = write(tmp_path, *images(5, with_ids=True), first_id=1, is_xywh=False, with_masks=False)
    printed = numbers_in(str(names("pycocotools")["coco_results"](*paths)))
    (code,) = their_blocks("pycocotools")
    evaluator = run(code)["evaluator"]
    assert printed == numbers_in(capsys.readouterr().out)
    assert len(printed) == len(evaluator.stats) == 12


def numbers_in(text: str) -> list[str]:
    """The numbers that end the lines of COCO's summary."""
    return re.findall(r"= (-?\d\.\d{3})", text)
