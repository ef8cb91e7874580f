"""Non-maximum suppression: what is kept is what a loop over the boxes keeps, whatever else is looked at with it."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks import non_maximum_suppression
from tests.paths import path
from tests.profiles import examples
from tests.reference.detection import keep_boxes

A, B, FAR = (0.0, 0.0, 10.0, 10.0), (0.0, 0.0, 10.0, 5.0), (50.0, 50.0, 60.0, 60.0)


def drawn(seed: int, size: int, num_labels: int = 2, num_images: int = 1) -> tuple[torch.Tensor, ...]:
    """Boxes on a coarse grid, so that overlaps tie with thresholds and scores with each other."""
    generator = torch.Generator().manual_seed(seed)

    def integers(most: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, most, shape, generator=generator)

    near, sides = integers(12, size, 2), integers(9, size, 2)
    corners = torch.cat([near, near + sides], 1) / 3
    return corners, integers(20, size) / 20, integers(num_labels, size), integers(num_images, size)


@examples(75)
@given(
    st.integers(0, 2**31),
    st.integers(0, 90),
    st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_the_kept_boxes_are_those_of_a_loop(seed, size, iou_threshold, dtype):
    corners, scores, labels, images = drawn(seed, size, 3, 2)
    corners = corners.to(dtype)
    kept = non_maximum_suppression(corners, scores, labels, iou_threshold=iou_threshold, images=images)
    groups = (3 * images + labels).tolist()
    assert kept.tolist() == keep_boxes(corners.numpy(), scores.tolist(), groups, iou_threshold)


@pytest.mark.parametrize("at_a_time", [1, 100, 1 << 15])
def test_the_size_of_blocks_changes_nothing(monkeypatch, at_a_time):
    given = drawn(5, 300, 2, 2)
    expected = non_maximum_suppression(*given[:3], iou_threshold=0.3, images=given[3])
    monkeypatch.setattr(*path("suppressed_pairs"), at_a_time)
    assert torch.equal(non_maximum_suppression(*given[:3], iou_threshold=0.3, images=given[3]), expected)


def test_a_threshold_that_float32_lacks_is_compared_in_float64():
    """An overlap of 1/10 is 0.100000001 in float32, which is above 0.1."""
    boxes, scores = torch.tensor([A, (0.0, 0.0, 1.0, 10.0)]), torch.tensor([0.5, 0.4])
    assert non_maximum_suppression(boxes, scores, iou_threshold=0.1).tolist() == [0]
    assert non_maximum_suppression(boxes.double(), scores, iou_threshold=0.1).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("box_format", "box"), [("xyxy", A), ("xywh", (0.0, 0.0, 10.0, 10.0)), ("cxcywh", (5.0, 5.0, 10.0, 10.0))]
)
def test_a_box_of_any_format_suppresses_its_repetition(box_format, box):
    boxes = torch.tensor([box, box])
    kept = non_maximum_suppression(boxes, torch.tensor([0.5, 0.6]), iou_threshold=0.99, box_format=box_format)
    assert kept.tolist() == [1]


def test_no_boxes_are_kept_of_none():
    kept = non_maximum_suppression(torch.zeros(0, 4), torch.zeros(0), iou_threshold=0.5)
    assert (kept.tolist(), kept.dtype) == ([], torch.int64)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"iou_threshold": 1.5}, "`iou_threshold` must"),
        ({"box_format": "yxyx"}, "`box_format` must be one of"),
        ({"scores": torch.tensor([0.5])}, "`scores` must have one value for each of 2 boxes; got 1."),
        ({"scores": torch.tensor([0.5, torch.nan])}, "`scores` must be finite; got nan."),
        ({"labels": torch.tensor([1])}, "`labels` must"),
        ({"images": torch.tensor([0, -1])}, "`images` must hold numbers from 0"),
        ({"boxes": torch.tensor([A, (5.0, 0.0, 1.0, 1.0)])}, "`boxes` must have widths and heights of at least 0"),
    ],
)
def test_bad_input_is_named(change, message):
    options = {"boxes": torch.tensor([A, B]), "scores": torch.tensor([0.5, 0.6]), "iou_threshold": 0.5} | change
    with pytest.raises(ValueError, match=re.escape(message)):
        non_maximum_suppression(**options)
