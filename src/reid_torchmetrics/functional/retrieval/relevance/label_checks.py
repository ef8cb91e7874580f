"""Checks of labels, and of lists of gallery positions, of which relevance is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from reid_torchmetrics import _checks


def check_labels(
    query_identities: Tensor,
    gallery_identities: Tensor,
    query_cameras: Tensor | None,
    gallery_cameras: Tensor | None,
    self_index: Tensor | None,
) -> None:
    """Raise unless the labels of both sides fit each other, and every query's own item has the query's labels."""
    _checks.integer_labels("query_identities", query_identities)
    _checks.integer_labels("gallery_identities", gallery_identities)
    num_queries, num_gallery, device = len(query_identities), len(gallery_identities), gallery_identities.device
    _checks.same_device("query_identities", query_identities, "gallery_identities", gallery_identities)
    check_pair("cameras", query_cameras, gallery_cameras, query_identities, gallery_identities)
    if self_index is not None:
        _checks.integer_labels("self_index", self_index, num_queries, device)
        _checks.in_range("self_index", self_index, -1, num_gallery)
        _check_own(query_identities, gallery_identities, self_index)
    if self_index is not None and query_cameras is not None and gallery_cameras is not None:
        _check_own(query_cameras, gallery_cameras, self_index)


def check_pair(
    what: str,
    query_labels: Tensor | None,
    gallery_labels: Tensor | None,
    query_identities: Tensor,
    gallery_identities: Tensor,
) -> None:
    """Raise unless optional labels are given for both sides, or for none, and are as long as the identities."""
    if (query_labels is None) != (gallery_labels is None):
        given, missing = ("gallery", "query") if query_labels is None else ("query", "gallery")
        raise ValueError(
            f"`query_{what}` and `gallery_{what}` must be given together; got `{given}_{what}` without"
            f" `{missing}_{what}`."
        )
    device = gallery_identities.device
    if query_labels is not None and gallery_labels is not None:
        _checks.integer_labels(f"query_{what}", query_labels, len(query_identities), device)
        _checks.integer_labels(f"gallery_{what}", gallery_labels, len(gallery_identities), device)


def _check_own(query_labels: Tensor, gallery_labels: Tensor, self_index: Tensor) -> None:
    """Raise if a query's own item has another label than the query."""
    inside = self_index >= 0
    queries, items = query_labels[inside], gallery_labels[self_index[inside].long()]
    if bool((queries != items).any()):
        wrong = int(inside.nonzero()[(queries != items).nonzero()[0, 0], 0])
        raise ValueError(
            "`self_index` must point at gallery items with the query's identity and camera; got item"
            f" {int(self_index[wrong])} for query {wrong}."
        )


def check_camera_map(value: object) -> None:
    """Raise unless `value` is None or a mapping of ints to ints none of which is mapped again."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"`camera_map` must be a mapping of ints to ints or None; got {type(value).__name__}.")
    _checks.integers("camera_map", [*value.keys(), *value.values()])
    chained = sorted(set(value) & {other for label, other in value.items() if other != label})
    if chained:
        raise ValueError(
            f"`camera_map` must map to cameras that are not mapped themselves; got {chained} on both sides."
        )


def positions_on_cpu(argument: str, values: object, size: int, length: int | None = None) -> list[Tensor]:
    """The positions that are listed for each query, on the CPU.

    Raises:
        TypeError: no sequence of integer tensors.
        ValueError: other than `length` tensors where it is given, not all 1-D and on one device, or positions that are
            not below `size`.
    """
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of tensors, one per query; got {type(values).__name__}.")
    if length not in (None, len(values)):
        raise ValueError(f"`{argument}` must hold one tensor for each of {length} queries; got {len(values)}.")
    for query, value in enumerate(values):
        _checks.integer_labels(f"{argument}[{query}]", value, device=values[0].device if query else None)
    # All at once: a copy of each list would wait for a GPU.
    lists = [*torch.cat([*values]).cpu().split([len(value) for value in values])] if values else []
    for query, positions in enumerate(lists):
        _checks.in_range(f"{argument}[{query}]", positions, 0, size)
    return lists


def check_listed_once(argument: str, positives: Sequence[Tensor], junk: Sequence[Tensor]) -> None:
    """Raise if a query lists a position twice, in one list or in both."""
    for query, both in enumerate(zip(positives, junk, strict=True)):
        items = torch.cat(both).sort().values
        repeated = items[1:][items[1:] == items[:-1]]
        if len(repeated):
            item = int(repeated[0])
            raise ValueError(
                f"`{argument}` must list a gallery item once for a query; got item {item} twice for query {query}."
            )
