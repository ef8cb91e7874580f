#!/usr/bin/env bash
# pybboxes 0.2.0: every conversion rounds boxes to whole pixels, also one from fractions to fractions.
#
# One expects: `convert_bbox` changes the form of a box and not the box: fractions of the image in YOLO's order and in
#     FiftyOne's are the same numbers, and pixels in COCO's files are floats.
# What happens: the corners of each box are rounded to whole pixels on the way, in whatever formats. A perfect detector
#     of objects of 6 to 10 pixels, whose boxes are converted from YOLO's to COCO's format, has an AP of 0.78 and not
#     of 1.0. At an overlap of 0.9 its AP is 0.14.
# Why it matters: often the results of a detector are converted and the labels are not, or the other way round. That
#     lowers AP, most for small objects, and nothing is said. If both are converted, boxes that differ by less than a
#     pixel become equal. No argument changes this.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pycocotools==2.0.11 numpy==2.4.6
# pybboxes asks for old versions of NumPy and pycocotools alone.
"$folder/env/bin/pip" install --quiet --no-deps pybboxes==0.2.0
"$folder/env/bin/python" - <<'PYTHON'
import contextlib
import io
from importlib.metadata import version

import numpy as np
from pybboxes import convert_bbox
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

print("pybboxes", version("pybboxes"), "pycocotools", version("pycocotools"))
SIZE = 640
generator = np.random.default_rng(0)
corners = [(40 * column + 5, 40 * row + 5) for row in range(16) for column in range(16)]
boxes = np.hstack([corners + generator.uniform(0, 20, (256, 2)), generator.uniform(6, 10, (256, 2))])


def share(box):
    x, y, width, height = box
    return (x + width / 2) / SIZE, (y + height / 2) / SIZE, width / SIZE, height / SIZE


def precision(results):
    images = [{"id": 1, "width": SIZE, "height": SIZE}]
    common = {"image_id": 1, "category_id": 1}
    objects = [
        {"id": number, "bbox": box, "area": box[2] * box[3], "iscrowd": 0, **common}
        for number, box in enumerate(boxes.tolist(), 1)
    ]
    scores = 1 - np.arange(256) / 1000
    rows = [{"bbox": list(box), "score": float(score), **common} for box, score in zip(results, scores, strict=True)]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {"images": images, "categories": [{"id": 1, "name": "a"}], "annotations": objects}
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(rows), "bbox")
        evaluation.params.maxDets = [256]
        evaluation.evaluate()
        evaluation.accumulate()
    values = evaluation.eval["precision"][:, :, 0, 0, 0].mean(1)
    return round(float(values.mean()), 2), round(float(values[8]), 2)


shares = [share(box) for box in boxes.tolist()]
exact = [((x - w / 2) * SIZE, (y - h / 2) * SIZE, w * SIZE, h * SIZE) for x, y, w, h in shares]
options = {"image_size": (SIZE, SIZE), "from_type": "yolo"}
pixels = [convert_bbox(box, to_type="coco", **options) for box in shares]
fractions = [convert_bbox(box, to_type="fiftyone", **options) for box in shares]
by_fractions = [tuple(SIZE * value for value in box) for box in fractions]
print("first box:", boxes[0].round(2), "converted:", pixels[0], "by FiftyOne's format:", by_fractions[0])
for name, results in (("exact", exact), ("pixels", pixels), ("fractions", by_fractions)):
    print(f"{name}: AP and AP at an overlap of 0.9: {precision(results)}")

assert precision(exact) == (1.0, 1.0)
assert precision(pixels) == precision(by_fractions)
assert precision(pixels) == (0.78, 0.14)
assert all(float(value).is_integer() for box in pixels for value in box)
assert np.allclose(pixels, by_fractions)
print("as described")
PYTHON
