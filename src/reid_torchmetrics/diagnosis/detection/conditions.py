"""Suspicions that rows of the registry share, and trials on facts alone: each returns the values of a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES

from .case import DetectionCase

LEAST_IMAGES = 10  # without lists of classes: the lists of a few images may be empty
_MAX_LABELS = 3  # in a text


def has_many_objects(case: DetectionCase) -> bool:
    """Return whether there are enough objects to infer their units."""
    return len(case.matches.scores) >= LEAST_BOXES <= case.recall.num_ground_truths


def few_are_found(case: DetectionCase) -> bool:
    """Return whether few of many ground truths are found."""
    return case.overlap_of_few is not None


def fact(name: str, least: int = 1) -> Callable[[DetectionCase], Values | None]:
    """Return a trial that finds a fact of `MatchedImages`: text, True, or a number that is at least as large."""

    def find(case: DetectionCase) -> Values | None:
        value = getattr(case.images, name)
        return {name: value} if value and (isinstance(value, str) or value >= least) else None

    return find


def groups_without_ground_truths(case: DetectionCase) -> Values | None:
    """Look for groups of classes that none of many ground truths has."""
    groups = case.grid.class_groups
    if not groups or case.recall.num_ground_truths < LEAST_BOXES:
        return None
    labels = sorted(chain(*groups.values()))
    true_labels = case.matches.classes[case.matches.num_positives[0] > 0].tolist()
    if not labels or not set(labels).isdisjoint(true_labels):
        return None
    names = ", ".join(f"`map_{name}`" for name, group in groups.items() if group)
    return {"names": names, "labels": _first_labels(labels), "true_labels": _first_labels(true_labels)}


def _first_labels(labels: Sequence[int]) -> str:
    return ", ".join(str(label) for label in labels[:_MAX_LABELS])


def other_detections(case: DetectionCase) -> Values | None:
    """Look for other detections in most of the repeated images."""
    num, num_repeated = case.images.num_other_detections, case.images.num_repeated
    return {"num": num, "num_repeated": num_repeated} if 2 * num > num_repeated else None
