"""Boxes in images: which pixels show what each is, and what it all adds up to."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from reid_torchmetrics import VocMAP
from reid_torchmetrics.plot import canvas, draw_box_grid, draw_boxes
from tests.plot.box_samples import (
    CROWD,
    IN_CROWD,
    MISSED,
    PICTURE,
    RIGHT,
    SIDE,
    WRONG,
    detections,
    ground_truths,
    judge,
    nothing,
)
from tests.plot.test_pictures import PICTURE as IMAGE

GREEN, RED, BLUE, GRAY, WHITE = (26, 152, 80), (215, 48, 39), (33, 102, 230), (128,) * 3, (255,) * 3


def edge(image: np.ndarray, box: list[float], inset: int = 0) -> set[tuple[int, ...]]:
    """The colors of the lower half of the left edge of a box, so many pixels inside, where no label is."""
    left, top, _, bottom = map(int, box)
    return {tuple(pixel) for pixel in image[(top + bottom) // 2 : bottom - 8, left + inset].tolist()}


def test_every_outcome_has_its_line():
    image = draw_boxes(PICTURE, detections(), ground_truths(), height=SIDE)
    assert image.dtype == np.uint8
    assert image.shape[1:] == (SIDE, 3)
    for box, color in ((RIGHT, GREEN), (WRONG, RED), (CROWD, GRAY), (IN_CROWD, GRAY)):
        assert [edge(image, box, inset) for inset in range(-2, 4)] == [
            *({(90,) * 3}, {WHITE}, {color}, {color}, {WHITE}, {(90,) * 3})
        ]
    assert [edge(image, MISSED, inset) for inset in range(-1, 3)] == [
        *({(90,) * 3}, {BLUE, WHITE}, {BLUE, WHITE}, {(90,) * 3})
    ]


def test_lines_are_at_the_edges_of_the_box_in_a_scaled_picture():
    image = draw_boxes(PICTURE, detections(), nothing(), height=2 * SIDE)
    assert image.shape[1] == 2 * SIDE
    left, top, right, bottom = (2 * int(edge) for edge in WRONG)
    middle = (top + bottom) // 2
    assert tuple(image[middle, left]) == tuple(image[middle, right - 1]) == RED
    assert tuple(image[middle, left - 1]) == tuple(image[middle, right]) == WHITE
    assert tuple(image[bottom - 1, (left + right) // 2]) == RED


def test_the_legend_counts(written):
    draw_boxes(PICTURE, detections(), ground_truths(), height=320)
    assert written[-4:] == ["1 right", "1 wrong", "1 missed", "2 ignored"]
    draw_boxes(PICTURE, nothing(), nothing(), height=320)
    assert written[-3:] == ["0 right", "0 wrong", "0 missed"]


def test_labels_have_names_and_scores(written):
    draw_boxes(PICTURE, detections(), ground_truths(), height=320)
    assert written[:5] == ["2 (crowd)", "2: 0.75", "1: 0.90", "2", "1: 0.60"]
    written.clear()
    draw_boxes(PICTURE, detections(), ground_truths(), height=320, class_names={1: "dog", 2: "cat"}, title="a title")
    assert written[:6] == ["cat (crowd)", "cat 0.75", "dog 0.90", "cat", "dog 0.60", "a title"]


@pytest.mark.parametrize("name", ["dog", "a very long name of a class that has no room in the picture"])
def test_plates_do_not_leave_the_picture_and_are_apart_where_there_is_room(monkeypatch, name):
    plates: list[canvas.Box] = []
    monkeypatch.setattr(canvas.Canvas, "fill", lambda self, box, color: plates.append(box))
    corners = [[-30.0, -30, 10, 10], [200, -9, 300, 9], [-9, 200, 20, 300], [190, 190, 230, 230], [0, 90, 220, 110]]
    found = detections(boxes=torch.tensor(corners), scores=torch.rand(5), labels=torch.ones(5, dtype=torch.int64))
    draw_boxes(PICTURE, found, nothing(), height=SIDE, class_names={1: name})
    assert len(plates) == 5
    for number, box in enumerate(plates):
        assert 0 <= box.left <= box.left + box.width <= SIDE
        assert 0 <= box.top <= box.top + box.height <= SIDE
        assert name != "dog" or not any(box.meets(other) for other in plates[:number])


def test_a_difficult_ground_truth_is_drawn_as_a_crowd_is_and_said_to_be_difficult(written):
    difficult = torch.tensor([0, 0, 1])
    metric = VocMAP()
    metric.update([detections()], [ground_truths(iscrowd=torch.zeros_like(difficult), difficult=difficult)])
    results = metric.results(boxes=True)
    (found,), (true,) = results.boxes_of(results.images)
    image = draw_boxes(PICTURE, found, true, evaluator=results.evaluator, height=SIDE)
    assert edge(image, CROWD, 0) == edge(image, CROWD, 1) == {GRAY}
    # A detection in it that overlaps it too little is wrong, as in VOC.
    assert "2 (difficult)" in written
    assert written[-4:] == ["1 right", "2 wrong", "1 missed", "1 ignored"]


@pytest.mark.parametrize("corners", [[50.0, 50, 50, 50], [400, 400, 500, 500], [-50, 3, -40, 3], [0, 0, 9e4, 9e4]])
def test_a_box_is_seen_however_small_and_wherever(corners):
    found = detections(boxes=torch.tensor([corners]), scores=torch.ones(1), labels=torch.ones(1, dtype=torch.int64))
    image = draw_boxes(PICTURE, found, nothing(), height=SIDE)
    expected = draw_boxes(PICTURE, nothing(), nothing(), height=SIDE)
    assert (image[:SIDE] != expected[:SIDE]).any()
    assert image.shape == expected.shape


def test_the_lines_of_a_small_box_fill_it():
    # Lines are two pixels thick, so that those of a box of four pixels meet in its middle.
    corners = torch.tensor([[100.0, 100.0, 104.0, 104.0]])
    small = detections(boxes=corners, scores=torch.ones(1), labels=torch.ones(1, dtype=torch.int64))
    image = draw_boxes(PICTURE, small, nothing(), height=SIDE)
    assert {tuple(pixel) for pixel in image[100:104, 100:104].reshape(-1, 3).tolist()} == {RED}


def test_a_wide_picture_is_scaled_to_a_width_of_two_heights():
    image = draw_boxes(torch.zeros(3, 100, 400, dtype=torch.uint8), nothing(), nothing(), height=300)
    assert image.shape[1] == 600
    assert (image[:150] == 0).all()
    assert (image[150] == 255).all()


def test_a_legend_without_room_in_one_line_has_several(written):
    narrow, wide = (
        draw_boxes(torch.zeros(3, 200, width, dtype=torch.uint8), nothing(), nothing(), height=200)
        for width in (20, 400)
    )
    assert len(narrow) - 200 > 2 * (len(wide) - 200)
    assert written == ["0 right", "0 wrong", "0 missed"] * 2
    assert narrow.shape[1] > 20


def test_a_grid_has_the_images_row_by_row():
    grid = draw_box_grid([PICTURE] * 3, [detections()] * 3, [ground_truths()] * 3, height=SIDE)
    image = draw_boxes(PICTURE, detections(), ground_truths(), height=SIDE)
    height, gap = len(image), 12
    assert grid.shape == (2 * height + 3 * gap, 2 * SIDE + 3 * gap, 3)
    tops, lefts = [gap, 2 * gap + height], [gap, 2 * gap + SIDE]
    for top, left in ((tops[0], lefts[0]), (tops[0], lefts[1]), (tops[1], lefts[0])):
        assert np.array_equal(grid[top : top + height, left : left + SIDE], image)
    assert (grid[tops[1] :, lefts[1] :] == 255).all()


@pytest.mark.parametrize(("columns", "shape"), [(1, (3, 1)), (3, (1, 3)), (5, (1, 3))])
def test_a_grid_has_as_many_columns_as_were_asked_for(columns, shape):
    grid = draw_box_grid([PICTURE] * 3, [nothing()] * 3, [nothing()] * 3, columns=columns, height=SIDE)
    height = len(draw_boxes(PICTURE, nothing(), nothing(), height=SIDE))
    assert grid.shape[:2] == (shape[0] * (height + 12) + 12, shape[1] * (SIDE + 12) + 12)


def test_an_image_of_a_grid_is_named_by_its_id_or_its_title(written):
    def titles(*ids, **options) -> list[str]:
        written.clear()
        draw_box_grid([PICTURE] * len(ids), [nothing()] * len(ids), [nothing(image_id=each) for each in ids], **options)
        return [text for text in written if text[0] not in "0123456789"]

    assert titles(57, torch.tensor([9])) == ["image 57", "image 9"]
    assert titles(57, 9, titles=["first", "second"]) == ["first", "second"]
    assert titles(Path("a.jpg"), "", None) == ["a.jpg"]
    (name,) = titles(f"{'folder/' * 20}0007.jpg")  # which has no room for all of it
    assert name.startswith(("...", "…"))
    assert name.endswith("/folder/0007.jpg")


def test_a_grid_passes_its_options_on():
    options = {"class_names": {1: "dog"}, "min_score": {1: 0.7, 2: 0.0}, "iou_threshold": 0.75, "average": "micro"}
    grid = draw_box_grid([PICTURE], [detections()], [ground_truths()], height=SIDE, box_format="xyxy", **options)
    image = draw_boxes(PICTURE, detections(), ground_truths(), height=SIDE, **options)
    assert np.array_equal(grid[12:-12, 12:-12], image)


def test_a_grid_of_no_images_says_so(written):
    assert draw_box_grid([], [], []).shape[2] == 3
    assert written == ["no images"]


BOXES = torch.tensor([RIGHT, WRONG, IN_CROWD])
FORMATS = "'xyxy', 'xywh', 'cxcywh'"
NO_MAPPING = "must be a mapping of labels to names"


def grid(found=None, **options) -> np.ndarray:
    return draw_box_grid([PICTURE], [nothing()] if found is None else found, [nothing()], **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: judge([1]), TypeError, "`detections` must be a dict of tensors; got list."),
        (lambda: judge({"boxes": BOXES}), TypeError, "`detections` must have a tensor of scores; got none."),
        (lambda: judge(true=nothing(labels=[1])), TypeError, "`ground_truths` must have a tensor of labels; got list."),
        (lambda: grid([{}]), TypeError, "`detections[0]` must have a tensor of boxes; got none."),
        (lambda: grid([]), ValueError, "`detections` must have one entry for each picture; got 0 of 1."),
        (lambda: grid(titles=["a", "b"]), ValueError, "`titles` must have one entry for each picture; got 2 of 1."),
        (lambda: grid(columns=0), ValueError, "`columns` must be at least 1; got 0."),
        (lambda: grid(height=63), ValueError, "`height` must be at least 64; got 63."),
        (lambda: draw_boxes(PICTURE, {}, {}, height=63), ValueError, "`height` must be at least 64; got 63."),
        (lambda: judge(min_score={1: 1}), ValueError, "`min_score` must have a score for each label; got none for 2."),
        (lambda: judge(min_score="0.5"), TypeError, "`min_score` must be a number; got str."),
        (lambda: judge(iou_threshold=50), ValueError, "`iou_threshold` must lie in [0, 1]; got 50: 50 % is 0.5."),
        (lambda: judge(box_format="yolo"), ValueError, f"`box_format` must be one of {FORMATS}; got 'yolo'."),
        (lambda: grid(class_names={0: 1}), TypeError, "`class_names` must have strings as names; got 0: 1."),
        (lambda: draw_boxes(PICTURE, {}, {}, class_names=0), TypeError, f"`class_names` {NO_MAPPING}; got int."),
        (lambda: grid(class_names=["a"]), TypeError, f"`class_names` {NO_MAPPING}; got list."),
        (lambda: judge(average="all"), ValueError, "`average` must be one of 'macro', 'micro'; got 'all'."),
        (lambda: judge(nothing(boxes=BOXES)), ValueError, "`scores` must have one value for each of 3 boxes; got 0."),
        (lambda: draw_boxes(7, nothing(), nothing()), TypeError, f"`picture` must be {IMAGE}; got int."),
        (lambda: draw_box_grid([7], [nothing()], [nothing()]), TypeError, f"`pictures[0]` must be {IMAGE}; got int."),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_a_wrong_argument_is_named(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
