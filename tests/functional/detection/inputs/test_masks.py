"""Masks in every form against sets of pixels and against pycocotools, to the last bit."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pycocotools import mask as coco_masks

from reid_torchmetrics.functional.detection import RunLengths, mask_iou
from reid_torchmetrics.functional.detection.inputs import checked_masks, counted_masks
from reid_torchmetrics.functional.detection.inputs.counted_masks import BitMasks
from reid_torchmetrics.functional.detection.inputs.masks import PixelMasks, counted_iou
from tests.functional.detection.mask_samples import compressed
from tests.paths import path, taking
from tests.profiles import examples
from tests.reference.masks import holding_box, pixels_of, run_lengths
from tests.reference.masks import mask_iou as reference_iou

SHAPES = ("nothing", "everything", "noise", "a box", "columns")


@st.composite
def masks_of_an_image(draw, size):
    """Up to four masks of a size, whose edges are often those of words and of the image."""
    height, width = size
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = np.zeros((draw(st.integers(0, 4)), height, width), dtype=bool)
    for mask in found:
        shape = draw(st.sampled_from(SHAPES))
        top, left = generator.integers(height), generator.integers(width)
        if shape == "everything":
            mask[:] = True
        elif shape == "noise":
            mask[:] = generator.random(size) < 0.3
        elif shape == "a box":
            mask[top : top + generator.integers(1, height + 1), left : left + generator.integers(1, width + 1)] = True
        elif shape == "columns":
            mask[:, left : left + 2] = True
    return torch.from_numpy(found)


SIZES = st.tuples(st.sampled_from([1, 3, 64, 65]), st.sampled_from([1, 5, 16, 64, 70]))


@st.composite
def problems(draw):
    size = draw(SIZES)
    found, true = draw(masks_of_an_image(size)), draw(masks_of_an_image(size))
    return found, true, torch.tensor(draw(st.lists(st.booleans(), min_size=len(true), max_size=len(true)))).bool()


def forms(given_masks):
    """The same masks in all forms that are counted."""
    size = tuple(given_masks.shape[1:])
    return {
        "bits": checked_masks("masks", given_masks),
        "pixels": PixelMasks(given_masks),
        "integers": checked_masks("masks", given_masks.long() * 3),
        "text": checked_masks("masks", RunLengths.from_coco(compressed(given_masks), size)),
    }


@examples(60)
@given(problems())
def test_overlaps_are_those_of_pycocotools_in_any_form(problem):
    found, true, is_crowd = problem
    expected = np.zeros((len(found), len(true)))
    if len(found) and len(true):
        expected = coco_masks.iou(compressed(found), compressed(true), is_crowd.numpy().astype(np.uint8))
    for name, each in forms(found).items():
        for other_name, other in forms(true).items():
            overlaps = counted_iou(each, other, is_crowd)
            assert overlaps.dtype == torch.float64
            assert np.array_equal(overlaps.numpy(), expected), (name, other_name)


@examples(25)
@given(problems())
def test_overlaps_areas_and_boxes_are_those_of_sets_of_pixels(problem):
    found, true, is_crowd = problem
    sets, other_sets = ([pixels_of(mask.tolist()) for mask in side] for side in (found, true))
    flags = is_crowd.tolist()
    expected = [[reference_iou(m, o, is_crowd=c) for o, c in zip(other_sets, flags, strict=True)] for m in sets]
    assert mask_iou(found, true, is_crowd=is_crowd).tolist() == expected
    for each in forms(found).values():
        assert each.areas.tolist() == [len(pixels) for pixels in sets]
        assert each.boxes().tolist() == [[*holding_box(pixels)] for pixels in sets]


@examples(25)
@given(problems())
def test_run_lengths_are_the_pixels(problem):
    found, true, _ = problem
    size = tuple(found.shape[1:])
    lengths = [{"size": size, "counts": run_lengths(mask.tolist())} for mask in found]
    assert torch.equal(RunLengths.from_coco(lengths, size).to_masks(), found)
    assert torch.equal(RunLengths.from_coco(compressed(found), size).to_masks(), found)
    assert torch.equal(mask_iou(RunLengths.from_coco(compressed(found), size), true), mask_iou(found, true))


@pytest.mark.parametrize("words", [0, 10**9])  # 0: all places are looked up; else all become bits
@examples(40)
@given(problems())
def test_run_lengths_are_looked_up_or_become_bits(words, problem):
    found, true, is_crowd = problem
    lengths = [RunLengths.from_coco(compressed(each), tuple(found.shape[1:])) for each in (found, true)]
    with taking(words_per_lookup=words):
        overlaps = mask_iou(*lengths, is_crowd=is_crowd)
    assert torch.equal(overlaps, mask_iou(found, true, is_crowd=is_crowd))


def test_runs_of_no_pixels_are_none():
    """Of two rows and three columns all but the first column; 0 where the runs meet."""
    rests = RunLengths.from_coco([{"size": [2, 3], "counts": [1, 0, 1, 2, 0, 2]}, {"size": [2, 3], "counts": [6, 0]}])
    assert rests.to_masks().tolist() == [[[False, True, True]] * 2, [[False] * 3] * 2]
    counted = checked_masks("masks", rests)
    assert counted.areas.tolist() == [4, 0]
    assert counted.boxes().tolist() == [[1, 0, 2, 2], [0, 0, 0, 0]]
    assert mask_iou(rests, rests).tolist() == [[1, 0], [0, 0]]


def test_lists_of_lengths_may_stand_beside_texts():
    given_masks = torch.tensor([[[0, 1, 1]], [[1, 0, 1]], [[0, 0, 0]]]).bool()
    lists = [{"size": [1, 3], "counts": run_lengths(mask.tolist())} for mask in given_masks]
    texts = compressed(given_masks)
    for mixed in ([lists[0], texts[1], lists[2]], [texts[0], lists[1], texts[2]], texts[:2] + lists[2:]):
        assert torch.equal(RunLengths.from_coco(mixed).to_masks(), given_masks)


def test_two_masks_that_share_one_of_three_pixels_overlap_by_a_third():
    first, second = torch.tensor([[[1, 1, 0]]]), torch.tensor([[[0, 1, 1]]])
    assert mask_iou(first, second).tolist() == [[1 / 3]]
    assert mask_iou(first, second, is_crowd=torch.tensor([True])).tolist() == [[1 / 2]]


def test_bits_are_counted_without_the_function_of_numpy_2(monkeypatch):
    given_masks = torch.rand(3, 9, 70, generator=torch.Generator().manual_seed(1)) < 0.5
    expected = mask_iou(given_masks, given_masks)
    monkeypatch.setattr(*path("bits_of_each"), counted_masks._bits_by_table)
    assert torch.equal(mask_iou(given_masks, given_masks), expected)
    assert BitMasks.from_pixels(given_masks).areas.tolist() == given_masks.sum((1, 2)).tolist()


def test_pixels_are_counted_exactly_beyond_what_float32_holds(monkeypatch):
    given_masks = torch.rand(2, 30, 40, generator=torch.Generator().manual_seed(1)) < 0.5
    expected = PixelMasks(given_masks).intersections(PixelMasks(given_masks))
    monkeypatch.setattr(*path("mask_cells"), 100)
    assert torch.equal(PixelMasks(given_masks).intersections(PixelMasks(given_masks)), expected)


MASK = torch.zeros(1, 2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mask_iou(MASK, MASK.transpose(1, 2)), ValueError, "`masks2` must be of an image of 2 x 3; got 3 x 2."),
        (lambda: checked_masks("masks", MASK.float()), TypeError, "must have dtype bool or an integer dtype; got"),
        (lambda: checked_masks("masks", MASK[0]), ValueError, r"`masks` must have shape \[N, H, W\]; got \[2, 3\]."),
        (lambda: checked_masks("masks", [MASK]), TypeError, "`masks` must be a tensor or RunLengths; got list."),
        (
            lambda: RunLengths.from_coco([{"size": [2, 3], "counts": [2, 3]}]),
            ValueError,
            r"must be at least 0 and add up to the pixels of the image, 6; got \[2, 3\], ... with the sum 5.",
        ),
        (
            lambda: RunLengths.from_coco([{"size": [1, 2], "counts": [2]}, {"size": [1, 2], "counts": [3, -1]}]),
            ValueError,
            r"`counts` must be at least 0 and add up to the pixels of the image, 2; got \[3, -1\], ... with the sum 2.",
        ),
        (
            lambda: RunLengths.from_coco([{"size": [1, 1], "counts": [1]}], (2, 1)),
            ValueError,
            r"`masks` must have one size in an image; got \(1, 1\) and \(2, 1\).",
        ),
        (lambda: RunLengths.from_coco([{"size": [1, 1], "counts": "Q"}]), ValueError, "got one that breaks off."),
    ],
)
def test_values_that_are_no_masks_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
