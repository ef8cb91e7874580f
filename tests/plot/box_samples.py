"""The boxes of one image: one that is found, one that is missed, a crowd, and what a detector says."""

import torch

from reid_torchmetrics.plot.judged_boxes import JudgedBox, Judgment

SIDE = 220  # also the height of pictures, which are not scaled then: lines are 2 pixels thick
PICTURE = torch.full((3, SIDE, SIDE), 90, dtype=torch.uint8)

RIGHT, WRONG, MISSED, CROWD, IN_CROWD = (
    [20.0, 20.0, 100.0, 70.0],
    [120.0, 20.0, 200.0, 70.0],
    [20.0, 110.0, 100.0, 160.0],
    [120.0, 110.0, 200.0, 160.0],
    [130.0, 120.0, 180.0, 150.0],
)


def detections(**given) -> dict[str, torch.Tensor]:
    boxes = torch.tensor([RIGHT, WRONG, IN_CROWD])
    return {"boxes": boxes, "scores": torch.tensor([0.9, 0.6, 0.75]), "labels": torch.tensor([1, 1, 2])} | given


def ground_truths(**given) -> dict[str, torch.Tensor]:
    crowds = torch.tensor([0, 0, 1])
    return {"boxes": torch.tensor([RIGHT, MISSED, CROWD]), "labels": torch.tensor([1, 2, 2]), "iscrowd": crowds} | given


def nothing(**given) -> dict[str, torch.Tensor]:
    return {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64), "scores": torch.zeros(0)} | given


def judge(
    found=None, true=None, *, min_score=0.0, iou_threshold=0.5, box_format="xyxy", average="macro"
) -> list[JudgedBox]:
    judgment = Judgment(min_score, iou_threshold, box_format, average)
    return judgment.judge(detections() if found is None else found, ground_truths() if true is None else true)
