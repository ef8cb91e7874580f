"""Relevance from labels, or from lists of positives and junk."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional import segments

from .relevance import JunkPairs, LabelRule, Relevance

SAME_CAMERA_RULES = {
    "same_identity": "drop the gallery items with the query's identity and camera (Market-1501)",
    "all": "drop every gallery item of the query's camera (open-reid's CUHK03)",
    "keep": "drop nothing",
}


def find_relevance(
    query_identities: Integer[Tensor, " queries"] | _checks.Integers,
    gallery_identities: Integer[Tensor, " gallery"] | _checks.Integers,
    query_cameras: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    gallery_cameras: Integer[Tensor, " gallery"] | _checks.Integers | None = None,
    *,
    same_camera: str = "same_identity",
    camera_map: Mapping[int, int] | None = None,
    search_cameras: Collection[int] | None = None,
    junk_identities: Collection[int] = (-1,),
    query_sequences: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    gallery_sequences: Integer[Tensor, " gallery"] | _checks.Integers | None = None,
    junk_pairs: JunkPairs | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
) -> Relevance:
    """Prepare labels for ranking: find the positives, negatives and junk of every query.

    A positive has the query's identity. Identity 0 is an ordinary identity (a distractor).

    Args:
        query_identities: identities of the queries.
        gallery_identities: identities of the gallery.
        query_cameras: cameras of the queries; None together with `gallery_cameras` means that no camera rule applies.
        gallery_cameras: cameras of the gallery.
        same_camera: "same_identity" drops the gallery items with the query's identity and camera (Market-1501),
            "all" drops every item of the query's camera (open-reid's CUHK03), "keep" drops nothing.
        camera_map: cameras that the camera rule treats as another one, on both sides: {3: 2} says that cameras 2 and 3
            show the same place (SYSU-MM01).
        search_cameras: cameras to search; gallery items of other cameras are dropped for every query. None keeps all.
        junk_identities: gallery items of these identities are dropped for every query.
        query_sequences: sequence, or track, of every query; its gallery items of any identity are dropped
            (open-metric-learning). Given together with `gallery_sequences`.
        gallery_sequences: sequence of every gallery item.
        junk_pairs: a function of positions of queries [q] and of gallery items [g] that returns a bool mask [q, g] of
            the pairs to drop. It is called for blocks of pairs, more than once for a pair.
        self_index: for every query its own position in the gallery, or -1: leave-one-out drops it by position.

    Raises:
        TypeError: a label tensor is not an integer tensor, `junk_identities` does not hold ints.
        ValueError: lengths, devices or options that do not fit, or cameras on one side only.
    """
    given = query_identities, gallery_identities, query_cameras, gallery_cameras, query_sequences, gallery_sequences
    self_index, *labels = _arrays.as_tensors(self_index, *given)
    query_identities, gallery_identities, query_cameras, gallery_cameras, query_sequences, gallery_sequences = labels
    sides = (query_cameras, gallery_cameras), (query_sequences, gallery_sequences)
    check_labels((query_identities, gallery_identities), self_index, cameras=sides[0], sequences=sides[1])
    _checks.one_of("same_camera", same_camera, SAME_CAMERA_RULES)
    _checks.integers("junk_identities", junk_identities)
    check_camera_map(camera_map)
    if junk_pairs is not None and not callable(junk_pairs):
        raise TypeError(f"`junk_pairs` must be a function or None; got {type(junk_pairs).__name__}.")
    # The kept gallery: without junk identities, and without cameras that are not searched.
    query_identities, gallery_identities = query_identities.long(), gallery_identities.long()
    junk = torch.tensor(sorted(junk_identities), dtype=torch.int64, device=gallery_identities.device)
    kept = _kept(torch.isin(gallery_identities, junk) | _elsewhere(gallery_cameras, search_cameras))
    num_gallery = len(gallery_identities)
    gallery_identities = _take(gallery_identities, kept)
    # Sorted by identity, the items with a query's identity are one run, shared by all queries of the identity.
    run_start, run_length, order = _runs(query_identities, gallery_identities)
    # Sequences are dropped like the cameras of "all": for any identity.
    query_cameras, gallery_cameras = _long(query_cameras), _long(gallery_cameras, kept)
    rules = [
        _rule(_mapped(query_cameras, camera_map), _mapped(gallery_cameras, camera_map), same_camera),
        _rule(_long(query_sequences), _long(gallery_sequences, kept), "all"),
    ]
    return Relevance(
        num_gallery=num_gallery,
        kept=kept,
        num_kept=len(order),
        order=order,
        run_start=run_start,
        run_length=run_length,
        is_junk=torch.isin(query_identities, junk),
        self_index=_long(self_index),
        own_column=_own_column(self_index, kept, num_gallery),
        rules=tuple(rule for rule in rules if rule is not None),
        junk_pairs=junk_pairs,
        query_identities=query_identities,
        gallery_identities=gallery_identities,
        query_cameras=query_cameras,
        gallery_cameras=gallery_cameras,
    )


def _kept(is_dropped: Bool[Tensor, " gallery"]) -> Int[Tensor, " kept"] | None:
    """Where the kept gallery items are; None for all of them."""
    return (~is_dropped).nonzero()[:, 0] if bool(is_dropped.any()) else None


def find_listed_relevance(
    positives: Sequence[Integer[Tensor, " _"] | _checks.Integers],
    junk: Sequence[Integer[Tensor, " _"] | _checks.Integers] | None = None,
    *,
    num_gallery: int,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
) -> Relevance:
    """Prepare lists for ranking: gallery positions of every query's positives and junk.

    Oxford, Paris and their revisited versions define relevance by such lists; all other items are negatives. Lists are
    checked and sorted on the CPU; the relevance is on their device, and moves by its method `to`.

    Args:
        positives: for every query gallery positions, possibly none.
        junk: the same for gallery items that are dropped for the query; None for none.
        num_gallery: number of gallery items.
        self_index: for every query its own position in the gallery, or -1: it is dropped, listed or not.

    Raises:
        TypeError: lists that are not sequences of integer tensors.
        ValueError: lists of different lengths, positions outside the gallery or listed twice for a query.
    """
    _checks.positive_int("num_gallery", num_gallery, least=0)
    listed = positions_on_cpu("positives", positives, num_gallery)
    junk = [part[:0] for part in listed] if junk is None else junk
    dropped = positions_on_cpu("junk", junk, num_gallery, len(listed))
    if self_index is not None:
        self_index = _checks.integer_labels("self_index", self_index, len(listed)).cpu()
        _checks.in_range("self_index", self_index, -1, num_gallery)
        listed, dropped = _without_self(listed, dropped, self_index)
    relevance = _by_runs(listed, dropped, self_index, num_gallery)
    return relevance.to(getattr(positives[0], "device", "cpu")) if len(positives) else relevance


def check_labels(
    identities: tuple[Tensor, Tensor], self_index: Tensor | None, **optional: tuple[Tensor | None, Tensor | None]
) -> None:
    """Raise unless the labels of queries and gallery fit, and the item at `self_index` has its query's labels."""
    query_identities, gallery_identities = identities
    _checks.integer_labels("query_identities", query_identities)
    _checks.integer_labels("gallery_identities", gallery_identities)
    num_queries, num_gallery, device = len(query_identities), len(gallery_identities), gallery_identities.device
    _checks.same_device("query_identities", query_identities, "gallery_identities", gallery_identities)
    for what, (query_labels, gallery_labels) in optional.items():
        if query_labels is not None and gallery_labels is not None:
            _checks.integer_labels(f"query_{what}", query_labels, num_queries, device)
            _checks.integer_labels(f"gallery_{what}", gallery_labels, num_gallery, device)
        elif query_labels is not gallery_labels:
            given, missing = ("gallery", "query") if query_labels is None else ("query", "gallery")
            raise ValueError(
                f"`query_{what}` and `gallery_{what}` must be given together; got `{given}_{what}` without"
                f" `{missing}_{what}`."
            )
    if self_index is not None:
        _checks.integer_labels("self_index", self_index, num_queries, device)
        _checks.in_range("self_index", self_index, -1, num_gallery)
        for labels in (identities, optional["cameras"]):
            _check_self(*labels, self_index)


