"""Small results with numbers that a reader can check, of which the tests write reports."""

from dataclasses import replace

import numpy as np
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection import DetectionResults, Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.retrieval import RankLists, RetrievalResults, evaluate_scores

SCORES = torch.tensor(
    [
        [0.9, 0.7, 0.8, 0.1],  # of identity 1, right at ranks 1 and 3: average precision (1 + 2/3) / 2 = 5/6
        [0.9, 0.4, 0.5, 0.3],  # of identity 2, right at ranks 2 and 4: (1/2 + 2/4) / 2 = 1/2
        [0.2, 0.4, 0.3, 0.1],  # of identity 3, which the gallery lacks
    ]
)
QUERY_IDENTITIES, QUERY_CAMERAS = torch.tensor([1, 2, 3]), torch.tensor([0, 0, 5])
GALLERY_IDENTITIES, GALLERY_CAMERAS = torch.tensor([1, 1, 2, 2]), torch.tensor([1, 2, 1, 2])
LABELS = QUERY_IDENTITIES, GALLERY_IDENTITIES, QUERY_CAMERAS, GALLERY_CAMERAS


def retrieval(**options: object) -> RetrievalResults:
    """Mean average precision (5/6 + 1/2) / 2 = 2/3; the CMC at rank 1 is 1/2, as one of two is right."""
    options = {"protocol": "market1501", "reports": ("map", "rank_1")} | options
    return evaluate_scores(SCORES, *LABELS, **options)


def of_metric(**fields: object) -> RetrievalResults:
    """The same as a metric gives them: without what was evaluated."""
    return replace(retrieval(), problem=None, **fields)


def rank_lists() -> RankLists:
    """The lists of `retrieval`, three candidates of each query."""
    index = torch.tensor([[0, 2, 1], [0, 2, 1], [1, 2, 0]])
    return RankLists(
        query=torch.arange(3),
        query_index=torch.arange(3),
        query_identities=QUERY_IDENTITIES,
        query_cameras=QUERY_CAMERAS,
        index=index,
        identities=GALLERY_IDENTITIES[index],
        cameras=GALLERY_CAMERAS[index],
        scores=SCORES.gather(1, index),
        is_positive=QUERY_IDENTITIES[:, None] == GALLERY_IDENTITIES[index],
        first_positive_rank=torch.tensor([1, 2, 0]),
        first_positive_index=torch.tensor([0, 2, -1]),
        first_positive_score=torch.tensor([0.9, 0.5, torch.nan]),
        first_positive_camera=torch.tensor([1, 1, -1]),
    )


def picture(number: int) -> np.ndarray:
    """A picture of 16 x 8 pixels that tells its number."""
    return np.full((16, 8, 3), 10 * number, dtype=np.uint8)


BOX = (10.0, 10.0, 50.0, 50.0)
"""medium-sized, as 32 x 32 <= 40 x 40 <= 96 x 96"""
ELSEWHERE = (200.0, 200.0, 240.0, 240.0)

DETECTIONS = [
    {"boxes": torch.tensor([box]), "scores": torch.tensor([score]), "labels": torch.tensor([label])}
    for label, box, score in ((3, BOX, 0.9), (3, ELSEWHERE, 0.5), (7, BOX, 0.9))
]
GROUND_TRUTHS = [{"boxes": torch.tensor([BOX]), "labels": torch.tensor([label])} for label in (3, 3, 7)]


def detection() -> DetectionResults:
    """Class 3 is found in one of two images: average precision 51/101, as of 101 recalls 51 are at most 1/2.

    Class 7 is always found: 1. In the second image there is a box where nothing is.
    """
    metric = DetectionMAP()
    metric.update(DETECTIONS, GROUND_TRUTHS)
    return metric.results()


def with_confusion() -> DetectionResults:
    """The same with the overlaps of boxes of different classes."""
    metric = DetectionMAP()
    metric.update(DETECTIONS, GROUND_TRUTHS)
    return metric.results(across_classes=True)


def coco() -> DetectionResults:
    """The same by the function."""
    found = torch.tensor([[10.0, 10, 40, 40], [200.0, 200, 40, 40], [10.0, 10, 40, 40]])
    labels, images = torch.tensor([3, 3, 7]), torch.arange(3)
    truths = torch.tensor([[10.0, 10, 40, 40]]).repeat(3, 1)
    return evaluate_boxes(
        Detections(found, torch.tensor([0.9, 0.5, 0.9]), labels, images), GroundTruths(truths, labels, images)
    )
