"""What a report says of single images: those with the most errors of a detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from reid_torchmetrics.functional.detection import ImageErrors
from reid_torchmetrics.metrics.detection import DetectionResults
from reid_torchmetrics.plot import Pictures, draw_boxes, picture_at
from reid_torchmetrics.report.detection_sections import COUNTED, HOW_MATCHED, Detected, is_micro, nearest_to_half
from reid_torchmetrics.report.elements import Html, details, element, note, table
from reid_torchmetrics.report.figures import picture
from reid_torchmetrics.report.page import Section, picture_or_why

_NUM_OPEN = 4
_HEIGHT = 320


class Indexed(Protocol):
    """A sequence or a mapping of dicts."""

    def __getitem__(self, number: Any, /) -> Mapping[str, Any]:
        """The boxes of the image with a number or a name."""


Boxes: TypeAlias = Callable[[Any], Mapping[str, Any]] | Indexed
"""what gives the boxes of the image with a number or a name: a function, or what is indexed by it"""


@dataclass(frozen=True)
class ImagePictures:
    """What is drawn of images."""

    pictures: Pictures
    detections: Boxes
    ground_truths: Boxes
    box_format: str
    names: Mapping[int, str]
    """of classes"""

    def draw(self, image: int | str, results: DetectionResults) -> Html:
        """An image with its boxes, judged as the numbers of the section are."""
        threshold = nearest_to_half(results)
        drawn = draw_boxes(
            picture_at("pictures", self.pictures, image),
            _boxes_at(self.detections, image),
            _boxes_at(self.ground_truths, image),
            names=self.names,
            min_score=results.best_confidences(iou_threshold=threshold),
            iou_threshold=threshold,
            box_format=self.box_format,
            class_agnostic=is_micro(results),
            height=_HEIGHT,
        )
        return picture(drawn, f"image {image} with its boxes")


def _boxes_at(boxes: Boxes, image: int | str) -> Mapping[str, Any]:
    return boxes(image) if callable(boxes) else boxes[image]


def worst_images_section(results: Detected, num_worst: int, pictures: ImagePictures | None) -> Section:
    """The images with the most errors."""
    return Section("images", "Images with the most errors", _worst_images(results, num_worst, pictures))


def _worst_images(results: Detected, num_worst: int, pictures: ImagePictures | None) -> list[Html]:
    if not isinstance(results, DetectionResults):
        return [note(f"Not shown: {HOW_MATCHED}.")]
    threshold = nearest_to_half(results)
    worst = results.worst_images(num_worst, iou_threshold=threshold)
    said = f"Detections count at IoU {threshold:g}, {COUNTED}."
    if not len(worst):
        return [note(f"None: {_why_none(results)}"), note(said)]
    shown = [note(said), _errors_table(worst)]
    return shown if pictures is None else [*shown, *_drawn(results, worst, pictures)]


def _why_none(results: DetectionResults) -> str:
    """How it came about that no image has an error."""
    if not len(results.images):
        return "there are no images."
    if not int(results.num_positives.sum()):
        return "there are neither ground truths nor detections that count."
    return "every ground truth is found, and nothing else."


def _errors_table(worst: ImageErrors) -> Html:
    counts = worst.num_true_positives, worst.num_false_positives, worst.num_misses
    columns = worst.image_ids, *(values.tolist() for values in counts)
    rows = zip(*([str(each) for each in column] for column in columns), strict=True)
    return table("Boxes of each image", ("image", "right", "wrong", "missed"), rows)


def _drawn(results: DetectionResults, worst: ImageErrors, pictures: ImagePictures) -> list[Html]:
    items = [
        element("li", element("p", f"image {image}"), picture_or_why(partial(pictures.draw, image, results)))
        for image in worst.image_ids
    ]
    first, others = items[:_NUM_OPEN], items[_NUM_OPEN:]
    shown = [element("ul", *first, class_="lists")]
    return [*shown, details(f"{len(others)} more", element("ul", *others, class_="lists"))] if others else shown
