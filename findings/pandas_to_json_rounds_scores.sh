#!/usr/bin/env bash
# pandas 3.1.1, pycocotools 2.0.11: `DataFrame.to_json` writes ten decimals, so that small scores become equal or zero.
#
# One expects: detections that are written from a table as COCO results have the AP that they had in memory, as with
#     `json.dump`, which writes every number so that it is read as the same.
# What happens: `double_precision` is 10 decimals (not digits) by default and 15 at most. A score of 1.2e-11 is written
#     as 0.0. Detectors with focal loss, and products of probabilities, have most of their scores down there: the AP of a
#     perfect order of 200 detections falls, as rounded scores are sorted by their order in the file.
# Why it matters: the numbers of true detections do not change, nothing warns, and the file looks right. `read_json`
#     has a second rounding: without `precise_float=True` it reads 0.12345678901234567 as 0.12345678901234501.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pandas==3.1.1 numpy==2.4.6 pycocotools==2.0.11
"$folder/env/bin/python" - <<'PYTHON'
import contextlib
import io
import json
from importlib.metadata import version

import pandas as pd
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

print("pandas", pd.__version__, "- pycocotools", version("pycocotools"))
BOX, FALSE_BOX = [10.0, 10.0, 20.0, 20.0], [60.0, 60.0, 20.0, 20.0]
images = [{"id": number, "width": 100, "height": 100} for number in range(1, 101)]
truth = {
    "images": images,
    "categories": [{"id": 1, "name": "person"}],
    "annotations": [
        {"id": image["id"], "image_id": image["id"], "category_id": 1, "bbox": BOX, "area": 400.0, "iscrowd": 0}
        for image in images
    ],
}
detections = []
for image in images:  # in each image a false detection stands before the true one, whose score is higher
    detections.append({"image_id": image["id"], "category_id": 1, "bbox": FALSE_BOX, "score": 1e-13 * image["id"]})
    detections.append({"image_id": image["id"], "category_id": 1, "bbox": BOX, "score": 2e-11 + 1e-13 * image["id"]})


def average_precision(rows):
    with contextlib.redirect_stdout(io.StringIO()):
        data_set = COCO()
        data_set.dataset = truth
        data_set.createIndex()
        evaluation = COCOeval(data_set, data_set.loadRes(rows), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats[0]


table = pd.DataFrame(detections)
texts = {"json.dumps": json.dumps(detections)}
texts |= {f"to_json, {digits} decimals": table.to_json(orient="records", double_precision=digits) for digits in (10, 15)}
numbers = {name: average_precision(json.loads(text)) for name, text in texts.items()}
for name, number in numbers.items():
    print(f"{name}: AP {number:.3f}, first score {json.loads(texts[name])[1]['score']}")
read = pd.read_json(io.StringIO('[{"score": 0.12345678901234567}]'))["score"][0]
print("read_json of 0.12345678901234567:", repr(float(read)))

assert numbers["json.dumps"] > 0.999
assert numbers["to_json, 10 decimals"] < 0.6
assert float(read) != 0.12345678901234567
print("as described")
PYTHON
