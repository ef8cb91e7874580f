"""Rotated boxes against polygons that are clipped, by a loop and by shapely."""

import math
from itertools import permutations, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks import rotated_boxes
from reid_torchmetrics.tasks.rotated_boxes import RotatedType, crossing_edges, rotated_corners, rotated_iou
from tests.profiles import examples
from tests.reference.rotated import edges_cross, polygon_iou
from tests.reference.rotated import rotated_iou as reference_iou

COORDINATES = st.one_of(st.integers(0, 12).map(float), st.floats(0, 12))
SIDES = st.one_of(st.integers(0, 8).map(float), st.floats(0.01, 8))
ANGLES = st.one_of(st.integers(-8, 8).map(lambda eighths: eighths * math.pi / 4), st.floats(-7, 7))
BOXES = st.tuples(COORDINATES, COORDINATES, SIDES, SIDES, ANGLES)


@st.composite
def problems(draw):
    """Up to four boxes on each side, some of them the same, turned or moved by a side."""
    found = draw(st.lists(BOXES, min_size=1, max_size=4))
    true = draw(st.lists(BOXES, max_size=3))
    x, y, width, height, angle = found[0]
    copies = [found[0], (x, y, width, height, angle + math.pi / 2), (x, y, height, width, angle + math.pi / 2)]
    copies.append((x + width * math.cos(angle), y + width * math.sin(angle), width, height, angle))
    return found, [*true, *copies]


def tensor(boxes):
    return torch.tensor(boxes, dtype=torch.float64).view(-1, 5)


@examples(100)
@given(problems(), st.booleans())
def test_overlaps_are_those_of_clipped_polygons(problem, is_crowd):
    found, true = problem
    crowds = torch.full((len(true),), is_crowd)
    expected = [[reference_iou(box, other, is_crowd=is_crowd) for other in true] for box in found]
    ours = rotated_iou(tensor(found), tensor(true), is_crowd=crowds)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


@examples(100)
@given(problems())
def test_overlaps_are_those_of_shapely(problem):
    shapely = pytest.importorskip("shapely")
    found, true = problem
    overlaps = rotated_iou(tensor(found), tensor(true))
    polygons = [[shapely.Polygon(each.tolist()) for each in rotated_corners(tensor(side))] for side in problem]
    for row, polygon in enumerate(polygons[0]):
        for column, other in enumerate(polygons[1]):
            if min(*found[row][2:4], *true[column][2:4]) < 0.01:
                continue  # to shapely a polygon without area is none
            # Without a grid edges that differ by rounding may share nothing.
            common = shapely.intersection(polygon, other, grid_size=1e-13).area
            assert abs(common / (polygon.area + other.area - common) - overlaps[row, column]) <= 1e-9


POLYGONS = st.tuples(
    st.tuples(COORDINATES, COORDINATES),
    st.lists(st.floats(0.5, 8), min_size=4, max_size=4),
    st.lists(st.floats(-0.5, 0.5), min_size=4, max_size=4),
    st.booleans(),
)


def polygon(drawn) -> list[tuple[float, float]]:
    """Four corners around a point inside, in either direction, with any angles."""
    (x, y), lengths, turns, is_turned = drawn
    angles = [(place + turn) * math.pi / 2 for place, turn in enumerate(turns)]
    corners = [(x + r * math.cos(a), y + r * math.sin(a)) for r, a in zip(lengths, angles, strict=True)]
    return corners[::-1] if is_turned else corners


