"""Object keypoint similarity against a loop."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection import object_keypoint_similarity
from reid_torchmetrics.functional.detection.inputs import COCO_SIGMAS, keypoints
from reid_torchmetrics.functional.detection.inputs.keypoints import KeypointType, keypoint_boxes
from tests.paths import path
from tests.profiles import examples
from tests.reference.keypoints import similarity


@st.composite
def problems(draw):
    """Objects of one to five keypoints, of which some, and sometimes all, are not labeled."""
    num_found, num_true, num_points = draw(st.integers(0, 4)), draw(st.integers(0, 4)), draw(st.integers(1, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    found = torch.rand(num_found, num_points, 3, generator=generator, dtype=torch.float64) * 20
    true = torch.rand(num_true, num_points, 3, generator=generator, dtype=torch.float64) * 20
    true[:, :, 2] = torch.randint(3, (num_true, num_points), generator=generator)
    true[::3, :, 2] = 0
    boxes = torch.rand(num_true, 4, generator=generator, dtype=torch.float64) * 10
    areas = torch.rand(num_true, generator=generator, dtype=torch.float64) * 300
    sigmas = (torch.rand(num_points, generator=generator) + 0.02).tolist()
    return found, true, boxes, areas, sigmas


@pytest.mark.slow
@examples(100)
@given(problems())
def test_similarities_are_those_of_the_definition(problem):
    found, true, boxes, areas, sigmas = problem
    ours = object_keypoint_similarity(found, true, areas=areas, boxes=boxes, sigmas=sigmas)
    rows = list(zip(true.tolist(), areas.tolist(), boxes.tolist(), strict=True))
    expected = [[similarity(points, *row, sigmas) for row in rows] for points in found.tolist()]
    expected = torch.tensor(expected, dtype=torch.float64).view(len(found), len(true))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_boxes_hold_the_labeled_keypoints():
    points = torch.tensor([[[1.0, 5.0], [4.0, 2.0], [90.0, 90.0]]])
    is_labeled = torch.tensor([[True, True, False]])
    assert keypoint_boxes(points, is_labeled).tolist() == [[1, 2, 3, 3]]
    assert keypoint_boxes(points, ~is_labeled & False).tolist() == [[0, 0, 0, 0]]
    assert keypoint_boxes(points).tolist() == [[1, 2, 89, 88]]
    assert keypoint_boxes(points[:0]).shape == (0, 4)


def test_blocks_of_detections_change_nothing(monkeypatch):
    generator = torch.Generator().manual_seed(1)
    found, true = (torch.rand(size, 17, 3, generator=generator) * 50 for size in (9, 4))
    areas = torch.full((4,), 900.0)
    expected = object_keypoint_similarity(found, true, areas=areas)
    monkeypatch.setattr(*path("keypoint_distances"), 100)
    assert torch.equal(object_keypoint_similarity(found, true, areas=areas), expected)
    assert len(COCO_SIGMAS) == 17


FOUR = KeypointType((0.1,) * 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: keypoints.check_sigmas("sigmas", 0.5), TypeError, "`sigmas` must be a tuple or list of floats; got f"),
        (lambda: keypoints.check_sigmas("sigmas", [0.1, 0]), ValueError, "`sigmas` must be positive and finite; got 0"),
        (lambda: keypoints.check_sigmas("sigmas", []), ValueError, "`sigmas` must not be empty"),
        (
            lambda: FOUR.read("keypoints", torch.ones(1, 3, 2), is_true=False),
            ValueError,
            r"`keypoints` must have shape \[N, 4, 2 or 3\], a keypoint for each sigma; got \[1, 3, 2\].",
        ),
        (lambda: FOUR.read("keypoints", [1], is_true=True), TypeError, "`keypoints` must be a tensor; got list."),
        (
            lambda: FOUR.read("keypoints", torch.ones(1, 4, 3).bool(), is_true=True),
            TypeError,
            "`keypoints` must have a real dtype; got torch.bool.",
        ),
        (
            lambda: FOUR.read("keypoints", torch.full((1, 4, 3), torch.inf), is_true=True),
            ValueError,
            "`keypoints` must be finite; got inf.",
        ),
    ],
)
def test_values_that_are_no_keypoints_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
