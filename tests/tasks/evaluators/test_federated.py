"""LVIS' matching by hand: which detections are right, wrong or ignored."""

import math

import torch

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.tasks.evaluators import match_federated

INF = math.inf
OF_IMAGE = {"limited": "image"}


def verdicts(found, true, *, lists=(), ignored=None, most=300, **options) -> str:
    """Of each detection (image, label, x, width) in turn, the best first: whether it is right, wrong, ignored or gone.

    Ground truths are (image, label, x, width); all boxes begin at 0 and are 10 high.
    """
    grid = CocoGrid((0.5,), (0.0,), (most,), {"all": (0.0, 1e10)}, **options)
    images, labels = (torch.tensor([row[place] for row in found], dtype=torch.int64) for place in (0, 1))
    boxes = torch.tensor([[row[2], 0.0, row[3], 10.0] for row in found]).view(-1, 4)
    detections = Detections(boxes, torch.linspace(1, 0.1, len(found)), labels, images)
    images, labels = (torch.tensor([row[place] for row in true], dtype=torch.int64) for place in (0, 1))
    boxes = torch.tensor([[row[2], 0.0, row[3], 10.0] for row in true]).view(-1, 4)
    crowds = None if ignored is None else torch.tensor(ignored)
    matches = match_federated(
        detections,
        GroundTruths(boxes, labels, images, crowds),
        grid,
        lists=torch.tensor(lists, dtype=torch.int64).view(-1, 3) if lists else None,
    )
    is_right, is_ignored = (each[0] for each in matches.outcomes())
    said = ["-"] * len(found)
    for row, right, out in zip(matches.rows.tolist(), is_right.tolist(), is_ignored.tolist(), strict=True):
        said[row] = "R" if right else "i" if out else "w"
    return "".join(said)


TRUE = [(0, 1, 0, 10), (1, 2, 0, 10)]
FOUND = [(0, 1, 50, 10), (0, 1, 0, 10), (0, 2, 50, 10), (0, 3, 50, 10), (1, 1, 50, 10), (1, 2, 50, 10)]


def test_a_class_counts_where_an_image_has_or_surely_lacks_it():
    assert verdicts(FOUND, TRUE) == "wRiiiw"
    assert verdicts(FOUND, TRUE, lists=[(0, 3, 0), (1, 1, 0)]) == "wRiwww"
    assert verdicts(FOUND, TRUE, lists=[(0, 1, 1), (1, 3, 0)]) == "iRiiiw"
    assert verdicts(FOUND, []) == "iiiiii"


def test_a_box_without_area_or_end_is_neither_right_nor_wrong():
    found = [(0, 1, 50, 0), (0, 1, 50, INF), (0, 1, 50, 1), (0, 1, 0, 10)]
    assert verdicts(found, TRUE) == "iiwR"
    assert verdicts([(0, 4, 0, 10)], [(0, 4, 0, 0)]) == "i"  # the image does not have the class


def test_an_ignored_object_takes_one_detection():
    found = [(0, 1, 50, 10), (0, 1, 50, 10), (0, 1, 0, 10)]
    assert verdicts(found, [(0, 1, 0, 10), (0, 1, 50, 10)], ignored=[False, True]) == "iwR"


def test_the_best_of_an_image_are_those_over_all_classes():
    assert verdicts(FOUND, TRUE, most=2, **OF_IMAGE) == "wR---w"
    assert verdicts(FOUND, TRUE, most=1, **OF_IMAGE) == "w-----"
    assert verdicts(FOUND, TRUE, most=1) == "w-iiiw"
