#!/usr/bin/env bash
# kornia 0.9.0: `Boxes.compute_area` returns (width - 1) * (height - 1), and its own width and height say otherwise.
#
# One expects: a box "xyxy" from 0 to 10 has a width and a height of 10, as `get_boxes_shape` says, and an area of 100.
# What happens: the area is 81. Corners are stored as those of the last pixels, one less than the right and lower edge;
#     width and height add the one again, and the area does not. A box that is one pixel wide has no area.
# Why it matters: areas decide which objects are small, medium and large: of squares with sides of 20 to 110 pixels, those
#     with sides from 32 to 33 and from 96 to 97 pixels are counted in the class below. `filter_boxes_by_area` with a
#     lowest area of 1 empties boxes that are one pixel wide, such as poles that are far away, however tall they are.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet kornia==0.9.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import kornia
import torch
from kornia.geometry.boxes import Boxes

print("kornia", kornia.__version__)
corners = torch.tensor([[0.0, 0.0, 10.0, 10.0], [5.0, 5.0, 6.0, 105.0], [0.0, 0.0, 32.5, 32.5]])
boxes = Boxes.from_tensor(corners, mode="xyxy")
heights, widths = boxes.get_boxes_shape()
areas = boxes.compute_area()
for corner, width, height, area in zip(corners.tolist(), widths, heights, areas):
    print(f"{corner}: width {width:g} * height {height:g} = {width * height:g}, compute_area {area:g}")

sides = torch.arange(20, 110.5, 0.5)
squares = Boxes.from_tensor(torch.stack([0 * sides, 0 * sides, sides, sides], dim=1), mode="xyxy")
borders = torch.tensor([32.0**2, 96.0**2])
differ = torch.bucketize(squares.compute_area(), borders) != torch.bucketize(sides**2, borders)
print("sides of squares in another class of sizes:", sides[differ].tolist())

kept = boxes.filter_boxes_by_area(min_area=1.0).to_tensor("xyxy")
print("boxes after filter_boxes_by_area(min_area=1):", kept.tolist())

assert torch.equal(boxes.to_tensor("xyxy"), corners)
assert torch.equal(areas, (widths - 1) * (heights - 1))
assert areas.tolist() == [81.0, 0.0, 992.25]
assert sides[differ].tolist() == [32.5, 33.0, 96.5, 97.0]
assert kept[0].tolist() == corners[0].tolist() and kept[1].tolist() != corners[1].tolist()
print("as described")
PYTHON
