"""Signs of mistakes that retrieval and detection share: items of the last evaluation, boxes in shares."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, equal
from torch.utils.weak import WeakIdKeyDictionary

LEAST_GATHERED = 8
"""number of items of a process; fewer items may be equal by chance in a data set"""
LEAST_BOXES = 10
"""fewer say nothing"""
ROUNDING, _BEYOND = 0.01, 0.1
"""that shares may be beyond an image: points, and boxes of networks that do not clip"""
MOST = 0.9
"""the share of boxes that are most of them"""
_counts: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""the number of forgotten items of each evaluation, by its last batch"""


def count_forgotten(roles: Sequence[Tensor], *labels: Sequence[Tensor]) -> int:
    """Count the items since the last evaluation if they repeat the items before them, as after a forgotten `reset`.

    Args:
        roles: a tensor for each batch, with a row for each item; the tensors belong to one metric.
        labels: further labels, each in the same batches.

    Returns:
        The number of items in the batches since the last evaluation, if the batches before them have equal labels;
        else the number of the last evaluation.
    """
    if not roles:
        return 0
    last_batch = roles[-1]
    if last_batch not in _counts:
        _counts[last_batch] = _count(roles, labels)
    return int(_counts[last_batch])


def _count(roles: Sequence[Tensor], labels: Sequence[Sequence[Tensor]]) -> int:
    """Return the count of an evaluation that is seen for the first time."""
    num_new = earlier_count = 0
    for position, batch in enumerate(reversed(roles)):
        if batch in _counts:
            num_new = position
            earlier_count = int(_counts[batch])
            break
    if num_new == 0 or 2 * num_new > len(roles):
        return earlier_count
    num_items = sum(map(len, roles[-num_new:]))
    if num_items < LEAST_GATHERED:
        return earlier_count
    for batches in (roles, *labels):
        earlier_batches = batches[-2 * num_new : -num_new]
        new_batches = batches[-num_new:]
        if not all(map(equal, earlier_batches, new_batches)):
            return earlier_count
    return num_items


def share_of(is_part: Tensor) -> float:
    """Return the share of values that are True."""
    return float(is_part.double().mean())


def are_within(boxes: Float[Tensor, "boxes 4"]) -> bool:
    """Whether all numbers of most boxes are from 0 to 1, give or take."""
    is_share = ((boxes - 0.5).abs() <= 0.5 + _BEYOND).all(1)
    return share_of(is_share) >= MOST


def are_shares(boxes: Float[Tensor, "boxes 4"], sides: Float[Tensor, "boxes 2"]) -> bool:
    """Whether boxes that are within [0, 1] must be shares: they have more than one size, and not only whole numbers."""
    return bool((sides != sides[0]).any() & (boxes != boxes.floor()).any())