@examples(100)
@given(st.lists(POLYGONS, min_size=1, max_size=3), st.lists(POLYGONS, min_size=1, max_size=3))
def test_polygons_overlap_as_the_triangles_of_their_edges(found, true):
    sides = [polygon(each) for each in found], [polygon(each) for each in (*true, found[0])]
    tensors = [torch.tensor(side, dtype=torch.float64).view(-1, 8) for side in sides]
    expected = torch.tensor([polygon_iou(*pair) for pair in product(*sides)], dtype=torch.float64)
    torch.testing.assert_close(rotated_iou(*tensors).flatten(), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(rotated_iou(*tensors[::-1]).T.flatten(), expected, rtol=0, atol=1e-9)


def test_edges_cross_in_exactly_the_orders_of_corners_in_which_two_segments_meet_inside():
    generator = torch.Generator().manual_seed(5)
    quadrilaterals = []
    for corners in torch.randint(6, (60, 4, 2), generator=generator).tolist():
        quadrilaterals.extend(permutations(corners))
    expected = [edges_cross(corners) for corners in quadrilaterals]
    for moved in (0, 1000):
        boxes = torch.tensor(quadrilaterals, dtype=torch.float64).view(-1, 8) + moved
        assert crossing_edges(boxes).tolist() == expected
        assert crossing_edges(boxes.float()).tolist() == expected
    assert 300 < sum(expected) < 900


def test_a_thin_box_whose_corners_were_rounded_does_not_cross():
    generator = torch.Generator().manual_seed(6)
    boxes = torch.rand(20_000, 5, generator=generator, dtype=torch.float64)
    boxes[:, :2] *= 4000
    boxes[:, 2] *= 200
    boxes[:, 3] *= 10.0 ** -torch.randint(0, 9, (20_000,), generator=generator)
    corners = rotated_corners(boxes).flatten(1)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        assert not crossing_edges(corners.to(dtype)).any()
    assert not crossing_edges(corners.round()).any()
    assert not crossing_edges(rotated_corners(boxes.float()).flatten(1)).any()


def test_a_concave_quadrilateral_is_one_with_itself_and_a_crossing_order_is_refused():
    concave = torch.tensor([[0.0, 0, 4, 0, 1, 1, 0, 4]])
    assert rotated_iou(concave, concave).item() == 1
    crossing = torch.tensor([[0.0, 0, 4, 0, 0, 4, 4, 4]])
    rule = "must have corners in turn around the box, such as left top, right top, right bottom, left bottom, whose"
    with pytest.raises(ValueError, match=f"^`boxes1` {rule} edges do not cross; got .* in row 1"):
        rotated_iou(torch.cat([concave, crossing]), concave)
    with pytest.raises(ValueError, match=f"^`boxes2` {rule} edges do not cross; got .* in row 0"):
        rotated_iou(concave, crossing)


def test_corners_may_be_rows_of_x_and_y():
    corners = torch.tensor([[0.0, 0, 4, 0, 4, 4, 0, 4], [2, 2, 6, 2, 6, 6, 2, 6]])
    pairs = corners.view(2, 4, 2)
    expected = rotated_iou(corners, corners)
    for form in (pairs, pairs.numpy(), pairs.transpose(1, 2).contiguous().transpose(1, 2)):
        assert torch.equal(rotated_iou(form, corners), expected)
        assert torch.equal(rotated_iou(corners, form), expected)


def test_the_angle_turns_the_x_axis_to_the_y_axis():
    corner = rotated_corners(torch.tensor([[0.0, 0.0, 2.0, 0.0, math.pi / 4]], dtype=torch.float64))[0, 1]
    assert corner.tolist() == pytest.approx([math.sqrt(0.5), math.sqrt(0.5)])


def test_equal_boxes_overlap_by_1_and_blocks_of_pairs_change_nothing(monkeypatch):
    boxes = torch.rand(20, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 5
    overlaps = rotated_iou(boxes, boxes)
    torch.testing.assert_close(overlaps.diagonal(), torch.ones(20).double(), rtol=0, atol=1e-12)
    assert float(overlaps.max()) <= 1  # not even by rounding
    monkeypatch.setitem(rotated_boxes._PAIRS_AT_A_TIME, "cpu", 3)
    assert torch.equal(rotated_iou(boxes, boxes), overlaps)


@pytest.mark.parametrize(
    ("boxes", "error", "message"),
    [
        (torch.zeros(2, 4), ValueError, r"`boxes` must have shape \[N, 5 or 8\] or \[N, 4, 2\]; got \[2, 4\]."),
        (torch.full((1, 8), torch.inf), ValueError, "`boxes` must be finite; got inf."),
        (
            torch.zeros(2, 5).long(),
            TypeError,
            "`boxes` must have a floating point dtype of 16 to 64 bits; got torch.i",
        ),
        (
            torch.tensor([[0, 0, -1.0, 2, 0]]),
            ValueError,
            "`boxes` must have widths and heights of at least 0; got -1.",
        ),
        (torch.tensor([[0, 0, torch.nan, 2, 0]]), ValueError, "`boxes` must be finite; got nan."),
    ],
)
def test_a_value_that_is_no_rotated_box_is_refused(boxes, error, message):
    with pytest.raises(error, match=message):
        RotatedType().read("boxes", boxes, is_true=True)


FAR = 5e6  # of coordinates in meters, as maps have them


def test_boxes_far_from_the_origin_overlap_as_near_it():
    """Centers and sides are multiples of 1/1024, so they are moved without rounding."""
    generator = torch.Generator().manual_seed(3)
    boxes = torch.randint(-4096, 4096, (60, 5), generator=generator).double() / 1024
    boxes[:, 2:4] = boxes[:, 2:4].abs() + 1 / 1024
    moved = boxes + torch.tensor([FAR, -FAR, 0, 0, 0], dtype=torch.float64)
    near, far = (rotated_iou(each, each) for each in (boxes, moved))
    assert int((near > 0.1).sum()) > 200
    torch.testing.assert_close(far, near, rtol=0, atol=1e-14)


def test_a_square_far_from_the_origin_overlaps_itself_turned_by_an_eighth_as_by_hand():
    square = torch.tensor([[FAR, FAR, 2, 2, 0]], dtype=torch.float64)
    turned = torch.tensor([[FAR, FAR, 2, 2, math.pi / 4]], dtype=torch.float64)
    assert abs(float(rotated_iou(square, turned)) - math.sqrt(0.5)) <= 1e-14


@pytest.mark.parametrize(("place", "side"), [(1e4, 1e-6), (FAR, 1e-3), (FAR, 20)])
def test_a_box_far_from_the_origin_equals_itself(place, side):
    """COCO takes an overlap for the threshold 1 where it is less by 1e-10."""
    angles = torch.linspace(-4, 4, 101, dtype=torch.float64)
    boxes = torch.stack([torch.full_like(angles, each) for each in (place, -place, side, side / 3)], 1)
    boxes = torch.cat([boxes, angles[:, None]], 1)
    assert float(rotated_iou(boxes, boxes).diagonal().min()) >= 1 - 1e-14
