"""Boxes: formats in their own dtype, areas and overlaps to the last bit of pycocotools."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from pycocotools import mask

from reid_torchmetrics.functional.detection import pairwise_iou
from reid_torchmetrics.functional.detection.inputs import BOX_FORMATS, BoxShapes, box_areas, to_xywh
from tests.detection_strategies import problems
from tests.profiles import examples
from tests.reference.detection import iou

DTYPES = [torch.float16, torch.float32, torch.float64]


def boxes(*rows: tuple[float, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(rows, dtype=dtype).reshape(-1, 4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("box_format", "box"), [("xywh", (1, 2, 4, 6)), ("xyxy", (1, 2, 5, 8)), ("cxcywh", (3, 5, 4, 6))]
)
def test_a_box_of_any_format_is_a_corner_and_a_size(box_format, box, dtype):
    found = to_xywh(boxes(box, dtype=dtype), box_format)
    assert found.tolist() == [[1, 2, 4, 6]]
    assert found.dtype == dtype


def test_every_format_was_looked_at():
    assert sorted(BOX_FORMATS) == ["cxcywh", "xywh", "xyxy"]


def test_sizes_of_float32_corners_are_float32_differences():
    """As TorchMetrics computes them: 16777216 + 3 is 16777220 in float32, so this box is 4 wide, not 3."""
    found = to_xywh(boxes((2.0**24, 0.0, 2.0**24 + 3, 0.7), dtype=torch.float32), "xyxy")
    assert found.tolist() == [[2.0**24, 0.0, 4.0, float(np.float32(0.7))]]


def test_centers_go_by_way_of_corners():
    """The far edge is 100.1 + 0.15, the near edge 100.1 - 0.15; in float32 their difference is not 0.3."""
    center, half = np.float32(100.1), np.float32(0.5) * np.float32(0.3)
    near, far = center - half, center + half
    assert far - near != np.float32(0.3)
    found = to_xywh(boxes((100.1, 100.1, 0.3, 0.3), dtype=torch.float32), "cxcywh")
    assert found.tolist() == [[float(near), float(near), float(far - near), float(far - near)]]


@pytest.mark.parametrize("box_format", BOX_FORMATS)
def test_no_boxes_stay_no_boxes(box_format):
    none = to_xywh(boxes(), box_format)
    assert none.shape == (0, 4)
    assert box_areas(none).shape == (0,)
    assert pairwise_iou(none, boxes((0, 0, 1, 1)), box_format=box_format).shape == (0, 1)
    assert pairwise_iou(boxes((0, 0, 1, 1)), none, box_format=box_format).shape == (1, 0)


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match=r"`box_format` must be one of 'xyxy', 'xywh', 'cxcywh'; got 'yxyx'\."):
        to_xywh(boxes((0, 0, 1, 1)), "yxyx")


@pytest.mark.parametrize("dtype", DTYPES)
def test_areas_are_products_in_float64(dtype):
    """In float32 4097 * 4097 is 16785408; a box of half precision holds 300 * 300 = 90000, which half does not."""
    side = 300.0 if dtype == torch.float16 else 4097.0
    found = box_areas(boxes((0, 0, side, side), dtype=dtype))
    assert found.tolist() == [side * side]
    assert found.dtype == torch.float64


SAME_TWO = {
    "xyxy": ((0, 0, 4, 4), (2, 0, 6, 4)),
    "xywh": ((0, 0, 4, 4), (2, 0, 4, 4)),
    "cxcywh": ((2, 2, 4, 4), (4, 2, 4, 4)),
}


@pytest.mark.usefixtures("unannotated")  # of whole pixels
@pytest.mark.parametrize("box_format", BOX_FORMATS)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64])
def test_the_same_two_boxes_overlap_the_same_in_every_format(box_format, dtype):
    first, second = (boxes(row, dtype=dtype) for row in SAME_TWO[box_format])
    assert pairwise_iou(first, second, box_format=box_format).tolist() == [[8 / (16 + 16 - 8)]]


def test_the_format_of_boxes_must_be_said():
    with pytest.raises(TypeError, match=r"missing .* argument: 'box_format'"):
        pairwise_iou(boxes((0, 0, 4, 4)), boxes((2, 0, 6, 4)))


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("others", "box_format", "error", "message"),
    [
        (boxes((1, 1, 2, 2)), "yxyx", ValueError, "`box_format` must be one of 'xyxy', 'xywh', 'cxcywh'; got 'yxyx'."),
        (boxes((5, 5, 2, 6)), "xyxy", ValueError, "`boxes2` must have widths and heights of at least 0; got -3.0."),
        (boxes((5, 5, 2, float("nan"))), "xyxy", ValueError, "`boxes2` must be finite; got nan."),
        (torch.ones(1, 5), "xyxy", ValueError, "`boxes2` must have shape [N, 4]; got [1, 5]."),
        (torch.ones(4), "xywh", ValueError, "`boxes2` must have shape [N, 4]; got [4]."),
        ([[1, 1], [2]], "cxcywh", TypeError, "`boxes2` must be a tensor, an array or a list of numbers; got list."),
    ],
)
def test_boxes_that_are_none_in_the_format_are_refused(others, box_format, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        pairwise_iou(boxes((0, 0, 4, 4)), others, box_format=box_format)


def test_whole_pixels_count_both_edges():
    """From 0 to 3 are 4 pixels, from 2 to 5 as well, and 2 of them are in both; boxes that touch share one."""
    found = pairwise_iou(
        boxes((0, 0, 3, 3)),
        boxes((2, 0, 3, 3), (3, 0, 3, 3), (4, 0, 3, 3), (0, 0, 0, 0)),
        box_format="xywh",
        whole_pixels=True,
    )
    assert found.tolist() == [[8 / (16 + 16 - 8), 4 / (16 + 16 - 4), 0, 1 / 16]]


@pytest.mark.slow
@examples(75)
@given(problems())
def test_overlaps_are_those_of_pycocotools_and_of_the_definition_to_the_last_bit(problem):
    detections, truths = (side.boxes for side in problem.tensors)
    is_crowd = torch.tensor([row.is_crowd for row in problem.ground_truths], dtype=torch.bool)
    found = pairwise_iou(detections, truths, box_format="xywh", is_crowd=is_crowd)
    expected = [
        [iou(row.box, other.box, is_crowd=other.is_crowd) for other in problem.ground_truths]
        for row in problem.detections
    ]
    assert found.tolist() == expected
    if len(detections) and len(truths):
        peer = mask.iou(detections.double().numpy(), truths.double().numpy(), is_crowd.to(torch.uint8).numpy())
        assert found.tolist() == peer.tolist()


def test_boxes_that_equal_the_one_before_are_repeats():
    one, other = (0.0, 0.0, 4.0, 4.0), (0.0, 0.0, 4.0, 5.0)
    assert BoxShapes(boxes(one, one, other, one)).repeats().tolist() == [False, True, False, False]
    assert BoxShapes(boxes(one, other, one)).repeats() is None
