"""Folders of YOLO with few lines, of each kind: a reading is what was written, or an error that names `iou_type`."""

import math
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.data import read_yolo
from tests.profiles import examples

SIZE = (100, 200)
RULE = re.compile(r"`iou_type` must be (given|another one) where lines may be several things: ")
KINDS = {
    ("box", "box"): "bbox",
    ("polygon", "polygon"): "segm",
    ("corners", "corners"): "rotated",
    ("pose", "pose"): "keypoints",
    ("box", "polygon"): "bbox",
    ("polygon", "box"): "bbox",
    ("box", "corners"): "bbox",
    ("box", "pose"): "bbox",
    ("pose", "box"): "bbox",
}
"""kinds of the shapes in labels and results, and the `iou_type` that both can be compared by"""


def around(points):
    xs, ys = points[::2], points[1::2]
    return [min(xs), min(ys), max(xs), max(ys)]


def drawn_shape(rng, kind, number, width, *, is_result):
    """The numbers of a shape, its edges, and its keypoints with three numbers each."""
    x, y, w, h = rng.uniform(0.2, 0.8), rng.uniform(0.2, 0.8), rng.uniform(0.02, 0.35), rng.uniform(0.02, 0.35)
    if kind == "polygon":
        angles = [2 * math.pi * place / number for place in range(number)]
        spread = [rng.uniform(0.1, 0.18) for _ in angles]
        points = [
            value
            for angle, far in zip(angles, spread, strict=True)
            for value in (x + far * math.cos(angle + 0.3), y + far * math.sin(angle + 0.3))
        ]
        return points, around(points), []
    if kind == "corners":
        cos, sin = math.cos(rng.uniform(0.3, 1.2)), math.sin(rng.uniform(0.3, 1.2))
        points = []
        for right, down in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
            points += [x + right * w / 4 * cos - down * h / 6 * sin, y + right * w / 4 * sin + down * h / 6 * cos]
        return points, around(points), []
    numbers, keypoints = [x, y, w, h], []
    for _ in range(number if kind == "pose" else 0):
        px, py = rng.uniform(x - w / 2, x + w / 2), rng.uniform(y - h / 2, y + h / 2)
        third = rng.random() if is_result else rng.choice([0, 1, 2])
        if rng.random() < 0.1:
            px, py, third = 0.0, 0.0, 0
        numbers += [px, py, third][:width]
        keypoints.append([px, py, third if width == 3 else 2.0 * (px != 0)])
    return numbers, [x - w / 2, y - h / 2, x + w / 2, y + h / 2], keypoints


def write(folder, rng, kind, number, width, num_images, *, is_result):
    """Write a file with a shape for each image; return the shapes."""
    folder.mkdir()
    shapes = []
    for image in range(num_images):
        shape = drawn_shape(rng, kind, number, width, is_result=is_result)
        words = [repr(value) for value in shape[0]] + ["0.5"] * is_result
        (folder / f"{image}.txt").write_text(f"0 {' '.join(words)}\n", encoding="utf-8")
        shapes.append(shape)
    return shapes


def assert_written(image, shape, kind):
    numbers, edges, keypoints = shape
    if "boxes" in image:
        assert image["boxes"][0].tolist() == pytest.approx([edge * SIZE[i % 2] for i, edge in enumerate(edges)])
    if "rotated_boxes" in image:
        assert kind == "corners"
        assert image["rotated_boxes"][0].tolist() == pytest.approx([v * SIZE[i % 2] for i, v in enumerate(numbers)])
    if "keypoints" in image:
        expected = [[x * SIZE[0], y * SIZE[1], third] for x, y, third in keypoints]
        for found, row in zip(image["keypoints"][0].tolist(), expected, strict=True):
            assert found == pytest.approx(row)


@pytest.mark.filterwarnings("ignore:The 8 numbers")
@examples(160)
@given(st.integers(0, 10**6), st.sampled_from(sorted(KINDS)))
def test_few_lines_are_read_as_they_were_written_or_refused(tmp_path_factory, seed, kinds):
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    folder = tmp_path_factory.mktemp("yolo")
    num_images, number = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3, 4, 5, 6, 17])
    widths = rng.choice([2, 3]), rng.choice([2, 3])
    sides = {}
    for name, kind, width in zip(("labels", "results"), kinds, widths, strict=True):
        size = rng.choice([3, 4, 5, 6, 8, 9]) if kind == "polygon" else number
        sides[name] = write(folder / name, rng, kind, size, width, num_images, is_result=name == "results")

    for iou_type in dict.fromkeys((None, "bbox", KINDS[kinds])):
        try:
            preds, target = read_yolo(*(folder / name for name in sides), iou_type=iou_type, image_sizes=SIZE)
        except ValueError as error:
            is_open = iou_type in (None, "bbox") and kinds != ("box", "box")
            if not (is_open and RULE.match(str(error))):
                raise
            continue
        for kind, images, shapes in zip(kinds, (target, preds), sides.values(), strict=True):
            for image, shape in zip(images, shapes, strict=True):
                assert_written(image, shape, kind)
