"""Orders of detections by integer keys: sorting integers takes a fraction of the time of sorting floats."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int, Integer, Shaped
from torch import Tensor

_WHOLE_INT32 = 1 << 32
_NARROW_LABELS = 1 << 20  # below it, distinct labels are found by counting

_FEW_LABELS = 1 << 11  # and it is not worth looking at them first
_FEW_ROWS = 1 << 9  # that any sort puts in order in no time
_BITS = 63  # of an int64 besides its sign


def order_by_class_and_score(
    class_index: Int[Tensor, " rows"], scores: Float[Tensor, " rows"]
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Rows by class, then from the highest score down, equal scores as they come; and their classes, int32."""
    key = _descending_key(scores)
    if key.dtype == torch.int32:
        joint, order = stable_sort((class_index.long() * _WHOLE_INT32).add_(key))
        return order, joint.add_(_WHOLE_INT32 // 2).bitwise_right_shift_(32).int()
    order = key.sort(stable=True).indices
    classes, within = class_index.index_select(0, order).sort(stable=True)
    return order.index_select(0, within), classes.int()


def stable_sort(keys: Int[Tensor, " rows"]) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Keys of int64 in ascending order, and the row of each, equal ones as they come; may overwrite what it is given.

    NumPy's sort of values is vectorized, and takes a third of the time of one that carries rows along. So on a CPU, as
    long as a key and a row fit into one number, that is sorted.
    """
    row_bits = len(keys).bit_length()
    if keys.device.type != "cpu" or len(keys) < _FEW_ROWS:
        return keys.sort(stable=True)
    if max(abs(int(end)) for end in keys.aminmax()).bit_length() + row_bits > _BITS:
        return keys.sort(stable=True)
    keys.mul_(1 << row_bits).add_(torch.arange(len(keys), device="cpu"))
    keys.numpy().sort()
    return keys >> row_bits, keys.bitwise_and_((1 << row_bits) - 1)


def _descending_key(scores: Tensor) -> Tensor:
    """Integers that ascend as finite scores descend, of the scores' width; 0.0 and -0.0 are one."""
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    bits = (scores + 0.0).view(torch.int64 if scores.dtype == torch.float64 else torch.int32)
    largest = torch.iinfo(bits.dtype).max
    of_negative = bits.__rshift__(torch.iinfo(bits.dtype).bits - 1).bitwise_and_(largest)  # their bits run backwards
    return bits.bitwise_xor(of_negative).bitwise_not_()


def narrowest(values: Integer[Tensor, " rows"], num_values: int) -> Integer[Tensor, " rows"]:
    """Values in [0, num_values) in the narrowest dtype of 16 bits or more: fewer bits are sorted faster."""
    for dtype in (torch.int16, torch.int32):
        if num_values <= torch.iinfo(dtype).max:
            return values.to(dtype)
    return values.long()


def distinct_labels(*labels: Integer[Tensor, " _"]) -> Int[Tensor, " classes"]:
    """All labels that occur, ascending, int64."""
    joined = torch.cat([each.long() for each in labels])
    if len(joined) >= _FEW_LABELS:
        least, most = joined.aminmax()
        if least >= 0 and most < _NARROW_LABELS:
            return torch.arange(int(most) + 1, device=joined.device)[joined.bincount() > 0]
    distinct: Tensor = joined.unique()
    return distinct


def place_of_labels(labels: Integer[Tensor, " rows"], classes: Int[Tensor, " classes"]) -> Int[Tensor, " rows"]:
    """The place of each label among `classes`, which are ascending and hold it, int32."""
    if len(labels) >= _FEW_LABELS and classes[0] >= 0 and classes[-1] < _NARROW_LABELS:
        table = torch.zeros(int(classes[-1]) + 1, dtype=torch.int32, device=labels.device)
        table[classes] = torch.arange(len(classes), dtype=torch.int32, device=labels.device)
        return table.index_select(0, labels.int())
    return torch.searchsorted(classes, labels.long()).int()


def are_ascending(values: Shaped[Tensor, " rows"]) -> bool:
    """Whether no value is below the one before it."""
    return not bool((values[1:] < values[:-1]).any())
