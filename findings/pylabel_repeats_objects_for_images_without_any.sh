#!/usr/bin/env bash
# pylabel 0.1.55: `ExportToCoco` writes the last object again for every image without objects that follows.
#
# One expects: a COCO file that is read and written has the same objects; images without objects have none.
# What happens: each image without objects adds a copy of the object before it, with its image and its id. Of three
#     objects in five images, two of which are empty, five are written. Classes without objects are left out, too.
# Why it matters: copies are ground truths that nothing can match. For a perfect detector on 60 images, a third of them
#     empty, average recall falls from 1.0 to 0.8, and the numbers of images and of detections are as before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pandas==2.3.3 numpy==2.4.6 matplotlib==3.11.2 opencv-python-headless==5.0.0.93 \
  pyyaml==6.0.4 tqdm==4.70.1 scikit-learn==1.9.1 jupyter_bbox_widget==0.7.0 pycocotools==2.0.11
"$folder/env/bin/pip" install --quiet --no-deps pylabel==0.1.55 bbox_visualizer==1.0.1
cd "$folder"
"$folder/env/bin/python" -W ignore - <<'PYTHON' 2>/dev/null
import contextlib
import io
import json
from collections import Counter
from importlib.metadata import version

from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from pylabel import importer

print("pylabel", version("pylabel"))
images = [{"id": image, "file_name": f"{image}.jpg", "width": 100, "height": 100} for image in range(1, 61)]
annotations = []
for image in range(1, 61):
    if image % 3 != 0:
        for place in (0, 50):
            box = [place, image % 7, 30, 40]
            annotation = {"id": len(annotations) + 1, "image_id": image, "category_id": 1, "bbox": box, "area": 1200}
            annotations.append(annotation | {"iscrowd": 0})
categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
with open("before.json", "w") as file:
    json.dump({"images": images, "categories": categories, "annotations": annotations}, file)
detections = [{key: object_[key] for key in ("image_id", "category_id", "bbox")} | {"score": 0.9} for object_ in annotations]

importer.ImportCoco("before.json", path_to_images=".", name="data").export.ExportToCoco(output_path="after.json")
recalls, written = {}, {}
for name in ("before", "after"):
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(f"{name}.json")
        evaluation = COCOeval(truth, truth.loadRes([dict(detection) for detection in detections]), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    objects = truth.dataset["annotations"]
    copies = Counter((item["image_id"], *item["bbox"]) for item in objects)
    recalls[name] = evaluation.stats[8]
    written[name] = len(objects), max(copies.values()), [row["name"] for row in truth.dataset["categories"]]
    print(f"{name}: {written[name][0]} objects, {len(copies)} different, classes {written[name][2]}, AR {recalls[name]:.3f}")

assert written["before"] == (80, 1, ["cat", "dog"]) and written["after"][0] == 100 and written["after"][1] == 2
assert written["after"][2] == ["cat"]
assert recalls["before"] == 1.0 and 0.75 < recalls["after"] < 0.85
print("as described")
PYTHON
