"""The limits of checks of saved results, and the text of area ranges."""

import math
from types import SimpleNamespace

import pytest
import torch

from reid_torchmetrics.files import saved_detections
from reid_torchmetrics.functional.detection.evaluation import result_text

pytestmark = pytest.mark.usefixtures("unannotated")


def matches_of(num_positives: list[list[int]]) -> SimpleNamespace:
    return SimpleNamespace(classes=torch.tensor([7]), num_positives=torch.tensor(num_positives))


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_a_ground_truth_is_in_some_of_the_area_ranges(bits):
    matches = matches_of([[bits & 1], [bits >> 1]])
    saved_detections._check_positives(torch.tensor([[0, 7, bits]]), matches)


@pytest.mark.parametrize("bits", [0, 4])
def test_a_ground_truth_in_no_range_or_in_one_that_does_not_exist_is_refused(bits):
    with pytest.raises(ValueError, match=r"^`positives` must lie in \[1, 4\)"):
        saved_detections._check_positives(torch.tensor([[0, 7, bits]]), matches_of([[0], [0]]))


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        (0, math.inf, "no limit"),
        (0, 1024, "0 to 32² pixels"),
        (1024, 9216, "32² to 96² pixels"),
        (9216, math.inf, "96² pixels or more"),
    ],
)
def test_an_area_range_is_told_by_the_sides_of_squares(least, most, text):
    assert result_text._area_range_text(least, most) == text
