"""Images with the boxes of a detector: right, wrong, missed or ignored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

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
_NO_IMAGES = "no images"
_REMARK_SIZE = 14
_WIDEST = 2  # of an image, as width over the height that it may have
_FAR = (-1e5, 1e5)  # pixels, that edges may lie outside
_LEAST_SIDE = 3  # pixels, so that every box is seen
_COLORS = {"right": GREEN, "wrong": RED, "missed": BLUE, "ignored": GRAY}
"""colors of boxes by outcome, in the order of the legend"""
_MARKS = {"right": "check", "wrong": "cross"}


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

    Boxes are matched as by COCO, or by another evaluator. Right detections are green and have a check mark, wrong ones
    are red and have a cross, and missed ground truths are blue and dashed. Crowds and difficult ground truths, and
    detections matched to one, are gray. Ground truths that are not missed are not drawn. A detection with a NaN is
    counted, but not drawn. Each box has its label and score, and the counts are below the image. Letters with accents,
    Greek and Cyrillic letters need Matplotlib's fonts; Chinese characters are empty boxes, and a warning names them.

    Args:
        picture: as for `draw_rank_lists`; boxes are in its pixels.
        detections: `boxes` [detections, 4], `scores` and `labels` of the image, as for `DetectionMAP.update`.
        ground_truths: `boxes` [ground truths, 4] and `labels` of the image, and `iscrowd` or `difficult`, if any are.
            If both dicts have `rotated_boxes`, these are drawn and matched in place of `boxes`.
        class_names: of the classes by label; without a name the label is shown.
        min_score: the least score of accepted detections, for all or by label, such as `results.best_confidences()`;
            detections with lower scores are not drawn, and their ground truths are missed.
        iou_threshold: least overlap of a detection that matches a ground truth.
        box_format: "xyxy", "xywh" or "cxcywh", as in `DetectionMAP`.
        average: "micro" if a detection may match a ground truth of any label, as in `DetectionMAP`.
        evaluator: the evaluator for matching, such as `results.evaluator`, in the units of its evaluation; None for
            COCO.
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
    judgment = Judgment(min_score, iou_threshold, box_format, average, evaluator)
    boxes = judgment.judge(detections, ground_truths)
    image = as_image("picture", picture)
    return np.array(_draw_image(image, boxes, class_names or {}, height=height, title=title, keeps_end=False))


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
        min_score: the least score of accepted detections, for all or by label.
        iou_threshold: least overlap of a detection that matches a ground truth.
        box_format: "xyxy", "xywh" or "cxcywh".
        average: "micro" if a detection may match a ground truth of any label.
        evaluator: the evaluator for matching; None for COCO.
        height: each picture is scaled to it, in pixels, or to a width of two times that, if it is wide.

    Returns:
        An image [H, W, 3]; the text "no images" if there are none.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError: an argument of the wrong type or dtype.
        ValueError: arguments of different lengths, or as in `draw_boxes`.
    """
    _checks.positive_int("height", height, least=_LEAST_HEIGHT)
    _checks.names_of_labels("class_names", class_names)
    judgment = Judgment(min_score, iou_threshold, box_format, average, evaluator)
    pictures = list(pictures)
    num_pictures = len(pictures)
    for argument, values in (("detections", detections), ("ground_truths", ground_truths), ("titles", titles)):
        if values is not None and len(values) != num_pictures:
            raise ValueError(f"`{argument}` must have one entry for each picture; got {len(values)} of {num_pictures}.")
    if columns is None:
        columns = max(1, math.ceil(math.sqrt(num_pictures)))
    _checks.positive_int("columns", columns)
    images = []
    for number, (picture, predicted, true) in enumerate(zip(pictures, detections, ground_truths, strict=True)):
        boxes = judgment.judge(predicted, true, f"[{number}]")
        title = _find_title(true) if titles is None else titles[number]
        image = as_image(f"pictures[{number}]", picture)
        keeps_end = titles is None  # names of files differ in their ends
        images.append(_draw_image(image, boxes, class_names or {}, height=height, title=title, keeps_end=keeps_end))
    return _draw_grid(images, columns)


def judged_like(results: DetectionResults) -> dict[str, Any]:
    """Return options of `draw_boxes` that judge boxes like the errors of results."""
    return {
        "class_names": results.class_names,
        "min_score": results.best_confidences(),
        "iou_threshold": results.averages.grid.shown_threshold,
        "average": "micro" if results.is_micro else "macro",
        "evaluator": results.evaluator,
    }


