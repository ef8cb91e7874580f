"""The labels of queries, positives and blocks of a gallery that comes as a stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from torch import Tensor

from reid_torchmetrics import _arrays
from reid_torchmetrics.functional.retrieval.relevance import LABELS, SIDES, Integers

STREAM_LABELS = tuple(name for name, label in LABELS.items() if label.decides and label.sides == SIDES)


class StreamLabels(TypedDict, total=False):
    """Labels of a block besides identities and cameras."""

    sequences: Integers | None
    clothes: Integers | None
    positions: Tensor | _arrays.Numbers | None


class StreamOptions(TypedDict, total=False):
    """Further labels of queries and positives, and the options of `find_relevance` that a stream can follow."""

    query_sequences: Integers | None
    positive_sequences: Integers | None
    query_clothes: Integers | None
    positive_clothes: Integers | None
    query_positions: Tensor | _arrays.Numbers | None
    positive_positions: Tensor | _arrays.Numbers | None
    same_camera: str
    camera_map: Mapping[int, int] | None
    search_cameras: Collection[int] | None
    junk_identities: Collection[int]
    clothes: str
    radius: float | None
    self_index: Integers | None


def labels_of(prefix: str, given: Mapping[str, Any], embeddings: Tensor) -> dict[str, Tensor]:
    """The labels that are given, in the dtypes of the table."""
    named = {name: given.get(f"{prefix}{name}") for name in STREAM_LABELS}
    shape = len(embeddings), embeddings.device
    checked = {
        name: LABELS[name].check(f"{prefix}{name}", value, *shape) for name, value in named.items() if value is not None
    }
    return {name: value.to(LABELS[name].dtype) for name, value in checked.items()}
