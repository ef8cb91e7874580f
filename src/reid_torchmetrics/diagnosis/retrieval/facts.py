"""Rows that facts about the samples decide, without scores."""

from __future__ import annotations

from collections.abc import Callable

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES, are_shares, are_within
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.evaluation import camera_rules_of

from .case import RetrievalCase


def when(is_so: Callable[[RetrievalCase], bool]) -> Callable[[RetrievalCase], Values | None]:
    """Return a trial without values, for a suspicion that says it all."""

    def find(case: RetrievalCase) -> Values | None:
        return {} if is_so(case) else None

    return find


def lacks_items(case: RetrievalCase) -> bool:
    """Return whether lists have entries that are no items of the gallery."""
    listed = case.samples.listed_items
    return listed is not None and listed.num_found < listed.num_listed


def find_missing_items(case: RetrievalCase) -> Values | None:
    """Return the entries of lists that are no items of the gallery."""
    listed = case.samples.listed_items
    if listed is None or not lacks_items(case):
        return None
    num_missing = listed.num_listed - listed.num_found
    return {"num": num_missing, "num_listed": listed.num_listed, "queries": counted(listed.num_queries, "query")}


def has_mixed_roles(case: RetrievalCase) -> bool:
    """Return whether some batches have roles, and some do not."""
    return case.samples.updates.has_mixed_roles


def has_forgotten_reset(case: RetrievalCase) -> bool:
    """Return whether samples have the labels of as many samples before them."""
    return case.samples.updates.num_forgotten > 0


def find_forgotten_reset(case: RetrievalCase) -> Values | None:
    """Return the number of samples that came before."""
    return {"num": case.samples.updates.num_forgotten} if has_forgotten_reset(case) else None


def has_other_embeddings(case: RetrievalCase) -> bool:
    """Return whether repetitions of samples have another embedding."""
    return case.samples.num_changed > 0


def find_other_embeddings(case: RetrievalCase) -> Values | None:
    """Return the number of repetitions with another embedding."""
    return {"num": case.samples.num_changed} if has_other_embeddings(case) else None


def has_gathered_samples(case: RetrievalCase) -> bool:
    """Return whether two processes hold the same samples."""
    return case.samples.are_gathered


def has_padded_samples(case: RetrievalCase) -> bool:
    """Return whether a sampler repeated samples."""
    return case.samples.are_padded


def lacks_cameras(case: RetrievalCase) -> bool:
    """Return whether a protocol was named, and no cameras were given."""
    return isinstance(case.named_protocol, str) and not case.has_lists and "cameras" not in case.ranking.labels


def find_missing_cameras(case: RetrievalCase) -> Values | None:
    """Return the name of a benchmark and its rules about cameras."""
    rules = camera_rules_of(case.named_protocol, case.protocol) if lacks_cameras(case) else None
    return None if rules is None else {"name": rules[0], "rules": rules[1]}


def is_unpooled(case: RetrievalCase) -> bool:
    """Return whether `multi_query` was given, but each query has one image."""
    num_images = case.samples.num_images
    return num_images is not None and 0 < num_images == case.ranks.num_queries


def has_boxes(case: RetrievalCase) -> bool:
    """Return whether boxes were given for an overlap in pixels."""
    return bool(case.samples.boxes)


def find_boxes_in_shares(case: RetrievalCase) -> Values | None:
    """Return the numbers of boxes that are shares of an image, by their argument."""
    in_shares = []
    for argument, boxes in case.samples.boxes.items():
        if len(boxes) >= LEAST_BOXES and are_within(boxes) and are_shares(boxes, boxes[:, 2:] - boxes[:, :2]):
            in_shares.append(f"{len(boxes)} boxes of `{argument}`")
    return {"boxes": " and of ".join(in_shares)} if in_shares else None
