"""Images with boxes for the tests of `DetectionMAP`, and TorchMetrics' own metric as a peer."""

import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor
from torchmetrics.detection import mean_ap

FLOAT32_THRESHOLDS = {
    "iou_thresholds": torch.linspace(0.5, 0.95, 10).tolist(),
    "rec_thresholds": torch.linspace(0, 1, 101).tolist(),
}
"""the defaults of TorchMetrics"""

Dicts = list[dict[str, Tensor]]


def box(*corners: float) -> Tensor:
    """One box, [1, 4]."""
    return torch.tensor([corners], dtype=torch.float32)


def changed(items: Dicts, key: str, change: Callable[[Tensor], Tensor]) -> Dicts:
    """Images with another value of a key."""
    return [item | {key: change(item[key])} for item in items]


def with_lists(target: Dicts) -> Dicts:
    """Images with a class that is known to be absent, as LVIS lists it."""
    return [item | {"neg_category_ids": [4]} for item in target]


def images(
    seed: int, num_images: int = 12, *, num_classes: int = 4, num_levels: int = 12, with_ids: bool = False
) -> tuple[Dicts, Dicts]:
    """Random images: equal scores, crowds, areas of all ranges, images and classes without anything.

    Detections are ground truths that were moved by whole pixels, so overlaps are often equal, and boxes at random.
    """
    generator = torch.Generator().manual_seed(seed)

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=generator)

    preds, target = [], []
    for image in range(num_images):
        num_true, num_found = int(whole(7, 1)) * (seed + image) % 5, int(whole(9, 1))
        sizes = whole(3, num_true, 1) * 40 + 4 + whole(24, num_true, 2)
        corners = whole(60, num_true, 2)
        true = torch.cat([corners, corners + sizes], 1).float()
        labels = whole(num_classes, num_true)
        extra = torch.cat([whole(60, num_found, 2), 60 + whole(60, num_found, 2)], 1).float()
        moved = true + whole(5, num_true, 4) - 2
        preds.append(
            {
                "boxes": torch.cat([moved, extra]),
                "scores": (1 + whole(num_levels, num_true + num_found)).float() / (num_levels + 1),
                "labels": torch.cat([labels, whole(num_classes + 1, num_found)]),
            }
        )
        target.append({"boxes": true, "labels": labels})
        if image % 3 == 1:
            target[-1]["iscrowd"] = whole(3, num_true) // 2
        if image % 2:
            target[-1]["area"] = sizes.prod(1) * whole(4, num_true).float() / 3  # 0 stands for width times height
        if with_ids:
            target[-1]["image_id"] = 1000 - 7 * image
    return preds, target


def fed(metric, preds: Dicts, target: Dicts, size: int = 5):
    """The metric, after some batches."""
    for first in range(0, len(preds), size):
        metric.update(preds[first : first + size], target[first : first + size])
    return metric


def is_same(first: object, second: object) -> bool:
    """Whether two values are equal, in shape and dtype, too; without entries, lists of TorchMetrics are tensors."""
    if isinstance(first, Mapping):
        return list(first) == list(second) and all(is_same(first[name], second[name]) for name in first)
    second = torch.as_tensor(second)
    if not second.numel() and second.ndim == 1:
        return not first.numel()
    return first.dtype == second.dtype and torch.equal(first, second)


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """What TorchMetrics needs of `torchvision.ops`, which is not installed: boxes as corner, width and height."""
    assert out_fmt == "xywh"
    if in_fmt == "cxcywh":
        center, size = boxes[:, :2], boxes[:, 2:]
        boxes = torch.cat([center - 0.5 * size, center + 0.5 * size], 1)
    if in_fmt != "xywh":
        boxes = torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)
    return boxes


@contextmanager
def torchmetrics_peer() -> Iterator[Callable[..., mean_ap.MeanAveragePrecision]]:
    """TorchMetrics' class, with a module in the place of torchvision that has but the function above."""
    torchvision, ops = types.ModuleType("torchvision"), types.ModuleType("torchvision.ops")
    torchvision.ops, ops.box_convert = ops, box_convert
    with (
        mock.patch.dict(sys.modules, {"torchvision": torchvision, "torchvision.ops": ops}),
        mock.patch.object(mean_ap, "_TORCHVISION_AVAILABLE", True),
    ):
        yield mean_ap.MeanAveragePrecision


def named(target: Dicts, names: Sequence[str]) -> Dicts:
    """The images with names in the place of ids, in ascending order of the ids."""
    places = {number: place for place, number in enumerate(sorted({item["image_id"] for item in target}))}
    ordered = sorted(names)
    return [item | {"image_id": ordered[places[item["image_id"]]]} for item in target]


def batch(change: dict[str, object]) -> tuple[list[dict], list[dict]]:
    """Three images with one detection and one ground truth each; the last with some changes."""
    preds = [{"boxes": box(1, 1, 5, 5), "scores": torch.ones(1), "labels": torch.tensor([2])} for _ in range(3)]
    target = [{"boxes": box(1, 1, 5, 5), "labels": torch.tensor([2])} for _ in range(3)]
    for key, value in change.items():
        side, name = key.split(".")
        item = (preds if side == "preds" else target)[2]
        item[name] = value
        if value is None:
            del item[name]
    return preds, target
