#!/usr/bin/env bash
# pycocotools 2.0.11: the AP of small masks rises from 0.50 to 1.00 if the results have a `bbox` beside the mask.
#
# One expects: in the evaluation of masks, `COCOeval(..., "segm")`, the boxes of the results do not count, and a result
#     is small if its mask is.
# What happens: `loadRes` takes the area of each result from its box if the first result has one, and from its mask
#     otherwise. Areas of objects are those of their masks in both cases. The false positives here have masks of 464
#     pixels in boxes of 3,600, which is medium: with boxes, they are left out of the AP of small objects. Matched
#     results count by their object. AP over all sizes is 0.50 in both cases.
# Why it matters: results of detectors that write both, and of those that write masks alone, are compared by the AP of
#     small, medium and large objects. The thinner or more slanted the shapes are, the more errors move to a larger
#     size, and nothing is said. Deleting `bbox` from the results gives the areas of the masks.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pycocotools==2.0.11 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import contextlib
import io
from importlib.metadata import version

import numpy as np
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

print("pycocotools", version("pycocotools"))


def corner(x, y):
    mask = np.zeros((400, 400), np.uint8, order="F")
    mask[y : y + 60, x : x + 4] = mask[y : y + 4, x : x + 60] = 1
    return run_lengths.encode(mask)


right = [corner(10 + 80 * number, 10) for number in range(4)]
wrong = [corner(10 + 80 * number, 200) for number in range(4)]
common = {"image_id": 1, "category_id": 1}


def box(mask):
    return run_lengths.toBbox(mask).tolist()


def numbers(with_boxes):
    objects = [
        {"id": number, "segmentation": mask, "area": float(run_lengths.area(mask)), "bbox": box(mask), "iscrowd": 0}
        for number, mask in enumerate(right, 1)
    ]
    masks = [mask for pair in zip(wrong, right, strict=True) for mask in pair]
    results = [{"segmentation": mask, "score": 0.9 - 0.1 * number, **common} for number, mask in enumerate(masks)]
    if with_boxes:
        results = [{**row, "bbox": box(row["segmentation"])} for row in results]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "images": [{"id": 1, "width": 400, "height": 400}],
            "categories": [{"id": 1, "name": "a"}],
            "annotations": [{**row, **common} for row in objects],
        }
        truth.createIndex()
        loaded = truth.loadRes(results)
        evaluation = COCOeval(truth, loaded, "segm")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    areas = {int(row["area"]) for row in loaded.dataset["annotations"]}
    return areas, round(float(evaluation.stats[0]), 2), round(float(evaluation.stats[3]), 2)


for with_boxes in (False, True):
    areas, overall, small = numbers(with_boxes)
    print(f"boxes beside masks: {with_boxes}, areas of results: {areas}, AP {overall}, AP of small objects {small}")

assert numbers(False) == ({464}, 0.5, 0.5)
assert numbers(True) == ({3600}, 0.5, 1.0)
print("as described")
PYTHON