def _find_title(ground_truths: Mapping[str, Any]) -> str | None:
    """Return the `image_id` of ground truths as a title; None without one."""
    image_id = plain_id(ground_truths.get("image_id"))
    if image_id is None or isinstance(image_id, str):
        return image_id
    return f"image {int(image_id)}"


def _draw_grid(images: Sequence[Image], num_columns: int) -> NDArray[np.uint8]:
    """Draw images row by row, each at the upper left corner of its cell."""
    if not images:
        lettering = Lettering(_REMARK_SIZE)
        canvas = Canvas(lettering.width(_NO_IMAGES) + 2 * _GAP, lettering.height + 2 * _GAP)
        canvas.text((_GAP, _GAP), _NO_IMAGES, lettering, GRAY)
        return np.array(canvas.image)
    num_columns = min(num_columns, len(images))
    widths = [max(image.width for image in images[column::num_columns]) for column in range(num_columns)]
    rows = [images[start : start + num_columns] for start in range(0, len(images), num_columns)]
    heights = [max(image.height for image in row) for row in rows]
    canvas = Canvas(sum(widths) + _GAP * (len(widths) + 1), sum(heights) + _GAP * (len(heights) + 1))
    top = _GAP
    for row, height in zip(rows, heights, strict=True):
        left = _GAP
        for image, width in zip(row, widths, strict=False):
            canvas.image.paste(image, (left, top))
            left += width + _GAP
        top += height + _GAP
    return np.array(canvas.image)


class _PlacedText(NamedTuple):
    """A text about an outcome at its place."""

    box: Box
    outcome: str
    text: str


