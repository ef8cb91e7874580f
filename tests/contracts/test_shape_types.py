"""The contract of a kind of shape: what every row of `SHAPE_TYPES` must satisfy, and rows that do not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, get_args
from unittest import mock

import pytest
import torch
from torch import Tensor

from reid_torchmetrics import DetectionMAP, _names
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.detection.inputs.keypoints import COCO_SIGMAS
from reid_torchmetrics.functional.detection.inputs.shape_types import SHAPE_TYPES, SHAPES_IN_WORDS
from reid_torchmetrics.functional.detection.inputs.shapes import ObjectColumns, ShapeType
from tests.contracts.missing import assert_nothing_missing
from tests.profiles import each_row
from tests.reference import keypoints, masks, rotated

DOCS = (Path(__file__).parents[2] / "docs" / "detection.md").read_text(encoding="utf-8")
NUM_SHAPES = 6
MakeType = Callable[[tuple[float, ...]], ShapeType]


@dataclass(frozen=True)
class Reference:
    """What a kind of shape is by its definition: shapes of one image, and loops over them."""

    draw: Callable[[Random, int], Tensor]
    """some shapes, as users have them"""
    area: Callable[[Any], float]
    """the area of a shape, as a list of numbers"""
    overlap: Callable[..., float]
    """of a detection and a ground truth, with `is_crowd`, and with `area` and `box` of the ground truth"""


def draw_masks(random: Random, number: int) -> Tensor:
    """Rectangles in images of 9 by 11 pixels, one of which is empty."""
    pixels = torch.zeros((number, 9, 11), dtype=torch.bool)
    for mask in pixels[1:]:
        top, left = random.randrange(6), random.randrange(8)
        mask[top : top + random.randint(1, 5), left : left + random.randint(1, 6)] = True
    return pixels


def draw_keypoints(random: Random, number: int) -> Tensor:
    """Persons, the first of whom has no labeled keypoint."""
    points = [
        [[random.uniform(0, 50), random.uniform(0, 80), random.choice([0.0, 1.0, 2.0])] for _ in COCO_SIGMAS]
        for _ in range(number)
    ]
    drawn = torch.tensor(points)
    drawn[0, :, 2] = 0
    return drawn


def draw_rotated(random: Random, number: int) -> Tensor:
    """Rotated boxes, the first of which has no area."""
    rows = [
        [
            random.uniform(0, 30),
            random.uniform(0, 30),
            random.uniform(2, 20),
            random.uniform(2, 20),
            random.uniform(-3, 3),
        ]
        for _ in range(number)
    ]
    rows[0][2] = 0.0
    return torch.tensor(rows, dtype=torch.float64)


def overlap_of_masks(mask: Any, other: Any, *, is_crowd: bool, **_: Any) -> float:
    return masks.mask_iou(masks.pixels_of(mask), masks.pixels_of(other), is_crowd=is_crowd)


def area_of_keypoints(points: Sequence[Sequence[float]]) -> float:
    """The area of the box around the labeled keypoints."""
    labeled = [point for point in points if point[2] > 0]
    if not labeled:
        return 0.0
    xs, ys = [point[0] for point in labeled], [point[1] for point in labeled]
    return (max(xs) - min(xs)) * (max(ys) - min(ys))


def overlap_of_keypoints(points: Any, true: Any, *, area: float, box: Sequence[float], **_: Any) -> float:
    return keypoints.similarity(points, true, area, box, COCO_SIGMAS)


def overlap_of_rotated(row: Any, other: Any, *, is_crowd: bool, **_: Any) -> float:
    return rotated.rotated_iou(row, other, is_crowd=is_crowd)


REFERENCES: dict[str, Reference] = {
    "segm": Reference(draw_masks, lambda mask: float(len(masks.pixels_of(mask))), overlap_of_masks),
    "keypoints": Reference(draw_keypoints, area_of_keypoints, overlap_of_keypoints),
    "rotated": Reference(draw_rotated, lambda row: row[2] * row[3], overlap_of_rotated),
}
"""the definitions, by the name of an `iou_type`"""


def check_shape_type(name: str, make: MakeType) -> None:
    """Raise an AssertionError unless a row keeps the contract of a kind of shape; its message says what to add."""
    reference_words = (
        "has no slow reference: add how shapes are drawn, and loops for areas and overlaps, to `REFERENCES` in"
        " tests/contracts/test_shape_types.py"
    )
    row_on_page = f'| `"{name}"` |'
    found = {
        reference_words: name in REFERENCES,
        "is no `IouType`: add it in _names.py": name in get_args(_names.IouType),
        "has no word in reports: add it to `SHAPES_IN_WORDS`, beside its row": name in SHAPES_IN_WORDS,
        "has no row in the table of `iou_type` in docs/detection.md: add it": row_on_page in DOCS,
    }
    assert_nothing_missing(name, found)
    kind = make(COCO_SIGMAS)
    assert isinstance(kind, ShapeType), f"{name!r} must make a `ShapeType`; got {type(kind).__name__}"
    assert getattr(type(kind), "__final__", False), f"the class of {name!r} must be final: decorate it with `final`"
    keys = {other: SHAPE_TYPES[other](COCO_SIGMAS).key for other in SHAPE_TYPES if other != name}
    assert kind.key not in {"boxes", *keys.values()}, f"{name!r} must have a `key` of its own; got {kind.key!r}"
    check_reading(name, kind)
    check_geometry(name, kind)
    with mock.patch.dict(SHAPE_TYPES, {name: make}):
        check_metric(name, kind)


def check_reading(name: str, kind: ShapeType) -> None:
    """Shapes are read with their length, also none of them; others are refused by the name of the argument."""
    drawn = REFERENCES[name].draw(Random(0), NUM_SHAPES)  # noqa: S311 - nothing is to be kept secret
    for is_true in (False, True):
        assert len(kind.read("shapes", drawn, is_true=is_true)) == NUM_SHAPES, f"{name!r}: `read` must keep all shapes"
        for empty in (torch.zeros(0), torch.zeros(0, 4), drawn[:0]):
            nothing = kind.read("shapes", empty, is_true=is_true)
            assert len(nothing) == 0, f"{name!r}: `read` must take tensors without entries, here {[*empty.shape]}"
            assert kind.boxes(nothing).shape == (0, 4), f"{name!r}: `boxes` of no shapes must be [0, 4]"
        for wrong in ("shapes", torch.ones(3)):
            with pytest.raises((TypeError, ValueError), match=r"^`shapes` "):
                kind.read("shapes", wrong, is_true=is_true)


def check_geometry(name: str, kind: ShapeType) -> None:
    """Areas, boxes, rows and overlaps, with crowds, are those of the slow reference, in float64."""
    reference = REFERENCES[name]
    for seed in range(3):
        random = Random(seed)  # noqa: S311 - nothing is to be kept secret
        found, true = reference.draw(random, NUM_SHAPES), reference.draw(random, NUM_SHAPES + 1)
        true[-2:] = found[:2]
        detections = kind.read("shapes", found, is_true=False)
        truths = kind.read("shapes", true, is_true=True)
        areas, boxes = kind.areas(truths), kind.boxes(truths)
        expected = [reference.area(shape) for shape in true.tolist()]
        assert areas.tolist() == pytest.approx(expected, abs=1e-6), (
            f"areas of {name!r} differ from those of `REFERENCES` in tests/contracts/test_shape_types.py"
        )
        assert areas.double().shape == (len(true),), f"{name!r} must have one area for each shape"
        assert boxes.shape == (len(true), 4), f"{name!r} must have a box [x, y, width, height] for each shape"
        assert len(kind.rows(truths)) == len(true), f"{name!r} must have a row of a file for each shape"
        is_crowd = torch.tensor([place == 2 for place in range(len(true))])
        columns = ObjectColumns(boxes.double(), areas.double(), is_crowd)
        overlaps = kind.overlaps(detections, truths, columns).double().nan_to_num(0.0)
        for row, shape in enumerate(found.tolist()):
            for column, other in enumerate(true.tolist()):
                of_truth = {"area": float(areas[column]), "box": boxes[column].tolist()}
                wanted = reference.overlap(shape, other, is_crowd=bool(is_crowd[column]), **of_truth)
                assert float(overlaps[row, column]) == pytest.approx(wanted, abs=1e-6), (
                    f"the overlap of {shape} with {other} is {float(overlaps[row, column])}, not {wanted}, as"
                    f" `REFERENCES[{name!r}]` in tests/contracts/test_shape_types.py has it"
                )


def check_metric(name: str, kind: ShapeType) -> None:
    """A metric and the function find shapes that are copies of the ground truths, and take images without any."""
    drawn = REFERENCES[name].draw(Random(0), 3)[1:]  # noqa: S311 - nothing is to be kept secret
    labels = torch.tensor([0, 1])
    found = {kind.key: drawn, "scores": torch.tensor([0.9, 0.8]), "labels": labels}
    true = {kind.key: drawn, "labels": labels}
    if kind.keeps_boxes:
        true["boxes"] = torch.tensor([[0.0, 0.0, 60.0, 90.0]] * 2)
    nothing = [{key: values[:0] for key, values in side.items()} for side in (found, true)]
    metric = DetectionMAP(iou_type=name)
    metric.update([found, nothing[0]], [true, nothing[1]])
    assert float(metric.compute()["map"]) == 1, f"`DetectionMAP(iou_type={name!r})` must find copies of ground truths"
    results = evaluate_images([found, nothing[0]], [true, nothing[1]], iou_type=name)
    assert float(results.means["map"]) == pytest.approx(1), f"`evaluate_images(iou_type={name!r})` must find copies"


@each_row("name", SHAPE_TYPES)
def test_a_kind_of_shape_keeps_its_contract(name):
    check_shape_type(name, SHAPE_TYPES[name])


def test_every_reference_is_of_a_row():
    assert REFERENCES.keys() <= SHAPE_TYPES.keys()


ROTATED = type(SHAPE_TYPES["rotated"](COCO_SIGMAS))


def changed(**members: Any) -> MakeType:
    """A kind of rotated boxes with other members."""
    made = type("Changed", (ROTATED,), {**members, "__final__": True})
    return lambda _: made()


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("discs", SHAPE_TYPES["rotated"], "'discs' has no slow reference: add how shapes are drawn"),
        ("discs", SHAPE_TYPES["rotated"], "'discs' is no `IouType`: add it"),
        ("discs", SHAPE_TYPES["rotated"], "'discs' has no word in reports: add it to `SHAPES_IN_WORDS`"),
        ("discs", SHAPE_TYPES["rotated"], "'discs' has no row in the table of `iou_type`"),
        ("rotated", changed(key="masks"), "'rotated' must have a `key` of its own; got 'masks'"),
        ("rotated", lambda _: type("Open", (ROTATED,), {"__final__": False})(), "the class of 'rotated' must be final"),
        ("rotated", lambda _: object(), "'rotated' must make a `ShapeType`; got object"),
        ("rotated", changed(areas=lambda _, shapes: shapes[:, 2]), "areas of 'rotated' differ from those of"),
        (
            "rotated",
            changed(overlaps=lambda _, found, true, __: torch.zeros(len(found), len(true))),
            r"the overlap of \[.* as `REFERENCES\['rotated'\]`",
        ),
        ("rotated", changed(rows=lambda _, __: []), "'rotated' must have a row of a file for each shape"),
    ],
)
def test_a_kind_of_shape_that_breaks_the_contract_is_told_so(name, make, message):
    with pytest.raises(AssertionError, match=message):
        check_shape_type(name, make)
