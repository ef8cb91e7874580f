"""Polygons as masks: the pixels of pycocotools."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco_masks

from reid_torchmetrics.functional.detection import RunLengths
from tests.profiles import examples


@examples(80)
@given(
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.lists(
        st.lists(
            st.lists(st.integers(-40, 700).map(lambda tenths: tenths / 10), min_size=6, max_size=14).map(
                lambda numbers: numbers[: len(numbers) // 2 * 2]
            ),
            min_size=1,
            max_size=3,
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_polygons_cover_the_pixels_of_pycocotools(size, objects):
    theirs = [coco_masks.merge(coco_masks.frPyObjects(polygons, *size)) for polygons in objects]
    assert torch.equal(RunLengths.from_polygons(objects, size).to_masks(), RunLengths.from_coco(theirs).to_masks())


def test_a_polygon_has_at_least_three_corners():
    with pytest.raises(ValueError, match=r"`polygon` must have x and y of at least three corners; got 4 numbers\."):
        RunLengths.from_polygons([[[1, 2, 3, 4]]], (2, 2))
