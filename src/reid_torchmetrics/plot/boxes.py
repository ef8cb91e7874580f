"""Images with the boxes that a detector found or missed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics import _checks

from .canvas import GRAY, Canvas, Lettering
from .judged_image import Judgment, draw_judged
from .pictures import as_image

if TYPE_CHECKING:
    from PIL.Image import Image

_LEAST_HEIGHT = 64
_GAP = 12
_NO_IMAGES, _SIZE_OF_REMARK = "no images", 14


def draw_boxes(
    picture: object,
    detections: Mapping[str, Any],
    ground_truths: Mapping[str, Any],
    *,
    names: Mapping[int, str] | None = None,
    min_score: float | Mapping[int, float] = 0.0,
    iou_threshold: float = 0.5,
    box_format: str = "xyxy",
    class_agnostic: bool = False,
    height: int = 480,
    title: str | None = None,
) -> NDArray[np.uint8]:
    """Draw what a detector found in an image, and what it missed.

    Boxes are matched as COCO does. Right detections are green and have a check mark, wrong ones are red and have a
    cross, and ground truths that were missed are blue and dashed; crowds, and detections that took one, are gray. A
    ground truth that was found is not drawn, nor is a detection with a NaN, which is counted all the same. Beside a box
    are its label and score, below the image is what it all adds up to. Letters with accents, Greek and Cyrillic ones
    need Matplotlib's fonts; Chinese ones are empty boxes.

    Args:
        picture: as for `draw_rank_lists`; boxes are in its pixels.
        detections: `boxes` [detections, 4], `scores` and `labels` of the image, as for `DetectionMAP.update`.
        ground_truths: `boxes` [ground truths, 4] and `labels` of the image, and `iscrowd`, if there are crowds.
        names: of the classes by label; without a name the label is shown.
        min_score: the least score of a detection that is accepted, for all or by label, such as
            `results.best_confidences()`; the others are not drawn, and what they took is missed.
        iou_threshold: overlap from which on a detection may take a ground truth.
        box_format: "xyxy", "xywh" or "cxcywh", as in `DetectionMAP`.
        class_agnostic: let a detection take a ground truth of any label, as under `average="micro"`.
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
    _checks.names_of_labels("names", names)
    judgment = Judgment(min_score, iou_threshold, box_format, class_agnostic)
    boxes = judgment.judge(detections, ground_truths)
    return np.array(draw_judged(as_image("picture", picture), boxes, names or {}, height, title))


def draw_box_grid(
    pictures: Iterable[object],
    detections: Sequence[Mapping[str, Any]],
    ground_truths: Sequence[Mapping[str, Any]],
    *,
    titles: Sequence[str] | None = None,
    columns: int | None = None,
    names: Mapping[int, str] | None = None,
    min_score: float | Mapping[int, float] = 0.0,
    iou_threshold: float = 0.5,
    box_format: str = "xyxy",
    class_agnostic: bool = False,
    height: int = 320,
) -> NDArray[np.uint8]:
    """Draw several images as `draw_boxes` does, row by row: such as a batch, or `DetectionResults.worst_images`.

    Args:
        pictures: of the images.
        detections: a dict for each image, such as `preds` of `DetectionMAP.update`.
        ground_truths: a dict for each image, such as `target` of `DetectionMAP.update`.
        titles: of the images; None for their `image_id`, where the ground truths have them.
        columns: how many images are in a row; None for about as many as there are rows.
        names: of the classes by label.
        min_score: the least score that is accepted, for all or by label.
        iou_threshold: overlap from which on a detection may take a ground truth.
        box_format: "xyxy", "xywh" or "cxcywh".
        class_agnostic: let a detection take a ground truth of any label.
        height: each picture is scaled to it, in pixels, or to a width of two times that, if it is wide.

    Returns:
        An image [H, W, 3]. Without pictures it says so.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError: an argument of the wrong type or dtype.
        ValueError: arguments of different lengths, and what `draw_boxes` refuses.
    """
    _checks.positive_int("height", height, least=_LEAST_HEIGHT)
    _checks.names_of_labels("names", names)
    judgment = Judgment(min_score, iou_threshold, box_format, class_agnostic)
    pictures = [*pictures]
    for argument, given in (("detections", detections), ("ground_truths", ground_truths), ("titles", titles)):
        if given is not None and len(given) != len(pictures):
            raise ValueError(f"`{argument}` must have one entry for each picture; got {len(given)} of {len(pictures)}.")
    if columns is None:
        columns = max(1, math.ceil(math.sqrt(len(pictures))))
    _checks.positive_int("columns", columns)
    drawn = []
    for number, (picture, found, true) in enumerate(zip(pictures, detections, ground_truths, strict=True)):
        boxes = judgment.judge(found, true, f"[{number}]")
        title = _title_of(true) if titles is None else titles[number]
        image = as_image(f"pictures[{number}]", picture)
        drawn.append(draw_judged(image, boxes, names or {}, height, title, is_name=titles is None))
    return _grid(drawn, columns)


def _title_of(ground_truths: Mapping[str, Any]) -> str | None:
    if "image_id" not in ground_truths:
        return None
    image = ground_truths["image_id"]
    return str(image) if isinstance(image, str) else f"image {int(image)}"


def _grid(drawn: Sequence[Image], columns: int) -> NDArray[np.uint8]:
    """Pictures row by row, each at the upper left corner of its cell."""
    if not drawn:
        lettering = Lettering(_SIZE_OF_REMARK)
        canvas = Canvas(lettering.width(_NO_IMAGES) + 2 * _GAP, lettering.height + 2 * _GAP)
        canvas.text((_GAP, _GAP), _NO_IMAGES, lettering, GRAY)
        return canvas.pixels()
    rows = [drawn[first : first + columns] for first in range(0, len(drawn), columns)]
    widths = [max(image.width for image in drawn[column::columns]) for column in range(min(columns, len(drawn)))]
    heights = [max(image.height for image in row) for row in rows]
    canvas = Canvas(sum(widths) + _GAP * (len(widths) + 1), sum(heights) + _GAP * (len(heights) + 1))
    for number, row in enumerate(rows):
        for column, image in enumerate(row):
            left, top = sum(widths[:column]) + _GAP * (column + 1), sum(heights[:number]) + _GAP * (number + 1)
            canvas.image.paste(image, (left, top))
    return canvas.pixels()