def _check_self(query_labels: Tensor | None, gallery_labels: Tensor | None, self_index: Tensor) -> None:
    """Raise if the item at `self_index` has another label than its query."""
    if query_labels is None or gallery_labels is None:
        return
    inside = self_index >= 0
    queries, items = query_labels[inside], gallery_labels[self_index[inside].long()]
    if bool((queries != items).any()):
        wrong = int(inside.nonzero()[(queries != items).nonzero()[0, 0], 0])
        raise ValueError(
            "`self_index` must point at gallery items with the query's identity and camera; got item"
            f" {int(self_index[wrong])} for query {wrong}."
        )


def check_camera_map(value: object) -> None:
    """Raise unless `value` is None or a mapping of ints to ints that are not mapped themselves."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"`camera_map` must be a mapping of ints to ints or None; got {type(value).__name__}.")
    _checks.integers("camera_map", [*value.keys(), *value.values()])
    both = sorted(set(value) & {other for label, other in value.items() if other != label})
    if both:
        raise ValueError(f"`camera_map` must map to cameras that are not mapped themselves; got {both} on both sides.")


def positions_on_cpu(argument: str, values: object, size: int, length: int | None = None) -> list[Tensor]:
    """The positions listed for each query, on the CPU.

    Raises:
        TypeError: no sequence of integer tensors.
        ValueError: other than `length` tensors if it is given, tensors that are not 1-D and on one device, or positions
            not below `size`.
    """
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of tensors, one per query; got {type(values).__name__}.")
    if length not in (None, len(values)):
        raise ValueError(f"`{argument}` must hold one tensor for each of {length} queries; got {len(values)}.")
    values = _arrays.as_tensors(*values)
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
            came = f"item {int(repeated[0])} twice for query {query}"
            raise ValueError(f"`{argument}` must list a gallery item once for a query; got {came}.")


def _by_runs(positives: list[Tensor], junk: list[Tensor], self_index: Tensor | None, num_gallery: int) -> Relevance:
    """Relevance by lists of valid positions on the CPU."""
    check_listed_once("positives` and `junk", positives, junk)
    # A run of its own for each query: its positives and its junk in ascending order, with a mark on the junk.
    parts = [torch.cat([part.long() for part in pair]) for pair in zip(positives, junk, strict=True)]
    sorted_parts = [part.sort() for part in parts]
    none = torch.empty(0, dtype=torch.int64, device="cpu")
    run_length = torch.tensor([len(part) for part in parts], dtype=torch.int64, device="cpu")
    is_junk = [part.indices >= len(listed) for part, listed in zip(sorted_parts, positives, strict=True)]
    return Relevance(
        num_gallery=num_gallery,
        kept=None,
        num_kept=num_gallery,
        order=torch.cat([none, *(part.values for part in sorted_parts)]),
        run_start=segments.starts(run_length),
        run_length=run_length,
        is_junk=torch.zeros(len(parts), dtype=torch.bool, device="cpu"),
        listed_junk=torch.cat([none.bool(), *is_junk]),
        self_index=_long(self_index),
    )


def _without_self(positives: list[Tensor], junk: list[Tensor], self_index: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Make each query's own position junk."""
    items = self_index.long().split(1)  # -1 is in no list
    positives = [part[part != item] for part, item in zip(positives, items, strict=True)]
    junk = [torch.cat([part[part != item].long(), item[item >= 0]]) for part, item in zip(junk, items, strict=True)]
    return positives, junk


