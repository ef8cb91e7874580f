"""Person search as a loop over queries, images and boxes."""

from collections.abc import Sequence
from typing import NamedTuple

Box = tuple[float, float, float, float]


class Image(NamedTuple):
    """A gallery image: its detected boxes with their similarity to the query, and the true box of the person."""

    boxes: Sequence[tuple[Box, float]]
    person: Box | None


def area(box: Box) -> float:
    """Return width times height, 0 for an empty box."""
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def overlap(one: Box, other: Box) -> float:
    """Return intersection over union."""
    inside = area((max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])))
    return inside / (area(one) + area(other) - inside)


def average_precision(images: Sequence[Image]) -> float:
    """Return average precision times the share of images with a right box; equal similarities count against it."""
    ranked: list[tuple[float, bool]] = []
    for image in images:
        right = None
        if image.person is not None:
            width, height = image.person[2] - image.person[0], image.person[3] - image.person[1]
            least = min(0.5, width * height / ((width + 10) * (height + 10)))
            fitting = [
                (score, -place) for place, (box, score) in enumerate(image.boxes) if overlap(box, image.person) >= least
            ]
            right = -max(fitting)[1] if fitting else None
        ranked += [(score, place == right) for place, (_, score) in enumerate(image.boxes)]
    ranked.sort(key=lambda pair: (-pair[0], pair[1]))
    found, total = 0, 0.0
    for rank, (_, is_right) in enumerate(ranked, 1):
        found += is_right
        total += is_right * found / rank
    return total / sum(image.person is not None for image in images)
