#!/usr/bin/env bash
# OpenCV 5.0.0.93: `rotatedRectangleIntersection` returns half of a box as the overlap of two that nearly agree.
#
# One expects: two boxes of 90 x 7 pixels whose centers are 0.01 pixels and whose angles 0.004 degrees apart overlap by
#     nearly all of their area, as in Shapely.
# What happens: in two of 40,000 pairs that were drawn with such differences a corner of the intersection is lost, and a triangle with half of the
#     area is returned: IoU 0.33 instead of 0.998. With other differences, smaller or larger, the same boxes are right.
# Why it matters: evaluations of rotated boxes, as in DOTA, compute IoU by this function and `contourArea`. The pairs that
#     are hit are those of a detector that is right, so that a match is lost at every threshold.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet opencv-python-headless==5.0.0.93 shapely==2.2.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import cv2
from shapely.geometry import Polygon

print("opencv", version("opencv-python-headless"), "- shapely", version("shapely"))
PAIRS = {  # center, size, angle in degrees: float32, as OpenCV computes in it
    "90 x 7": (
        ((595.5924072265625, 750.9586181640625), (89.51963806152344, 6.845221996307373), 91.8648452758789),
        ((595.5846557617188, 750.9586181640625), (89.51963806152344, 6.845221996307373), 91.8606948852539),
    ),
    "44 x 35": (
        ((1912.1461181640625, 774.6015625), (44.31538772583008, 35.018489837646484), 104.4474868774414),
        ((1912.1434326171875, 774.6015625), (44.31538772583008, 35.018489837646484), 104.44529724121094),
    ),
}


def iou_opencv(one, other):
    _, corners = cv2.rotatedRectangleIntersection(one, other)
    overlap = cv2.contourArea(cv2.convexHull(corners))
    return overlap / (one[1][0] * one[1][1] + other[1][0] * other[1][1] - overlap)


def iou_shapely(one, other):
    one, other = (Polygon(cv2.boxPoints(box).astype(float)) for box in (one, other))
    return one.intersection(other).area / one.union(other).area


for name, (one, other) in PAIRS.items():
    moved = (other[0][0] - 0.05, other[0][1]), *other[1:]
    values = [(iou_opencv(one, box), iou_shapely(one, box)) for box in (other, moved)]
    print(f"{name}: OpenCV {values[0][0]:.3f}, Shapely {values[0][1]:.3f}")
    print(f"    0.05 pixels further: OpenCV {values[1][0]:.3f}, Shapely {values[1][1]:.3f}")
    assert values[0][0] < 0.34 < 0.99 < values[0][1]
    assert abs(values[1][0] - values[1][1]) < 0.005
print("as described")
PYTHON