def _draw_image(
    image: Image,
    boxes: Sequence[JudgedBox],
    names: Mapping[int, str],
    *,
    height: int,
    title: str | None,
    keeps_end: bool,
) -> Image:
    """Draw boxes into an image, scaled to a height, with a title above and a legend below.

    A title that is too wide loses its end, or its beginning with `keeps_end`.
    """
    small = Lettering(max(10, height // 36))
    large = Lettering(max(12, height // 28))
    picture = _draw_picture(image, boxes, names, height, small)

    # The picture with its boxes is between the title and the legend.
    legend = _place_legend(boxes, small, picture.width)
    gap = small.height // 2
    top = large.height + gap // 2 if title else 0
    legend_top = top + picture.height + gap
    width = max(picture.width, *(entry.box.left + entry.box.width for entry in legend))
    canvas = Canvas(width, legend_top + legend[-1].box.top + small.height + gap)
    if title:
        canvas.text((0, 0), large.cut(title, canvas.image.width, keeps_end=keeps_end), large)
    canvas.image.paste(picture, (0, top))
    _draw_legend(canvas, legend, legend_top, small)
    return canvas.image


def _draw_picture(
    image: Image, boxes: Sequence[JudgedBox], names: Mapping[int, str], height: int, lettering: Lettering
) -> Image:
    """Draw boxes with their labels into an image, scaled to a height."""
    scaled = resized(image, _WIDEST * height, height)
    canvas = Canvas(*scaled.size)
    canvas.image.paste(scaled)
    scale = (scaled.width / image.width, scaled.height / image.height)
    thickness = max(2, round(scaled.height / 110))
    placed_boxes = []
    for judged in boxes:
        corners = np.array(judged.corners)
        if np.isnan(corners).any():
            continue  # NaN has no place, but is counted
        box = _to_pixels(corners, scale, scaled.size)
        outline = np.clip(corners, *_FAR) * scale if len(corners) > 2 else ()
        _draw_outline(canvas, box, judged.outcome, thickness, outline)
        placed_boxes.append((judged, box))
    _write_labels(canvas, placed_boxes, names, lettering)
    return canvas.image


def _place_legend(boxes: Sequence[JudgedBox], lettering: Lettering, width: int) -> list[_PlacedText]:
    """Return the outcomes with their counts at their places, in as many lines as they need."""
    counts = Counter(judged.outcome for judged in boxes)
    height = lettering.height
    legend: list[_PlacedText] = []
    left = 0
    top = 0
    for outcome in _COLORS:
        if outcome == "ignored" and not counts[outcome]:
            continue
        text = f"{counts[outcome]} {outcome}"
        entry_width = 2 * height + lettering.width(text)
        if left and left + entry_width > width:
            left = 0
            top += height + height // 2
        legend.append(_PlacedText(Box(left, top, entry_width, height), outcome, text))
        left += entry_width + height
    return legend


def _draw_legend(canvas: Canvas, legend: Sequence[_PlacedText], top: int, lettering: Lettering) -> None:
    """Draw the legend from a row of pixels on: marks or small boxes, with texts."""
    side = lettering.height
    for box, outcome, text in legend:
        entry_top = top + box.top
        if outcome in _MARKS:
            canvas.mark((box.left + side // 4, entry_top), side, _MARKS[outcome], _COLORS[outcome])
        else:
            sample = Box(box.left, entry_top + 1, 3 * side // 2, side - 2)
            _draw_outline(canvas, sample, outcome, thickness=2)
        canvas.text((box.left + 2 * side, entry_top), text, lettering)


def _to_pixels(corners: NDArray[np.float64], scale: tuple[float, float], size: tuple[int, int]) -> Box:
    """Return a box in pixels of the scaled image, clipped to the image; corners may be infinite."""
    pixels = np.clip(corners * scale, 0, size).round().astype(int)
    start = np.minimum(pixels.min(0), np.subtract(size, _LEAST_SIDE))
    left, top = start.tolist()
    width, height = np.maximum(pixels.max(0) - start, _LEAST_SIDE).tolist()
    return Box(left, top, width, height)


def _draw_outline(canvas: Canvas, box: Box, outcome: str, thickness: int, corners: Any = ()) -> None:
    """Draw the edges of a box, or the lines between its `corners` if there are any."""
    color = _COLORS[outcome]
    is_missed = outcome == "missed"
    if len(corners):
        canvas.outline(corners, color, thickness, 3 * thickness if is_missed else math.inf)
        return
    thickness = min(thickness, min(box.width, box.height) // 2)
    if is_missed:
        canvas.dashed_frame(box, color, thickness, dash=3 * thickness)
    else:  # seen on a ground of its own color, too
        canvas.frame(box.inside(-1), WHITE, thickness + 2)
        canvas.frame(box, color, thickness)


def _write_labels(
    canvas: Canvas, boxes: Sequence[tuple[JudgedBox, Box]], names: Mapping[int, str], lettering: Lettering
) -> None:
    """Write labels and scores on plates next to their boxes, where no other plate is if there is such a place."""
    height = lettering.height
    padding = height // 2
    canvas_width = canvas.image.width
    plates: list[_PlacedText] = []
    # The last boxes are errors: they choose their places first and are written last, on top of the others.
    for judged, box in reversed(boxes):
        margin = padding + (height if judged.outcome in _MARKS else 0)
        text = lettering.cut(_label_text(judged, names), canvas_width - margin)
        size = (min(lettering.width(text) + margin, canvas_width), height)
        candidates = _plate_places(box, size, canvas.image.size, below=judged.score is None)
        plates.append(_PlacedText(_first_free(candidates, plates), judged.outcome, text))
    for plate, outcome, text in reversed(plates):
        canvas.fill(plate, _COLORS[outcome])
        left = plate.left + padding // 2
        if outcome in _MARKS:
            canvas.mark((plate.left + 1, plate.top + 1), height - 2, _MARKS[outcome], _COLORS[outcome])
            left += height
        canvas.text((left, plate.top), text, lettering, WHITE)


def _label_text(judged: JudgedBox, names: Mapping[int, str]) -> str:
    """Return the label of a box with its score, or with the reason why a ground truth is ignored."""
    if judged.score is not None:
        return f"{names.get(judged.label, f'{judged.label}:')} {judged.score:.2f}"
    name = names.get(judged.label, str(judged.label))
    return f"{name} ({judged.remark})" if judged.remark else name


def _first_free(places: Sequence[Box], plates: Sequence[_PlacedText]) -> Box:
    """Return the first place that meets no plate; the first of all if there is none."""
    for place in places:
        if not any(place.meets(plate.box) for plate in plates):
            return place
    return places[0]


def _plate_places(box: Box, size: tuple[int, int], image_size: tuple[int, int], *, below: bool) -> list[Box]:
    """Return places in the image for a plate next to a box, the best first.

    Outside of the box above and below, then inside, at its left edge and at its right one; at last where there is room.
    With `below` the place below comes before the one above.
    """
    width, height = size
    last_left = image_size[0] - width
    last_top = image_size[1] - height
    outside = [box.top - height, box.top + box.height]
    inside = [box.top, box.top + box.height - height]
    if below:
        outside.reverse()
        inside.reverse()
    lefts = [min(max(left, 0), last_left) for left in (box.left, box.left + box.width - width)]
    places: list[Box] = []
    for top in (*outside, *inside):
        if 0 <= top <= last_top:
            places.extend(Box(left, top, width, height) for left in lefts)
    places.append(Box(lefts[0], min(max(box.top, 0), last_top), width, height))
    return places
