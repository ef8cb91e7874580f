"""Boxes sorted by an edge: what may overlap another one enough lies within reach of it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.inputs import BoxShapes
from tests.profiles import examples
from tests.reference.detection import iou

COORDINATES = st.sampled_from([0.0, 1.0, 1.5, 7.0, 33.25, 1e5, 1e-3, 1e-30, 3e7])
SIDES = st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1.5, 2.0, 3.0, 10.0, 11.0, 4e4])
boxes_of_one_class = st.lists(st.tuples(COORDINATES, COORDINATES, SIDES, SIDES), max_size=12)


@examples(100)
@given(boxes_of_one_class, boxes_of_one_class, st.sampled_from([1e-3, 0.05, 0.5, 0.75, 1.0]), st.booleans())
def test_no_detection_out_of_reach_overlaps_so_much(found, true, at_least, is_crowd):
    shapes, true_shapes = (BoxShapes(torch.tensor(each, dtype=torch.float64).reshape(-1, 4)) for each in (found, true))
    crowds = torch.full((len(true),), is_crowd)
    reach = true_shapes.reach(shapes, at_least=at_least, is_crowd=crowds)
    if reach is None:
        return
    for place, other in enumerate(true):
        for position, box in zip(reach.position.tolist(), found, strict=True):
            if iou(box, other, is_crowd=is_crowd) >= at_least:
                assert reach.low[place] <= position <= reach.high[place]


def test_reach_is_unknown_where_rounding_may_decide():
    boxes = BoxShapes(torch.tensor([[1e8, 0.0, 1e-7, 1.0]], dtype=torch.float64))
    assert boxes.reach(boxes, at_least=0.5) is None
    plain = BoxShapes(torch.tensor([[10.0, 0.0, 4.0, 2.0]], dtype=torch.float64))
    low, high = plain.reach(plain, at_least=0.5)[1:]
    # Boxes that overlap [10, 14] by a half begin 4 before it, if they are twice as wide, to 2 behind.
    assert (float(low), float(high)) == pytest.approx((6, 12), abs=0.02)
