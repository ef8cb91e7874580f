"""Draws problems in COCO's format, and evaluates them by pycocotools and by the classes of its names."""

import contextlib
import copy
import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import coco as their_coco
from pycocotools import cocoeval as their_evaluation
from pycocotools import mask as coco_masks

from reid_torchmetrics.coco import COCO, COCOeval

ARRAYS = ("precision", "recall", "scores")
HEIGHT, WIDTH = 24, 40
Change = Callable[[Any], None]


def draw(seed: int, iou_type: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A data set and results on it: twins, ties, crowds, and ids that are neither sorted nor dense."""
    random = np.random.default_rng(seed)
    images = random.choice(10_000, random.integers(1, 6), replace=False).tolist()
    categories = random.choice(100, random.integers(1, 5), replace=False).tolist()

    def row(num: int) -> dict[str, Any]:
        box = [*random.integers(0, 12, 2), *random.integers(1, 16, 2)]
        found = {"image_id": int(random.choice(images)), "category_id": int(random.choice(categories))}
        found["bbox"] = [float(each) * random.choice([1, 0.7]) for each in box]
        if iou_type == "segm":
            x, y, width, height = map(int, box)
            pixels = np.zeros((HEIGHT, WIDTH), dtype=np.uint8, order="F")
            pixels[y : y + height, x : x + width] = 1
            pixels &= (random.random((HEIGHT, WIDTH)) < random.choice([0.7, 2])).astype(np.uint8)
            found["segmentation"] = coco_masks.encode(np.asfortranarray(pixels))
        if iou_type == "keypoints":
            points = np.concatenate([random.integers(0, 20, (17, 2)), random.integers(0, 3, (17, 1))], 1)
            points[:, 2] *= random.random() < 0.9
            found |= {"keypoints": points.ravel().tolist(), "num_keypoints": int((points[:, 2] > 0).sum())}
        return found

    annotations = [
        row(number)
        | {"id": number, "area": float(random.choice([0, 30, 1024, 3000])), "iscrowd": int(random.random() < 0.2)}
        for number in random.permutation(random.integers(1, 30)) + 1
    ]
    for each in annotations:
        each["id"] = int(each["id"])
    results = [row(0) | {"score": float(random.integers(1, 9)) / 8} for _ in range(random.integers(1, 50))]
    for number in range(0, len(results), 3):  # some are right
        chosen = annotations[random.integers(len(annotations))]
        results[number] |= {key: copy.deepcopy(chosen[key]) for key in results[number].keys() & chosen.keys()}
    data_set = {
        "info": {},
        "images": [{"id": each, "height": HEIGHT, "width": WIDTH} for each in images],
        "categories": [{"id": each, "name": f"c{each}"} for each in categories],
        "annotations": annotations,
    }
    return data_set, results


def evaluated(
    data_set: Mapping[str, Any],
    results: list[dict[str, Any]],
    iou_type: str,
    change: Change | None = None,
    *,
    ours: bool,
) -> tuple[Any, str]:
    """The evaluation by one of both, and what its summary prints."""
    data_set, results = copy.deepcopy((data_set, results))
    with contextlib.redirect_stdout(io.StringIO()):
        truth: Any = COCO() if ours else their_coco.COCO()
        truth.dataset = data_set
        truth.createIndex()
        evaluator = (COCOeval if ours else their_evaluation.COCOeval)(truth, truth.loadRes(results), iou_type)
        if change is not None:
            change(evaluator.params)
        evaluator.evaluate()
        evaluator.accumulate()
    refused = () if ours else IndexError  # theirs, without three limits
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(refused):
        evaluator.summarize()
    return evaluator, printed.getvalue()


def differing(ours: Any, theirs: Any) -> list[str]:
    """What of two evaluations is not the same bit for bit."""
    names = [name for name in ARRAYS if not is_same(ours.eval[name], theirs.eval[name])]
    return names + ([] if is_same(ours.stats, theirs.stats) else ["stats"])


def is_same(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    return np.shape(ours) == np.shape(theirs) and bool(np.array_equal(ours, theirs))
