"""Images of classes of which it is told what was found, and what a matching found."""

from typing import Any

import torch

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid

Found = tuple[list[tuple[float, bool]], int]
"""scores of right and wrong detections of a class, and how many ground truths it has, the first ones found"""


def images_of(*classes: Found) -> tuple[Detections, GroundTruths]:
    """One image with the classes 0, 1, ..."""
    boxes, truths = [], []
    for label, (found, num_positives) in enumerate(classes):
        places = [100.0 * place for place in range(num_positives)]
        truths += [(place, 0.0, 40.0, 40.0, label) for place in places]
        right = iter(places)
        boxes += [
            (next(right) if hit else 0.0, 0.0 if hit else 500.0, 40.0, 40.0, label, score) for score, hit in found
        ]
    rows, owners = torch.tensor(boxes, dtype=torch.float64).view(-1, 6), torch.tensor(truths).view(-1, 5).double()
    labels, true_labels = rows[:, 4].long(), owners[:, 4].long()
    return (
        Detections(rows[:, :4], rows[:, 5], labels, torch.zeros_like(labels)),
        GroundTruths(owners[:, :4], true_labels, torch.zeros_like(true_labels)),
    )


def match_images(detections: Detections, ground_truths: GroundTruths, **options: Any) -> Matches:
    """COCO's matching with options of its grid, such as `iou_thresholds`, and of `match_on_grid`."""
    of_grid = {name: options.pop(name) for name in [*options] if name in vars(CocoGrid())}
    return match_on_grid(detections, ground_truths, CocoGrid(**of_grid), **options)


def true_positives(matches: Matches) -> torch.Tensor:
    """Whether each detection is right at each threshold, by row, in the first area range, [detections, thresholds]."""
    is_right = matches.outcomes()[0].T
    by_row = torch.empty_like(is_right)
    by_row[matches.rows] = is_right
    return by_row
