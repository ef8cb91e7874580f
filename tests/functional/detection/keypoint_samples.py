"""Images with keypoints for the tests of `DetectionMAP`, and the same as COCO's rows."""

from random import Random
from typing import Any

import torch

Dicts = list[dict[str, Any]]

SIGMAS = (0.05, 0.1, 0.2)
BOUNDS = (1024.0, 9216.0)
"""of COCO's area ranges"""


def keypoint_images(seed: int, num_images: int, num_classes: int = 2) -> tuple[Dicts, Dicts]:
    """Random images: equal scores, objects without a labeled keypoint, crowds, detections that are moved objects."""
    random, num_points = Random(seed), len(SIGMAS)  # noqa: S311
    preds, target = [], []
    for image in range(num_images):
        num_true, num_more = random.randint(0, 4), random.randint(0, 3)

        def points(num):
            return torch.tensor([[random.uniform(0, 90) for _ in range(3)] for _ in range(num * num_points)]).double()

        true = points(num_true).view(num_true, num_points, 3)
        true[:, :, 2] = torch.tensor([[random.randint(0, 2) for _ in range(num_points)] for _ in range(num_true)]).view(
            num_true, num_points
        )
        if num_true and random.random() < 0.4:
            true[0] = 0
        found = torch.cat([true + random.uniform(-4, 4), points(num_more).view(num_more, num_points, 3)])
        corners = (
            torch.tensor([[random.uniform(0, 40) for _ in range(4)] for _ in range(num_true)]).double().view(-1, 4)
        )
        corners[:, 2:] += 100  # no area exceeds its box
        preds.append(
            {
                "keypoints": found,
                "scores": torch.tensor([random.randint(1, 9) / 9 for _ in found], dtype=torch.float64),
                "labels": torch.tensor([random.randrange(num_classes) for _ in found], dtype=torch.int64),
            }
        )
        target.append(
            {
                "keypoints": true,
                "boxes": corners,
                "area": torch.tensor(
                    [random.choice((*BOUNDS, random.uniform(100, 9900))) for _ in true], dtype=torch.float64
                ),
                "iscrowd": torch.tensor([int(random.random() < 0.1) for _ in true], dtype=torch.int64),
                "labels": torch.tensor([random.randrange(num_classes) for _ in true], dtype=torch.int64),
                "image_id": image,
            }
        )
    return preds, target


def coco_rows(preds: Dicts, target: Dicts) -> tuple[Dicts, Dicts, Dicts]:
    """Results, annotations and images."""
    results: Dicts = []
    annotations: Dicts = []
    for found, true in zip(preds, target, strict=True):
        for points, score, label in zip(
            *(found[key].tolist() for key in ("keypoints", "scores", "labels")), strict=True
        ):
            row = {"image_id": true["image_id"], "category_id": label, "score": score}
            results.append(row | {"keypoints": sum(points, [])})
        keys = ("keypoints", "boxes", "area", "iscrowd", "labels")
        for points, box, area, crowd, label in zip(*(true[key].tolist() for key in keys), strict=True):
            row = {"image_id": true["image_id"], "category_id": label, "iscrowd": crowd, "area": area, "bbox": box}
            count = sum(visibility > 0 for _, _, visibility in points)
            annotations.append(row | {"keypoints": sum(points, []), "num_keypoints": count})
    return results, annotations, [{"id": true["image_id"]} for true in target]
