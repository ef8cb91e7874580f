"""Local matches as a list of tensors to be sent, and back: no more bytes than the other ranks need.

Detections are in the order of their classes, so the numbers of detections of the classes stand for the class of each.
Their rows are sent only with their origins; where they are not, nothing reads them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.metrics.detection.iou_matrices import Overlaps
from reid_torchmetrics.metrics.detection.local_matches import LocalMatches, MatchRequest

_BITS = 8
_MATCH_COLUMNS = 9


def to_columns(local: LocalMatches) -> list[Tensor]:
    """The tensors of a rank's matches."""
    columns = [local.labels]
    for matches in local.matches:
        columns += _of_matches(matches)
    for overlaps in local.overlaps:
        columns += [overlaps.groups, overlaps.values]
    return columns if local.labels_of_rows is None else [*columns, local.labels_of_rows]


def from_columns(columns: list[Tensor], request: MatchRequest) -> LocalMatches:
    """The matches of a rank, given what `to_columns` made of them."""
    left = iter(columns)
    return LocalMatches(
        labels=next(left),
        matches=tuple(_matches(left, request) for _ in request.micro),
        overlaps=(Overlaps(next(left), next(left)),) if request.with_overlaps else (),
        labels_of_rows=next(left) if request.with_origins else None,
    )


def _of_matches(matches: Matches) -> list[Tensor]:
    columns = [
        matches.classes,
        matches.num_positives,
        matches.class_index.bincount(minlength=len(matches.classes)),
        matches.scores,
        matches.images,
        matches.limits,
        matches.area_bits,
        matches.columns,
        _to_bits(torch.stack([matches.matched, matches.true_positive])),
    ]
    return columns if matches.ground_truths is None else [*columns, matches.rows, matches.ground_truths]


def _matches(left: Iterator[Tensor], request: MatchRequest) -> Matches:
    classes, num_positives, counts, scores, images, limits, area_bits, columns, bits = (
        next(left) for _ in range(_MATCH_COLUMNS)
    )
    shape = (2, len(request.grid.area_ranges), len(request.grid.iou_thresholds), len(columns))
    matched, true_positive = _from_bits(bits, shape)
    numbers = torch.arange(len(classes), dtype=torch.int32, device=classes.device)
    return Matches(
        classes=classes,
        num_positives=num_positives,
        scores=scores,
        class_index=numbers.repeat_interleave(counts, output_size=len(scores)),
        images=images,
        rows=next(left) if request.with_origins else images,
        limits=limits,
        area_bits=area_bits,
        columns=columns,
        matched=matched,
        true_positive=true_positive,
        ground_truths=next(left) if request.with_origins else None,
    )


def _to_bits(flags: Tensor) -> Tensor:
    """Eight flags in a byte, uint8."""
    padded = functional.pad(flags.reshape(-1), (0, -flags.numel() % _BITS)).view(-1, _BITS)
    return (padded.to(torch.uint8) << _places(flags.device)).sum(1, dtype=torch.uint8)


def _from_bits(data: Tensor, shape: tuple[int, ...]) -> Tensor:
    flags = (data[:, None] >> _places(data.device)) & 1
    return flags.view(-1)[: torch.Size(shape).numel()].view(shape).bool()


def _places(device: torch.device) -> Tensor:
    return torch.arange(_BITS, dtype=torch.uint8, device=device)
