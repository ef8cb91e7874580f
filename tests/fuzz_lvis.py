"""Random problems against lvis-api, boxes and masks: `python -m tests.fuzz_lvis [problems] [first seed]`.

Not part of the suite, for lvis-api is none of its packages: `pip install --no-deps lvis`. It is run as it is, but for
`np.float`, which NumPy no longer has, and the drawing of images.
"""

import argparse
import json
import logging
import sys
import tempfile
import types
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from pycocotools import mask as coco_masks

from reid_torchmetrics import LvisMAP
from tests.golden.federated_cases import DetectionCase

SIZE = 96, 120
EXACT = 1e-12


def draw(seed: int) -> DetectionCase:
    """A problem of boxes, and in every third of masks; equal scores and overlaps are frequent."""
    random = np.random.default_rng(seed)
    num_images, num_classes = random.integers(1, 9), random.integers(1, 7)
    images = random.choice(10_000, num_images, replace=False)
    categories = random.choice(2_000, num_classes, replace=False) + 1
    num_true, num_found = random.integers(1, 6 * num_images + 2), random.integers(1, 30 * num_images + 2)
    true_image, true_class = random.choice(images, num_true), random.choice(categories, num_true)
    true_box = _boxes(random, num_true)
    # Half of the detections are moved objects, some of another class.
    copied = random.integers(0, num_true, num_found)
    is_copy = random.random(num_found) < 0.5
    moved = true_box[copied] + random.integers(-2, 3, (num_found, 4)) * (random.random((num_found, 1)) < 0.7)
    moved[:, 2:] = moved[:, 2:].clip(1)
    moved[:, :2] = moved[:, :2].clip(0)
    same_class = is_copy & (random.random(num_found) < 0.9)
    levels = random.choice([4, 12, 65_536])
    area = true_box[:, 2] * true_box[:, 3]
    lists = {}
    for name, share in (("neg_category_ids", 0.4), ("not_exhaustive_category_ids", 0.25)):
        held = [categories[random.random(num_classes) < share] for _ in images]
        lists[f"{name}_flat"], lists[f"{name}_len"] = np.concatenate(held), np.array([*map(len, held)])
    given = {
        "image_ids": images,
        "category_ids": categories,
        "cat_frequency": random.choice([*"rcf"], num_classes),
        "gt_image": true_image,
        "gt_category": true_class,
        "gt_box": true_box,
        "gt_area": np.where(random.random(num_true) < 0.1, 0.0, area * random.choice([1.0, 0.5, 0.8], num_true)),
        "gt_ignore": (random.random(num_true) < 0.15).astype(int),
        "dt_image": np.where(is_copy, true_image[copied], random.choice(images, num_found)),
        "dt_category": np.where(same_class, true_class[copied], random.choice(categories, num_found)),
        "dt_box": np.where(is_copy[:, None], moved, _boxes(random, num_found, least=0)),
        "dt_score": (1 + random.integers(0, levels, num_found)) / (levels + 1),
        "height": np.array(SIZE[0]),
        "width": np.array(SIZE[1]),
        **lists,
    }
    if seed % 3 == 0:
        given |= _masks(random, given)
    return DetectionCase(str(seed), given, {})


def _boxes(random: np.random.Generator, number: int, least: int = 1) -> np.ndarray:
    sides = random.choice([8, 32, 96], (number, 1))
    size = random.integers(least, sides + 1, (number, 2))
    corner = random.integers(0, np.maximum(np.array(SIZE[::-1]) - size, 1))
    return np.concatenate([corner, size], 1) * random.choice([1.0, 1.0, 0.8125])


def _masks(random: np.random.Generator, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Polygons of ground truths, and run lengths of detections, inside of the boxes."""
    polygons = []
    for x, y, width, height in given["gt_box"]:
        cut = random.random() / 2
        polygons.append([x, y, x + width, y, x + width, y + height, x + width * cut, y + height])
    runs = []
    for x, y, width, height in given["dt_box"].round().astype(int):
        mask = np.zeros(SIZE, dtype=np.uint8, order="F")
        mask[y : y + height, x : x + width] = random.random() < 0.95
        flat = np.concatenate([[0], mask.flatten(order="F"), [2]])
        ends = np.flatnonzero(np.diff(flat))
        runs.append(np.diff(np.concatenate([[0], ends])) if len(ends) > 1 else np.array([mask.size]))
    lengths = {"gt_poly": polygons, "dt_rle": runs}
    found = {f"{name}_flat": np.concatenate(each) for name, each in lengths.items()}
    found |= {f"{name}_len": np.array([*map(len, each)]) for name, each in lengths.items()}
    return found | {"gt_poly_count": np.ones(len(polygons), dtype=int)}


def by_lvis(results: str, data_set: str, *, iou_type: str, limit: int) -> tuple[list[float], dict[str, np.ndarray]]:
    """The 13 numbers of lvis-api, and its precision and recall."""
    modules = {name: types.ModuleType(name) for name in ("cv2", "matplotlib.pyplot")}
    with mock.patch.dict(sys.modules, modules), mock.patch.object(np, "float", float, create=True):
        from lvis import LVIS, LVISEval, LVISResults  # noqa: PLC0415

        truth = LVIS(data_set)
        found = json.loads(Path(results).read_text(encoding="utf-8"))
        if iou_type == "segm":
            for row in found:
                counts = {"size": row["segmentation"]["size"], "counts": row["segmentation"]["counts"]}
                row["segmentation"] = coco_masks.frPyObjects(counts, *SIZE)
        evaluation = LVISEval(truth, LVISResults(truth, found, max_dets=limit), iou_type)
        evaluation.params.max_dets = limit
        evaluation.run()
    return list(evaluation.results.values()), evaluation.eval


def difference(seed: int) -> float:
    """The largest difference of a number."""
    case = draw(seed)
    limit = [300, 5, 20][seed // 3 % 3]
    has_masks = "dt_rle_flat" in case.given
    iou_type = "segm" if has_masks else "bbox"
    with tempfile.TemporaryDirectory() as folder:
        files = case.write(Path(folder), masks=has_masks, boxes=not has_masks)
        theirs, _ = by_lvis(*files, iou_type=iou_type, limit=limit)
        metric = LvisMAP("xywh", iou_type, frequencies=LvisMAP.read_frequencies(files[1]), max_detections=limit)
        metric.update(*LvisMAP.coco_to_tm(*files, iou_type))
    ours = [float(value) for value in metric.results().summary().values()]
    return float(np.abs(np.array(ours) - np.array(theirs)).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="?", type=int, default=1000)
    parser.add_argument("first", nargs="?", type=int, default=0)
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("error", UserWarning)  # nothing is odd here
    found = {seed: difference(seed) for seed in range(asked.first, asked.first + asked.problems)}
    wrong = [seed for seed, each in found.items() if not each <= EXACT]
    sys.stdout.write(f"{len(found)} problems; largest difference {max(found.values()):.1e}; above {EXACT}: {wrong}\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
