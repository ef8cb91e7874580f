"""One image with its judged boxes, their labels, and a legend that counts them.

What became of the boxes of one image: right, wrong, missed or ignored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection import COCO_AREA_RANGES, Detections, GroundTruths, match_images
from reid_torchmetrics.functional.detection.inputs import to_xywh

from .canvas import BLUE, GRAY, GREEN, RED, WHITE, Box, Canvas, Color, Lettering, resized

OUTCOMES = ("ignored", "right", "missed", "wrong")
"""in the order in which they are drawn: errors are on top"""
_DETECTIONS = ("boxes", "scores", "labels")
_GROUND_TRUTHS = ("boxes", "labels")


class JudgedBox(NamedTuple):
    """A detection, or a ground truth that is missed or ignored."""

    outcome: str
    """one of `OUTCOMES`"""
    corners: tuple[float, float, float, float]
    """left, top, right and bottom edge; those of inverted boxes are put in order, and may be infinite or NaN"""
    label: int
    score: float | None
    """None for a ground truth"""


@dataclass(frozen=True)
class Judgment:
    """How boxes are judged."""

    min_score: float | Mapping[int, float]
    iou_threshold: float
    box_format: str
    class_agnostic: bool

    def __post_init__(self) -> None:
        """Check the options."""
        _checks.fraction("iou_threshold", self.iou_threshold)
        _checks.boolean("class_agnostic", self.class_agnostic)
        scores = self.min_score.values() if isinstance(self.min_score, Mapping) else [self.min_score]
        for score in scores:
            _checks.number("min_score", score)

    def judge(
        self, detections: Mapping[str, Any], ground_truths: Mapping[str, Any], which: str = ""
    ) -> list[JudgedBox]:
        """Match the boxes of one image as COCO does, in the order of `OUTCOMES`, without those that score too little.

        All detections take part in matching, also those beyond the limits of an evaluation. Errors name the arguments
        with `which` behind.
        """
        found, true = self._packed(detections, ground_truths, which)
        is_crowd = torch.zeros_like(true.labels, dtype=torch.bool) if true.is_crowd is None else true.is_crowd
        taken, is_right, is_ignored = self._matched(found, true)
        is_shown = self._score_enough(found)
        is_missed = ~is_crowd
        is_missed[taken[is_shown & is_right]] = False
        return [
            *_judged("ignored", true, is_crowd),
            *_judged("ignored", found, is_shown & is_ignored),
            *_judged("right", found, is_shown & is_right),
            *_judged("missed", true, is_missed),
            *_judged("wrong", found, is_shown & ~is_right & ~is_ignored),
        ]

    def _packed(
        self, detections: Mapping[str, Any], ground_truths: Mapping[str, Any], which: str
    ) -> tuple[Detections, GroundTruths]:
        found = _columns(f"detections{which}", detections, _DETECTIONS)
        true = _columns(f"ground_truths{which}", ground_truths, _GROUND_TRUTHS)
        crowds = ground_truths.get("iscrowd")
        boxes, true_boxes = (to_xywh(_floats(each["boxes"]), self.box_format) for each in (found, true))
        images = [torch.zeros(len(each), dtype=torch.int64, device="cpu") for each in (boxes, true_boxes)]
        return (
            Detections(boxes, _floats(found["scores"]), found["labels"], images[0]),
            GroundTruths(true_boxes, true["labels"], images[1], None if crowds is None else crowds.cpu().bool()),
        )

    def _matched(self, found: Detections, true: GroundTruths) -> tuple[Tensor, Tensor, Tensor]:
        """The ground truth that each detection took, and whether the detection is right or ignored."""
        labels = [torch.zeros_like(each.labels) if self.class_agnostic else each.labels for each in (found, true)]
        matches = match_images(
            Detections(found.boxes, found.scores, labels[0], found.images),
            GroundTruths(true.boxes, labels[1], true.images, true.is_crowd),
            iou_thresholds=(self.iou_threshold,),
            max_detections=(max(1, len(found.labels)),),
            area_ranges={"all": COCO_AREA_RANGES["all"]},
            keep_ground_truths=True,
        )
        rows = matches.rows[matches.columns]
        taken = torch.full((len(found.labels),), -1, device="cpu")
        is_right, is_ignored = (torch.zeros(len(found.labels), dtype=torch.bool, device="cpu") for _ in range(2))
        assert matches.ground_truths is not None  # noqa: S101 - they are kept
        taken[rows] = matches.ground_truths[0, 0].long()
        is_right[rows] = matches.true_positive[0, 0]
        is_ignored[matches.rows[matches.area_bits == 0]] = True  # such as a negative area
        is_ignored[rows] = matches.matched[0, 0] & ~matches.true_positive[0, 0]
        return taken, is_right, is_ignored

    def _score_enough(self, found: Detections) -> Tensor:
        labels = found.labels.tolist()
        if isinstance(self.min_score, Mapping):
            lacking = [label for label in labels if label not in self.min_score]
            if lacking:
                raise ValueError(f"`min_score` must have a score for each label; got none for {lacking[0]}.")
            least = [self.min_score[label] for label in labels]
        else:
            least = [self.min_score] * len(labels)
        # Rounded as in `at_confidence`: a float32 score of 0.7 reaches 0.7.
        return found.scores >= torch.tensor(least, dtype=torch.float64, device="cpu").to(found.scores.dtype)


def _judged(outcome: str, boxes: Detections | GroundTruths, chosen: Tensor) -> list[JudgedBox]:
    assert isinstance(boxes.boxes, Tensor)  # noqa: S101 - not other shapes
    near, size = boxes.boxes[chosen].double().split(2, 1)
    corners = torch.cat([near.minimum(near + size), near.maximum(near + size)], 1).tolist()
    labels = boxes.labels[chosen].tolist()
    scores = boxes.scores[chosen].tolist() if isinstance(boxes, Detections) else [None] * len(labels)
    return [
        JudgedBox(outcome, tuple(edges), label, score)
        for edges, label, score in zip(corners, labels, scores, strict=True)
    ]


def _columns(argument: str, given: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Tensor]:
    """The tensors of a dict on the CPU; those without entries have the shapes and dtypes of no boxes."""
    if not isinstance(given, Mapping):
        raise TypeError(f"`{argument}` must be a dict of tensors; got {type(given).__name__}.")
    columns = {}
    for key in keys:
        if not isinstance(given.get(key), Tensor):
            came = f"{type(given[key]).__name__}" if key in given else "none"
            raise TypeError(f"`{argument}` must have a tensor of {key}; got {came}.")
        columns[key] = given[key].detach().cpu()
    if not columns["boxes"].numel():
        columns["boxes"] = torch.zeros((0, 4), device="cpu")
    return {
        key: value if value.numel() or key == "boxes" else torch.zeros(0, dtype=torch.int64, device="cpu")
        for key, value in columns.items()
    }


def _floats(values: Tensor) -> Tensor:
    return values if values.is_floating_point() else values.double()


if TYPE_CHECKING:
    from PIL.Image import Image

_WIDEST = 2  # of an image, as width over the height that it may have
_LEAST_SIDE = 3  # pixels, so that every box is seen


class _Style(NamedTuple):
    """How boxes of an outcome are drawn."""

    color: Color
    mark: str | None = None
    is_dashed: bool = False
    is_always_counted: bool = True


_STYLES = {
    "right": _Style(GREEN, "check"),
    "wrong": _Style(RED, "cross"),
    "missed": _Style(BLUE, is_dashed=True),
    "ignored": _Style(GRAY, is_always_counted=False),
}
"""by outcome, in the order of the legend"""


class _Plate(NamedTuple):
    """What is written beside a box, and where."""

    style: _Style
    text: str
    box: Box


def draw_judged(
    image: Image,
    boxes: Sequence[JudgedBox],
    names: Mapping[int, str],
    height: int,
    title: str | None,
    *,
    is_name: bool = False,
) -> Image:
    """Draw boxes into an image that is scaled to a height, with a title above and a legend below.

    A title that is too wide loses its end or, if it is the image's name, its beginning.
    """
    fitted = resized(image, _WIDEST * height, height)
    small, large = Lettering(max(10, height // 36)), Lettering(max(12, height // 28))
    scaled = Canvas(fitted.width, fitted.height)
    scaled.paste(fitted, Box(0, 0, fitted.width, fitted.height))
    _draw_boxes(scaled, boxes, (fitted.width / image.width, fitted.height / image.height), names, small)
    legend = _legend_lines(boxes, small, fitted.width)
    gap = small.height // 2
    top = large.height + gap // 2 if title else 0
    width = max(fitted.width, *(_legend_width(line, small) for line in legend))
    canvas = Canvas(width, top + fitted.height + gap + len(legend) * (small.height + gap))
    if title:
        canvas.text((0, 0), large.cut(title, width, keeps_end=is_name), large)
    canvas.paste(scaled.image, Box(0, top, fitted.width, fitted.height))
    for number, line in enumerate(legend):
        _draw_legend(canvas, top + fitted.height + gap + number * (small.height + gap), line, small)
    return canvas.image


def _draw_boxes(
    canvas: Canvas,
    boxes: Sequence[JudgedBox],
    scale: tuple[float, float],
    names: Mapping[int, str],
    lettering: Lettering,
) -> None:
    boxes = [each for each in boxes if not any(map(math.isnan, each.corners))]  # which are nowhere, but are counted
    size = canvas.image.size
    thickness = max(2, round(size[1] / 110))
    in_pixels = [_in_pixels(each.corners, scale, size) for each in boxes]
    for judged, box in zip(boxes, in_pixels, strict=True):
        _outline(canvas, box, _STYLES[judged.outcome], thickness)
    # The last ones, which are errors, choose their places first and are written last, over the others.
    plates = _Plates(size, lettering)
    for judged, box in reversed([*zip(boxes, in_pixels, strict=True)]):
        plates.add(_STYLES[judged.outcome], _text(judged, names), box, below=judged.score is None)
    for plate in reversed(plates.placed):
        _draw_plate(canvas, plate, lettering)


def _in_pixels(corners: tuple[float, float, float, float], scale: tuple[float, float], size: tuple[int, int]) -> Box:
    """A box in the pixels of the scaled image, of which it does not go out."""
    left, right = _span(scale[0] * corners[0], scale[0] * corners[2], size[0])
    top, bottom = _span(scale[1] * corners[1], scale[1] * corners[3], size[1])
    return Box(left, top, right - left, bottom - top)


def _span(low: float, high: float, size: int) -> tuple[int, int]:
    """First pixel and the one behind the last; both ends may be infinite."""
    low, high = (min(max(end, 0), size) for end in (low, high))
    first = min(round(low), size - _LEAST_SIDE)
    return first, max(round(high), first + _LEAST_SIDE)


def _outline(canvas: Canvas, box: Box, style: _Style, thickness: int) -> None:
    thickness = min(thickness, min(box.width, box.height) // 2)
    if style.is_dashed:
        canvas.dashed_frame(box, style.color, thickness, dash=3 * thickness)
    else:  # seen on a ground of its own color, too
        canvas.frame(box.inside(-1), WHITE, thickness + 2)
        canvas.frame(box, style.color, thickness)


def _text(judged: JudgedBox, names: Mapping[int, str]) -> str:
    name = names.get(judged.label)
    if judged.score is not None:
        return f"{judged.label}: {judged.score:.2f}" if name is None else f"{name} {judged.score:.2f}"
    said = str(judged.label) if name is None else name
    return f"{said} (crowd)" if judged.outcome == "ignored" else said


class _Plates:
    """Plates in an image, each beside its box where there is room."""

    def __init__(self, size: tuple[int, int], lettering: Lettering) -> None:
        self.size = size
        self.lettering = lettering
        self.placed: list[_Plate] = []

    def add(self, style: _Style, text: str, box: Box, *, below: bool) -> None:
        """Put a plate at the first of its places where no other is, else at the first."""
        margin = _room_for_mark(style, self.lettering) + _padding(self.lettering)
        text = self.lettering.cut(text, self.size[0] - margin)
        width = min(self.lettering.width(text) + margin, self.size[0])
        places = [*self._places(box, width, below=below)]
        free = (place for place in places if not any(place.meets(other.box) for other in self.placed))
        self.placed.append(_Plate(style, text, next(free, places[0])))

    def _places(self, box: Box, width: int, *, below: bool) -> Iterator[Box]:
        """Outside of the box above and below, then inside, at its left edge and at its right one; all in the image."""
        height, last_left, last_top = self.lettering.height, self.size[0] - width, self.size[1] - self.lettering.height
        outside, inside = [box.top - height, box.top + box.height], [box.top, box.top + box.height - height]
        order = -1 if below else 1
        lefts = [min(max(left, 0), last_left) for left in (box.left, box.left + box.width - width)]
        for top in (*outside[::order], *inside[::order]):
            if 0 <= top <= last_top:
                yield from (Box(left, top, width, height) for left in lefts)
        yield Box(lefts[0], min(max(box.top, 0), last_top), width, height)


def _padding(lettering: Lettering) -> int:
    return lettering.height // 2


def _room_for_mark(style: _Style, lettering: Lettering) -> int:
    return 0 if style.mark is None else lettering.height


def _draw_plate(canvas: Canvas, plate: _Plate, lettering: Lettering) -> None:
    box, style = plate.box, plate.style
    canvas.fill(box, style.color)
    if style.mark is not None:
        canvas.mark((box.left + 1, box.top + 1), lettering.height - 2, style.mark, style.color)
    left = box.left + _room_for_mark(style, lettering) + _padding(lettering) // 2
    canvas.text((left, box.top), plate.text, lettering, WHITE)


def _legend_lines(boxes: Sequence[JudgedBox], lettering: Lettering, width: int) -> list[list[tuple[str, str]]]:
    """Outcomes with their counts, in as many lines as they need."""
    counts = Counter(judged.outcome for judged in boxes)
    lines: list[list[tuple[str, str]]] = [[]]
    for outcome, style in _STYLES.items():
        if style.is_always_counted or counts[outcome]:
            entry = (outcome, f"{counts[outcome]} {outcome}")
            if lines[-1] and _legend_width([*lines[-1], entry], lettering) > width:
                lines.append([])
            lines[-1].append(entry)
    return lines


def _legend_width(entries: Sequence[tuple[str, str]], lettering: Lettering) -> int:
    apart = lettering.height
    return sum(2 * apart + lettering.width(text) for _, text in entries) + apart * (len(entries) - 1)


def _draw_legend(canvas: Canvas, top: int, entries: Sequence[tuple[str, str]], lettering: Lettering) -> None:
    left, side = 0, lettering.height
    for outcome, text in entries:
        style = _STYLES[outcome]
        if style.mark is None:
            _outline(canvas, Box(left, top + 1, 3 * side // 2, side - 2), style, 2)
        else:
            canvas.mark((left + side // 4, top), side, style.mark, style.color)
        canvas.text((left + 2 * side, top), text, lettering)
        left += 3 * side + lettering.width(text)
