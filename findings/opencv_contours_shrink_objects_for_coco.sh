#!/usr/bin/env bash
# OpenCV 5.0.0 and pycocotools 2.0.11: the outline of a mask, read as a polygon, is a smaller mask: AP 0.7 for 1.0.
#
# One expects: `cv2.findContours` of a mask, written as COCO's `segmentation`, is the mask again in pycocotools, or
#     loses a pixel here and there.
# What happens: OpenCV's outline runs through the centers of the outermost pixels, and pycocotools fills what lies
#     within the outline as if pixels had no extent. A square of 10 x 10 pixels comes back as 9 x 9, which overlaps by
#     0.81. A perfect detector has an AP of 0.7 on it, of 0.2 on 4 x 4, of 0.9 on 32 x 32, and of 1.0 on 64 x 64.
#     `cv2.fillPoly` of the same outline is exact, so that looking at it in OpenCV shows nothing.
# Why it matters: most converters of masks to COCO use these two calls. Labels made so keep the best possible AP of small
#     objects below 1, and give more to a model that was trained on shrunken masks than to a right one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet opencv-python-headless==5.0.0.93 pycocotools==2.0.11 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import contextlib
import io
from importlib.metadata import version

import cv2
import numpy as np
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

print("opencv", cv2.__version__, "pycocotools", version("pycocotools"))


def average_precision(mask, outline):
    truth = COCO()
    box = [20, 20, *(int(mask.any(axis).sum()) for axis in (0, 1))]
    row = {"id": 1, "image_id": 1, "category_id": 1, "bbox": box, "area": int(mask.sum()), "iscrowd": 0}
    truth.dataset = {
        "images": [{"id": 1, "width": 100, "height": 100}],
        "categories": [{"id": 1, "name": "object"}],
        "annotations": [row | {"segmentation": [outline.flatten().tolist()]}],
    }
    found = run_lengths.encode(np.asfortranarray(mask))
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        result = truth.loadRes([{"image_id": 1, "category_id": 1, "score": 0.9, "segmentation": found}])
        evaluation = COCOeval(truth, result, "segm")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return int(truth.annToMask(truth.dataset["annotations"][0]).sum()), round(float(evaluation.stats[0]), 3)


numbers = {}
for side in (4, 10, 32, 64):
    mask = np.zeros((100, 100), np.uint8)
    mask[20 : 20 + side, 20 : 20 + side] = 1
    (outline,), _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    assert np.array_equal(cv2.fillPoly(np.zeros_like(mask), [outline], 1), mask)
    numbers[side] = average_precision(mask, outline)
    print(f"{side} x {side} = {mask.sum()} pixels: {numbers[side][0]} come back, AP of the mask itself {numbers[side][1]}")

assert numbers == {4: (9, 0.2), 10: (81, 0.7), 32: (961, 0.9), 64: (3969, 1.0)}
print("as described")
PYTHON
