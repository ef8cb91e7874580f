"""Rows that facts about the samples decide, without scores."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Values, values_if
from reid_torchmetrics.functional.box_units import LEAST_BOXES, are_shares, are_within
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.evaluation import camera_rules_of

from .case import RetrievalCase


def find_missing_items(case: RetrievalCase) -> Values | None:
    """Return the entries of lists that are no items of the gallery."""
    listed = case.samples.listed_items
    if listed is None or listed.num_found == listed.num_listed:
        return None
    num_missing = listed.num_listed - listed.num_found
    return {"num": num_missing, "num_listed": listed.num_listed, "queries": counted(listed.num_queries, "query")}


def find_missing_cameras(case: RetrievalCase) -> Values | None:
    """Return the name of a benchmark and its rules about cameras, if there are no cameras."""
    if case.samples.has_lists or "cameras" in case.ranking.labels:
        return None
    rules = camera_rules_of(case.samples.named_protocol, case.protocol)
    return None if rules is None else {"name": rules[0], "rules": rules[1]}


def find_nothing_pooled(case: RetrievalCase) -> Values | None:
    """Return no values if `multi_query` was given, but each query has one image."""
    num_images = case.samples.num_images
    return values_if(num_images is not None and 0 < num_images == case.ranks.num_queries)


def find_boxes_in_shares(case: RetrievalCase) -> Values | None:
    """Return the numbers of boxes that are shares of an image, by their argument."""
    in_shares = []
    for argument, boxes in case.samples.boxes.items():
        if len(boxes) >= LEAST_BOXES and are_within(boxes) and are_shares(boxes, boxes[:, 2:] - boxes[:, :2]):
            in_shares.append(f"{len(boxes)} boxes of `{argument}`")
    return values_if(in_shares, boxes=" and of ".join(in_shares))
