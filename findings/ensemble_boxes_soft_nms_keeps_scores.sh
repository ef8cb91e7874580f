#!/usr/bin/env bash
# ensemble-boxes 1.0.9: `soft_nms` returns all scores as they were, so that it suppresses nothing.
#
# One expects: soft non-maximum suppression lowers the scores of boxes that overlap a better one. Two boxes of one object
#     with 0.9 and 0.8 come back as 0.9 and about 0.1.
# What happens: lowered scores decide what stays above `thresh`, and the order of rows, and are then forgotten. Boxes
#     are returned with the scores that they came with, 0.9 and 0.8.
# Why it matters: whatever ranks detections by their score, as all evaluations do, sees every box of an object as before.
#     With one object found twice, and a second one found with 0.6, AP is the same as without suppression: 0.833 for 1.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet ensemble-boxes==1.0.9 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import numpy as np
from ensemble_boxes import soft_nms

print("ensemble-boxes", version("ensemble-boxes"))
boxes = [[0.1, 0.1, 0.5, 0.5], [0.11, 0.1, 0.5, 0.5], [0.6, 0.6, 0.9, 0.9]]
scores = [0.9, 0.8, 0.6]
for name, method in (("linear", 1), ("gaussian", 2)):
    kept, kept_scores, _ = soft_nms([boxes], [scores], [[0, 0, 0]], method=method, iou_thr=0.5, sigma=0.5, thresh=0.001)
    print(name, dict(zip(map(str, kept.tolist()), kept_scores.tolist())))
    assert sorted(kept_scores.tolist()) == [0.6, 0.8, 0.9]
    assert dict(zip(map(tuple, kept.tolist()), kept_scores.tolist())) == dict(zip(map(tuple, boxes), scores))
overlap = 0.39 / 0.4
print("right: the second box has", round(0.8 * (1 - overlap), 3), "by linear,",
      round(0.8 * float(np.exp(-(overlap**2) / 0.5)), 3), "by gaussian weights")
fewer, _, _ = soft_nms([boxes], [scores], [[0, 0, 0]], method=2, sigma=0.5, thresh=0.2)
print("boxes above thresh=0.2:", len(fewer))
assert len(fewer) == 2
print("as described")
PYTHON