def _rule(query_labels: Tensor | None, gallery_labels: Tensor | None, same_label: str) -> LabelRule | None:
    """The rule of `SAME_CAMERA_RULES` for gallery items with the query's label."""
    if query_labels is None or gallery_labels is None or same_label == "keep":
        return None
    num_same = _runs(query_labels, gallery_labels)[1] if same_label == "all" else None
    return LabelRule(query_labels, gallery_labels, num_same)


def _mapped(labels: Tensor | None, mapping: Mapping[int, int] | None) -> Tensor | None:
    if labels is None or not mapping:
        return labels
    mapped = labels.clone()
    for label, other in mapping.items():
        mapped[labels == label] = other
    return mapped


def _long(labels: Tensor | None, positions: Tensor | None = None) -> Tensor | None:
    return None if labels is None else _take(labels.long(), positions)


def _runs(query_labels: Tensor, gallery_labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The start of every query's label in the sorted gallery, its number of items, and the sorting order."""
    query_labels = query_labels.contiguous()  # searchsorted warns otherwise
    ordered, order = gallery_labels.sort(stable=True)
    start = torch.searchsorted(ordered, query_labels)
    return start, torch.searchsorted(ordered, query_labels, right=True) - start, order


def _elsewhere(gallery_cameras: Tensor | None, search_cameras: Collection[int] | None) -> Tensor | bool:
    """Mark the gallery items of cameras that are not searched."""
    if search_cameras is None:
        return False
    _checks.integers("search_cameras", search_cameras)
    if gallery_cameras is None:
        raise ValueError("`search_cameras` must come with cameras; got no `gallery_cameras`.")
    searched = torch.tensor(sorted(search_cameras), dtype=torch.int64, device=gallery_cameras.device)
    return ~torch.isin(gallery_cameras.long(), searched)


def _take(values: Tensor, positions: Tensor | None) -> Tensor:
    return values if positions is None else values[positions]


def _own_column(self_index: Tensor | None, kept: Tensor | None, num_gallery: int) -> Tensor | None:
    """Translate gallery positions into kept positions; -1 where the query's own item was dropped."""
    if self_index is None:
        return None
    columns = self_index.long()
    if kept is not None:
        column_of = torch.full((num_gallery + 1,), -1, dtype=torch.int64, device=kept.device)
        column_of[kept] = torch.arange(len(kept), device=kept.device)
        columns = column_of[columns]  # -1 reads the last entry, which stays -1
    return columns
