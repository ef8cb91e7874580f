"""Files of masks that are read as columns give the masks, overlaps and areas of the reader of rows."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.files import coco_masks, coco_rows, coco_tables, read_coco
from reid_torchmetrics.files.json_blocks import UnreadRowsError
from reid_torchmetrics.functional.detection.batches import pack_images, shape_batches
from reid_torchmetrics.functional.detection.inputs import RunLengths, counted_masks, shape_types
from tests.files.test_coco_tables import IMAGES, reading, written
from tests.profiles import examples

SIZES = {7: (9, 6), 3: (4, 5), 12: (1, 70)}
SIZED_IMAGES = [{**image, "height": SIZES[image["id"]][0], "width": SIZES[image["id"]][1]} for image in IMAGES]
NUMBERS = st.floats(-2, 12).map(lambda number: round(number, 2))
POLYGONS = st.lists(st.lists(NUMBERS, min_size=3, max_size=5).map(lambda numbers: numbers + numbers[::-1]), min_size=1)
BOX = {"bbox": [1.5, 2, 3, 4]}


@st.composite
def segmentations(draw, image_id):
    """Draw polygons, or run lengths as a list or a text, as a call that returns them.

    The call is made in the test: checks of shapes draw random numbers, which Hypothesis forbids while it draws.
    """
    kind = draw(st.sampled_from(["polygons", "list", "text"]))
    if kind == "polygons":
        polygons = draw(POLYGONS)
        return lambda: polygons
    height, width = SIZES[image_id]
    pixels = draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))
    mask = torch.tensor(pixels).view(1, height, width)
    return lambda: RunLengths.from_masks(mask).to_coco(compressed=kind == "text")[0]


@st.composite
def rows(draw, **columns):
    """Draw rows with masks in three images, in any order."""
    drawn = []
    for image_id in draw(st.lists(st.sampled_from(list(SIZES)), max_size=6)):
        row = {"image_id": image_id, "category_id": draw(st.sampled_from([1, 5]))}
        row |= {"segmentation": draw(segmentations(image_id)), **columns}
        drawn.append(row)
    return drawn


def packed(images, iou_type):
    """Return the states of the images of both sides."""
    shapes = shape_types(iou_type, None)
    options = {"has_boxes": "bbox" in iou_type, "invalid": "count", "keeps": True}
    return pack_images(*images, shapes, "xywh", torch.device("cpu"), **options).states


@examples(30)
@given(
    rows(score=0.5),
    rows(),
    st.sampled_from([(), (0,), (0, 1, 2, 3, 4, 5)]),
    st.sampled_from([("segm",), ("bbox", "segm")]),
    st.sampled_from([{}, {"_FLIPS_AT_A_TIME": 1}, {"_WORDS_PER_LOOKUP": 1000}]),
)
def test_masks_as_columns_are_those_of_rows(tmp_path_factory, results, annotations, with_boxes, iou_type, limits):
    results, annotations = (
        [{**row, "segmentation": row["segmentation"]()} for row in side] for side in (results, annotations)
    )
    for place in with_boxes:
        if place < len(results):
            results[place] |= BOX
    annotations = [{**row, **BOX} for row in annotations]
    paths = written(tmp_path_factory.mktemp("masks"), results, annotations, images=SIZED_IMAGES)
    options, expected_options = (reading(iou_type=iou_type) for _ in range(2))
    try:
        expected = coco_rows.read_rows(*paths, expected_options)
    except ValueError as error:  # some results have boxes, and some have none
        with pytest.raises(ValueError, match=re.escape(str(error))):
            read_coco(*paths, options)
        return
    images = read_coco(*paths, options)
    assert options.notes == expected_options.notes
    states = packed(expected, iou_type)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coco_masks, "_MASKS_IN_CACHE", 2)
        for name, value in limits.items():
            patch.setattr(shape_batches if "FLIPS" in name else counted_masks, name, value)
        found = packed(images, iou_type)
        as_dicts = packed(tuple(map(list, images)), iou_type)
    assert found.keys() == as_dicts.keys() == states.keys()
    for name, state in states.items():
        assert torch.equal(found[name], as_dicts[name]), name
        if not name.startswith("shape_") or all("counts" in row["segmentation"] for row in results + annotations):
            assert torch.equal(found[name], state), name


(TEXT,) = RunLengths.from_masks(torch.ones(1, 9, 6, dtype=torch.bool)).to_coco(compressed=True)


@pytest.mark.parametrize(
    "segmentation",
    [
        [],
        [[1, 2, 3, 4]],
        [[1, 2, 3, 4, 5, 6, 7]],
        [[1, 2, 3, 4, 5, 2e6]],
        [[1, 2, 3, 4, 5, "6"]],
        [[1, 2, 3, 4, 5, 6], []],
        {"size": [9, 6], "counts": [1, 2]},
        {"size": [9, 6], "counts": [60, -6]},
        {"size": [9, 6], "counts": TEXT["counts"][:-1]},
        {"size": [9, 6], "counts": "é"},
        {"size": [6, 9], "counts": TEXT["counts"]},
        {"size": [-9, -6], "counts": [54]},
        {"size": [2**70, 1], "counts": [54]},
        {"counts": [54]},
        None,
    ],
    ids=str,
)
def test_unusual_masks_are_left_to_the_reader_of_rows(tmp_path, segmentation):
    row = {"image_id": 7, "category_id": 1, "segmentation": TEXT}
    paths = written(
        tmp_path, [{**row, "score": 0.5}], [row, {**row, "segmentation": segmentation}], images=SIZED_IMAGES
    )
    with pytest.raises(UnreadRowsError):
        coco_tables.read_tables(*paths, reading(iou_type=("segm",)))


def test_masks_of_different_sizes_in_two_columns_are_an_error(tmp_path):
    row = {"image_id": 7, "category_id": 1}
    sides = []
    for size in ([9, 6], [6, 9]):
        masks = {"segmentation": {"size": size, "counts": [4, 50]}}
        paths = written(tmp_path, [{**row, **masks, "score": 0.5}], [{**row, **masks}], images=SIZED_IMAGES)
        sides.append(coco_tables.read_tables(*paths, reading(iou_type=("segm",))))
    (preds, _), (_, target) = sides
    rule = "must be of an image of 9 x 6, as those of `preds`; got 6 x 9"
    with pytest.raises(ValueError, match=r"`target\[0\]\['masks'\]` " + rule):
        packed((preds, target), ("segm",))
