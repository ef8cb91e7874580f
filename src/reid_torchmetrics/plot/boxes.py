"""Images with the boxes of a detector: right, wrong, missed or ignored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.detection.evaluators import Evaluator
from reid_torchmetrics.functional.detection.inputs import plain_id

from .canvas import BLUE, GRAY, GREEN, RED, WHITE, Box, Canvas, Image, Lettering, resized
from .glyphs import one_warning_of_glyphs
from .judged_boxes import JudgedBox, Judgment
from .pictures import as_image

_LEAST_HEIGHT = 64
_GAP = 12
_NO_IMAGES, _SIZE_OF_REMARK = "no images", 14
_WIDEST = 2  # of an image, as width over the height that it may have
_FAR = -1e5, 1e5  # pixels, that edges may lie outside
_LEAST_SIDE = 3  # pixels, so that every box is seen


@one_warning_of_glyphs()
def draw_boxes(
    picture: object,
    detections: Mapping[str, Any],
    ground_truths: Mapping[str, Any],
    *,
    class_names: Mapping[int, str] | None = None,
    min_score: float | Mapping[int, float] = 0.0,
    iou_threshold: float = 0.5,
    box_format: _names.BoxFormat = "xyxy",
    average: _names.Average = "macro",
    evaluator: Evaluator | None = None,
    height: int = 480,
    title: str | None = None,
) -> NDArray[np.uint8]:
    """Draw the right and wrong detections of an image, and the ground truths that were missed.

    Boxes are matched as COCO does, or as another evaluator. Right detections are green and have a check mark, wrong
    ones are red and have a cross, and missed ground truths are blue and dashed; crowds and difficult ground truths, and
    detections matched to one, are gray. A ground truth that is not missed is not drawn, nor is a detection with a NaN,
    though it is counted. Beside a box are its label and score, below the image are the counts. Letters with accents,
    Greek and Cyrillic ones need Matplotlib's fonts; Chinese ones are empty boxes, and a warning names them.

    Args:
        picture: as for `draw_rank_lists`; boxes are in its pixels.
        detections: `boxes` [detections, 4], `scores` and `labels` of the image, as for `DetectionMAP.update`.
        ground_truths: `boxes` [ground truths, 4] and `labels` of the image, and `iscrowd` or `difficult`, if any are.
            With `rotated_boxes` on both sides these are drawn and matched in place of `boxes`.
        class_names: of the classes by label; without a name the label is shown.
        min_score: the least score of a detection that is accepted, for all or by label, such as
            `results.best_confidences()`; the others are not drawn, and their ground truths are missed.
        iou_threshold: least overlap of a detection that matches a ground truth.
        box_format: "xyxy", "xywh" or "cxcywh", as in `DetectionMAP`.
        average: "micro" for a detection that may match a ground truth of any label, as in `DetectionMAP`.
        evaluator: of the matching, such as `results.evaluator`, in the units of its evaluation; None for COCO.
        height: the picture is scaled to it, in pixels, or to a width of two times that, if it is wide.
        title: a line above the picture.

    Returns:
        An image [H, W, 3].

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes or values that do not fit, an unknown format, or a label without a `min_score`.
    """
    _checks.positive_int("height", height, least=_LEAST_HEIGHT)
    _checks.names_of_labels("class_names", class_names)
    boxes = Judgment(min_score, iou_threshold, box_format, average, evaluator).judge(detections, ground_truths)
    return np.array(_draw_judged(as_image("picture", picture), boxes, class_names or {}, height, title, is_name=False))


@one_warning_of_glyphs()
def draw_box_grid(
    pictures: Iterable[object],
    detections: Sequence[Mapping[str, Any]],
    ground_truths: Sequence[Mapping[str, Any]],
    *,
    titles: Sequence[str] | None = None,
    columns: int | None = None,
    class_names: Mapping[int, str] | None = None,
    min_score: float | Mapping[int, float] = 0.0,
    iou_threshold: float = 0.5,
    box_format: _names.BoxFormat = "xyxy",
    average: _names.Average = "macro",
    evaluator: Evaluator | None = None,
    height: int = 320,
) -> NDArray[np.uint8]:
    """Draw several images as `draw_boxes` does, row by row: such as a batch, or `DetectionResults.worst_images`.

    Args:
        pictures: of the images.
        detections: a dict for each image, such as `preds` of `DetectionMAP.update`.
        ground_truths: a dict for each image, such as `target` of `DetectionMAP.update`.
        titles: of the images; None for their `image_id`, where the ground truths have them.
        columns: how many images are in a row; None for about as many as there are rows.
        class_names: of the classes by label.
        min_score: the least score that is accepted, for all or by label.
        iou_threshold: least overlap of a detection that matches a ground truth.
        box_format: "xyxy", "xywh" or "cxcywh".
        average: "micro" for a detection that may match a ground truth of any label.
        evaluator: of the matching; None for COCO.
        height: each picture is scaled to it, in pixels, or to a width of two times that, if it is wide.

    Returns:
        An image [H, W, 3]. Without pictures it says so.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError: an argument of the wrong type or dtype.
        ValueError: arguments of different lengths, or as in `draw_boxes`.
    """
    _checks.positive_int("height", height, least=_LEAST_HEIGHT)
    _checks.names_of_labels("class_names", class_names)
    judgment = Judgment(min_score, iou_threshold, box_format, average, evaluator)
    pictures = [*pictures]
    for argument, given in (("detections", detections), ("ground_truths", ground_truths), ("titles", titles)):
        if given is not None and len(given) != len(pictures):
            raise ValueError(f"`{argument}` must have one entry for each picture; got {len(given)} of {len(pictures)}.")
    columns = max(1, math.ceil(math.sqrt(len(pictures)))) if columns is None else columns
    _checks.positive_int("columns", columns)
    images = []
    for number, (picture, predicted, true) in enumerate(zip(pictures, detections, ground_truths, strict=True)):
        boxes = judgment.judge(predicted, true, f"[{number}]")
        title = _title_of(true) if titles is None else titles[number]
        image = as_image(f"pictures[{number}]", picture)
        images.append(_draw_judged(image, boxes, class_names or {}, height, title, is_name=titles is None))
    return _grid(images, columns)


def judged_like(results: DetectionResults) -> dict[str, Any]:
    """Options of `draw_boxes` for boxes that are judged as the errors of results are counted."""
    return {
        "class_names": results.class_names,
        "min_score": results.best_confidences(),
        "iou_threshold": results.averages.grid.shown_threshold,
        "average": "micro" if results.is_micro else "macro",
        "evaluator": results.evaluator,
    }


def _title_of(ground_truths: Mapping[str, Any]) -> str | None:
    image = plain_id(ground_truths.get("image_id"))
    return image if image is None or isinstance(image, str) else f"image {int(image)}"


def _grid(images: Sequence[Image], columns: int) -> NDArray[np.uint8]:
    """Images row by row, each at the upper left corner of its cell."""
    if not images:
        lettering = Lettering(_SIZE_OF_REMARK)
        canvas = Canvas(lettering.width(_NO_IMAGES) + 2 * _GAP, lettering.height + 2 * _GAP)
        canvas.text((_GAP, _GAP), _NO_IMAGES, lettering, GRAY)
        return np.array(canvas.image)
    widths = [max(image.width for image in images[column::columns]) for column in range(min(columns, len(images)))]
    heights = [max(image.height for image in images[row : row + columns]) for row in range(0, len(images), columns)]
    canvas = Canvas(sum(widths) + _GAP * (len(widths) + 1), sum(heights) + _GAP * (len(heights) + 1))
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        left, top = sum(widths[:column]) + _GAP * (column + 1), sum(heights[:row]) + _GAP * (row + 1)
        canvas.image.paste(image, (left, top))
    return np.array(canvas.image)


_COLORS = {"right": GREEN, "wrong": RED, "missed": BLUE, "ignored": GRAY}
"""of boxes by outcome, in the order of the legend"""
_MARKS = {"right": "check", "wrong": "cross"}
_Labeled: TypeAlias = tuple[Box, str, str]
"""the place of a text about an outcome, the outcome, and the text"""


def _draw_judged(
    image: Image, boxes: Sequence[JudgedBox], names: Mapping[int, str], height: int, title: str | None, *, is_name: bool
) -> Image:
    """Draw boxes into an image, scaled to a height, with a title above and a legend below.

    A title that is too wide loses its end or, if it is the image's name, its beginning.
    """
    small, large = Lettering(max(10, height // 36)), Lettering(max(12, height // 28))
    fitted = resized(image, _WIDEST * height, height)
    size, scale = fitted.size, (fitted.width / image.width, fitted.height / image.height)
    drawn = Canvas(*size)
    drawn.image.paste(fitted)
    # NaN has no place, but is counted.
    placed = [(each, _in_pixels(each.corners, scale, size)) for each in boxes if not any(map(math.isnan, each.corners))]
    for judged, box in placed:
        corners = np.clip(judged.outline, *_FAR) * scale if judged.outline else ()
        _outline(drawn, box, judged.outcome, max(2, round(size[1] / 110)), corners)
    _write_beside(drawn, placed, names, small)
    # The picture with its boxes, between the title and the legend.
    legend = _legend(boxes, small, size[0])
    gap, side = small.height // 2, small.height
    top = large.height + gap // 2 if title else 0
    bottom = top + size[1] + gap
    ends = [place.left + place.width for place, *_ in legend]
    canvas = Canvas(max(size[0], *ends), bottom + legend[-1][0].top + side + gap)
    if title:
        canvas.text((0, 0), large.cut(title, canvas.image.width, keeps_end=is_name), large)
    canvas.image.paste(drawn.image, (0, top))
    for (left, line, *_), outcome, text in legend:
        if outcome in _MARKS:
            canvas.mark((left + side // 4, bottom + line), side, _MARKS[outcome], _COLORS[outcome])
        else:
            _outline(canvas, Box(left, bottom + line + 1, 3 * side // 2, side - 2), outcome, 2)
        canvas.text((left + 2 * side, bottom + line), text, small)
    return canvas.image


def _legend(boxes: Sequence[JudgedBox], lettering: Lettering, width: int) -> list[_Labeled]:
    """Outcomes with their counts at their places, in as many lines as they need."""
    counts = Counter(judged.outcome for judged in boxes)
    legend: list[_Labeled] = []
    left, top, height = 0, 0, lettering.height
    for outcome in [each for each in _COLORS if counts[each] or each != "ignored"]:
        text = f"{counts[outcome]} {outcome}"
        size = 2 * height + lettering.width(text)
        if left and left + size > width:
            left, top = 0, top + height + height // 2
        legend.append((Box(left, top, size, height), outcome, text))
        left += size + height
    return legend


def _in_pixels(corners: tuple[float, float, float, float], scale: tuple[float, float], size: tuple[int, int]) -> Box:
    """A box in pixels of the scaled image, clipped to the image; edges may be infinite."""
    starts, lengths = [], []
    for ends, factor, most in zip((corners[::2], corners[1::2]), scale, size, strict=True):
        first, last = (round(min(max(factor * end, 0), most)) for end in ends)
        starts.append(min(first, most - _LEAST_SIDE))
        lengths.append(max(last - starts[-1], _LEAST_SIDE))
    return Box(*starts, *lengths)


def _outline(canvas: Canvas, box: Box, outcome: str, thickness: int, corners: Any = ()) -> None:
    """Draw the edges of a box, between its corners if they are given."""
    if len(corners):
        canvas.outline(corners, _COLORS[outcome], thickness, 3 * thickness if outcome == "missed" else math.inf)
        return
    thickness, color = min(thickness, min(box.width, box.height) // 2), _COLORS[outcome]
    if outcome == "missed":
        canvas.dashed_frame(box, color, thickness, dash=3 * thickness)
    else:  # seen on a ground of its own color, too
        canvas.frame(box.inside(-1), WHITE, thickness + 2)
        canvas.frame(box, color, thickness)


def _write_beside(
    canvas: Canvas, boxes: Sequence[tuple[JudgedBox, Box]], names: Mapping[int, str], lettering: Lettering
) -> None:
    """Write labels and scores on plates beside their boxes, where no other plate is if there is such a place."""
    height, padding, (most, _) = lettering.height, lettering.height // 2, canvas.image.size
    plates: list[_Labeled] = []
    # The last boxes are errors: they choose their places first and are written last, on top of the others.
    for judged, box in reversed(boxes):
        margin = padding + (height if judged.outcome in _MARKS else 0)
        text = lettering.cut(_text(judged, names), most - margin)
        size = min(lettering.width(text) + margin, most), height
        places = _places(box, size, canvas.image.size, below=judged.score is None)
        free = (place for place in places if not any(place.meets(other) for other, *_ in plates))
        plates.append((next(free, places[0]), judged.outcome, text))
    for plate, outcome, text in reversed(plates):
        canvas.fill(plate, _COLORS[outcome])
        left = plate.left + padding // 2
        if outcome in _MARKS:
            canvas.mark((plate.left + 1, plate.top + 1), height - 2, _MARKS[outcome], _COLORS[outcome])
            left += height
        canvas.text((left, plate.top), text, lettering, WHITE)


def _text(judged: JudgedBox, names: Mapping[int, str]) -> str:
    if judged.score is not None:
        return f"{names.get(judged.label, f'{judged.label}:')} {judged.score:.2f}"
    name = names.get(judged.label, str(judged.label))
    return f"{name} ({judged.remark})" if judged.remark else name


def _places(box: Box, size: tuple[int, int], whole: tuple[int, int], *, below: bool) -> list[Box]:
    """Places of a plate of a size in the whole image.

    Outside of the box above and below, then inside, at its left edge and at its right one; at last where there is room.
    """
    (width, height), (last_left, last_top) = size, (whole[0] - size[0], whole[1] - size[1])
    outside, inside = [box.top - height, box.top + box.height], [box.top, box.top + box.height - height]
    order = -1 if below else 1
    lefts = [min(max(left, 0), last_left) for left in (box.left, box.left + box.width - width)]
    tops = [top for top in (*outside[::order], *inside[::order]) if 0 <= top <= last_top]
    places = [Box(left, top, *size) for top in tops for left in lefts]
    return [*places, Box(lefts[0], min(max(box.top, 0), last_top), *size)]
