"""Trial on labels that `preds` and `target` number differently."""

from __future__ import annotations

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES

from .case import DetectionCase

FEW = 0.3
"""fraction of all ground truths that are found"""
FEW_OF_CLASSES = 0.1
"""the same fraction, as a mean over classes"""
FEW_RIGHT = 0.1
"""fraction of pairs with equal labels"""
SAME = 0.8
"""fraction of pairs in which a label has its most frequent partner"""
_MAX_PAIRS = 2  # pairs of labels in a text


def shifted_labels(case: DetectionCase) -> Values | None:
    """Return values if most ground truths are found without labels, but few with labels, for one reason.

    The reason is a different numbering. If 0, 1, 2 stand for 1, 2, 3, then pairs are 0 for 1, 1 for 2 and 2 for 3: each
    label has one partner. A classifier that learned nothing has other pairs, or predicts a single label.
    """
    recall = case.recall
    if recall.num_found >= FEW * recall.num_ground_truths:
        return None
    if case.images.is_one_class or case.mean_recall_of_classes >= FEW_OF_CLASSES:
        return None

    sample = case.sampled_objects
    labels, true_labels = case.paired_labels
    num_found = len(labels)
    num_right = int((labels == true_labels).sum())
    are_enough = num_found >= LEAST_BOXES and 2 * num_found > len(sample.ground_truths.labels)
    if not are_enough or num_right >= FEW_RIGHT * num_found:
        return None

    label_pairs = torch.stack([labels, true_labels])
    are_disjoint = not bool(torch.isin(sample.detections.labels, sample.ground_truths.labels).any())
    if not are_disjoint and not _have_one_partner(label_pairs):
        return None
    distinct, counts = label_pairs.unique(dim=1, return_counts=True)
    order = counts.argsort(descending=True, stable=True)
    names = case.images.label_names
    texts = []
    for label, true_label in distinct[:, order[:_MAX_PAIRS]].T.tolist():
        texts.append(f"{label} for {true_label}" if names is None else f"{names[label]} for {names[true_label]}")
    return {"num_right": num_right, "num": num_found, "pairs": ", ".join(texts)}


def _have_one_partner(pairs: Tensor) -> bool:
    """Return whether each label has the same partner in most pairs after its first one, among two labels or more.

    This must be so on both sides: a single class that is taken for another one has one partner, too.
    """
    distinct, counts = pairs.unique(dim=1, return_counts=True)
    for labels in distinct:
        place = labels.unique(return_inverse=True)[1]
        largest_counts = counts.new_zeros(int(place.amax()) + 1).scatter_reduce(0, place, counts, "amax")
        num_repeated = int(counts.sum()) - len(largest_counts)
        if (
            len(largest_counts) < 2
            or num_repeated < LEAST_BOXES
            or int((largest_counts - 1).sum()) < SAME * num_repeated
        ):
            return False
    return True
