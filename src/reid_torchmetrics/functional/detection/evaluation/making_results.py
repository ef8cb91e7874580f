"""Results are made of the matches of the images of all processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .image_matches import ImageMatches
from .results import DetectionResults
from .sharded_images import ShardedImages


def make_results(
    sharded: ShardedImages,
    images: ImageMatches,
    rule: str,
    class_names: Mapping[int, str],
    *,
    confidence: float | None = None,
    boxes: bool = False,
) -> DetectionResults:
    """The results of the images of all processes, and with `boxes` also all boxes."""
    numbering = images.numbering
    assert numbering is not None  # noqa: S101 - origins were requested
    assert images.labels_of_rows is not None  # noqa: S101
    assert images.positives is not None  # noqa: S101
    options: dict[str, Any] = dict(images.request.options)
    options |= {"confidence": confidence} if images.request.evaluator.reports_confidence else {}
    # Numbers of images become ids on the device of the matches.
    ids = numbering.ids_by_number.to(images.labels_of_rows.device)
    return DetectionResults(
        averages=images.averages(rule, confidence=confidence),
        matches=images.matches[0],
        images=ids,
        labels=images.labels_of_rows,
        positives=images.positives,
        class_names=class_names,
        objects=images.objects,
        boxes=sharded.boxes_of()[0] if boxes else None,
        image_names=numbering.names,
        evaluator=replace(images.request.evaluator, **options),
    )
