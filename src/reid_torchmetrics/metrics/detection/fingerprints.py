"""What tells images apart: by their ground truths a number of 64 bits, by their detections whether they are others."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.fingerprints import mixed

_COLUMNS = tuple(f"ground_truth_{name}" for name in ("boxes", "areas", "labels", "crowds", "counts"))


@torch.no_grad()
def fingerprints(states: Mapping[str, list[Tensor]], device: torch.device) -> Tensor:
    """A number for each image that a metric holds, int64, and 0 where an image has no ground truths.

    Boxes and areas are looked at as they were given: what is computed from them depends on the dtype of their batch.
    Detections are not: the same network gives slightly others in another batch or on another device.
    """
    joined = [[block.to(device) for block in states[name]] for name in _COLUMNS]
    if not joined[0]:
        return torch.empty(0, dtype=torch.int64, device=device)
    boxes, areas, labels, crowds, counts = map(torch.cat, joined)
    of_box = labels.long() * 2 + crowds
    for column in (*boxes.double().unbind(1), areas.double().clamp(min=0)):  # 0 or less stands for width times height
        of_box = mixed(of_box, (column + 0.0).view(torch.int64))  # -0.0 is 0.0
    image = segments.numbers(counts, len(of_box))
    return torch.zeros_like(counts).index_add_(0, image, of_box)  # modulo 2^64, so in any order


def changed_repetitions(ids: Tensor, prints: Tensor) -> Tensor:
    """The ids that images with different ground truths share, ascending."""
    ordered, order = ids.sort(stable=True)
    prints = prints[order]
    is_changed = (ordered[1:] == ordered[:-1]) & (prints[1:] != prints[:-1])
    changed: Tensor = ordered[1:][is_changed].unique()
    return changed


_CLOSE = 0.1  # of the sums: rounding takes or leaves a weak detection


def num_with_other_detections(ids: Tensor, counts: Tensor, scores: Tensor, boxes: Tensor) -> int:
    """How many images that came again, with the same id, have other detections; 0 if most of those have the same.

    Others are those whose scores or boxes have another sum: a detection may be lost by rounding.
    """
    columns = torch.stack([scores.double(), boxes.double().abs().sum(1)], dim=1)
    sums = segments.reduce(columns, "sum", lengths=counts)
    ordered, order = ids.sort(stable=True)
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    again, first = sums[order][~is_first], sums[order[is_first]][is_first.cumsum(0) - 1][~is_first]
    num_others = int(((again - first).abs() > _CLOSE * first).any(1).sum())
    return num_others if 2 * num_others > len(again) else 0
