"""Masks and keypoints in `DetectionMAP` against pycocotools, live, on problems biased to what is hard."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.shape_problems import NUM_IMAGES, draw_shapes

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.slow
@pytest.mark.parametrize("iou_type", ["segm", "keypoints"])
@examples(60)
@given(seed=SEEDS, num_images=st.sampled_from(NUM_IMAGES))
def test_arrays_and_numbers_of_other_shapes_are_those_of_pycocotools(iou_type, seed, num_images):
    assert draw_shapes(Random(seed), iou_type, num_images).largest_difference() <= 1e-12  # noqa: S311


@pytest.mark.parametrize("iou_type", ["segm", "keypoints"])
def test_the_problems_have_what_they_are_meant_to_have(iou_type):
    """Problems that are all empty would prove nothing."""
    occurring = Counter(kind for seed in range(100) for kind in draw_shapes(Random(seed), iou_type).kinds())  # noqa: S311
    assert len(occurring) == 9
    assert min(occurring.values()) > 10
