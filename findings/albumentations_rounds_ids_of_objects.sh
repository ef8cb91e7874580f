#!/usr/bin/env bash
# Albumentations 2.0.8: ids of objects that are passed as `label_fields` come back as other ids.
#
# One expects: a label field is carried along with its box: a flip gives back the numbers that went in.
# What happens: boxes and numeric fields share an array in float32, so that numbers above 16,777,216 are rounded. COCO's
#     annotation 900100259690 comes back as 900100259840.0, and the ids 20000001 and 20000002 as the same number. Texts
#     are not affected.
# Why it matters: ids of annotations, tracks and identities tell which box is which after boxes were dropped by a crop.
#     Ids that are hashed or stand for camera and time are this large: two identities become one, and the ground truth
#     of another object, or of none, is looked up.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet albumentations==2.0.8 opencv-python-headless==5.0.0.93 numpy==2.4.6
NO_ALBUMENTATIONS_UPDATE=1 "$folder/env/bin/python" - <<'PYTHON'
import albumentations
import numpy as np

print("albumentations", albumentations.__version__)
flip = albumentations.Compose(
    [albumentations.HorizontalFlip(p=1)],
    bbox_params=albumentations.BboxParams(format="coco", label_fields=["ids", "names"]),
)
ids = [17, 20000001, 20000002, 900100259690]
boxes = [[10, 10, 20, 20], [30, 30, 10, 10], [50, 50, 10, 10], [60, 10, 30, 60]]
result = flip(image=np.zeros((100, 100, 3), np.uint8), bboxes=boxes, ids=ids, names=[str(number) for number in ids])
print("before:", ids)
print("after:", result["ids"])
print("as texts:", result["names"])

assert [int(number) for number in result["ids"]] == [17, 20000000, 20000002, 900100259840]
assert result["names"] == [str(number) for number in ids]
print("as described")
PYTHON
