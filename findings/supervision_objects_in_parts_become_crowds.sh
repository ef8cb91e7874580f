#!/usr/bin/env bash
# supervision 0.31.2: `as_coco` marks objects in two parts, or with a hole, as crowds, which COCO does not count.
#
# One expects: a data set of three objects with masks has three objects in any format that holds masks.
# What happens: `as_coco` writes a mask that is not one piece without holes as run lengths, and sets `iscrowd` to 1 with
#     it. COCO's evaluation leaves crowds out, so that finding one object of three has a recall of 1.0 at an overlap of
#     0.5. `as_yolo` and `as_pascal_voc` write an object for each part instead: four objects.
# Why it matters: objects are in parts where something stands in front of them. Converting the labels drops the occluded
#     objects, the hard ones, from the evaluation, and detections of them are no longer wrong or right. Nothing is said.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet supervision==0.31.2 opencv-python-headless==5.0.0.93 pycocotools==2.0.11 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import contextlib
import io
from importlib.metadata import version
from pathlib import Path

import cv2
import numpy as np
import supervision as sv
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

print("supervision", version("supervision"), "pycocotools", version("pycocotools"))
masks = np.zeros((3, 100, 100), bool)
masks[0, 10:50, 10:25] = True  # whole
masks[1, 60:90, 10:30] = masks[1, 60:90, 50:70] = True  # a person behind a post
masks[2, 10:50, 50:90] = True  # a frame
masks[2, 20:40, 60:80] = False
objects = sv.Detections(xyxy=sv.mask_to_xyxy(masks).astype(float), mask=masks, class_id=np.zeros(3, int))
cv2.imwrite("image.png", np.zeros((100, 100, 3), np.uint8))
data = sv.DetectionDataset(classes=["object"], images=["image.png"], annotations={"image.png": objects})
data.as_coco(annotations_path="coco.json")
data.as_yolo(annotations_directory_path="yolo")
data.as_pascal_voc(annotations_directory_path="voc")

with contextlib.redirect_stdout(io.StringIO()):
    truth = COCO("coco.json")
    found = run_lengths.encode(np.asfortranarray(masks[0].astype(np.uint8)))
    (image,) = truth.getImgIds()
    (category,) = truth.getCatIds()
    result = truth.loadRes([{"image_id": image, "category_id": category, "score": 0.9, "segmentation": found}])
    evaluation = COCOeval(truth, result, "segm")
    evaluation.evaluate()
    evaluation.accumulate()
crowds = [row["iscrowd"] for row in truth.dataset["annotations"]]
recall = float(evaluation.eval["recall"][0, 0, 0, -1])
lines = len(Path("yolo/image.txt").read_text().splitlines())
elements = Path("voc/image.xml").read_text().count("<object>")
print("iscrowd of the three objects:", crowds)
print("recall at an overlap of 0.5 if only the first object is found:", recall)
print(f"objects in YOLO's labels: {lines}, in Pascal VOC's: {elements}")

assert crowds == [0, 1, 1]
assert recall == 1
assert (lines, elements) == (4, 4)
print("as described")
PYTHON
