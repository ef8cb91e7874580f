"""LVIS' lists of classes of an image: absent ones, and partly annotated ones."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.batches import EXTRAS, LISTS, Dicts, ExtraColumns, NumberedImages


def _check_no_lists(preds: Sequence[Any]) -> None:
    """Raise if `preds` has lists of classes."""
    for position, item in enumerate(preds):
        for key in LISTS:
            if isinstance(item, Mapping) and key in item:
                raise ValueError(f"`preds[{position}]` must not have `{key}`, a key of `target`; got {item[key]!r}.")


def _checked_lists(target: Dicts) -> list[list[int]]:
    """Return the lists of classes of each image in turn, empty for images without lists.

    Raises:
        TypeError: a list that does not hold ints.
        ValueError: a label that does not fit int64.
    """
    lists = []
    for position, item in enumerate(target):
        for key in LISTS:
            name = f"target[{position}]['{key}']"
            lists.append(_checked_list(name, item.get(key, ())))
    return lists


def _checked_list(name: str, value: Any) -> list[int]:
    """Return the labels in a list of classes as ints; see `_checked_lists`."""
    try:
        values = value.tolist() if isinstance(value, Tensor) else value
        # `operator.index` refuses None, which is passed in place of a bool.
        labels = [operator.index(None if isinstance(label, bool) else label) for label in values]  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"`{name}` must hold ints; got {value!r}.") from None
    if labels and not -(2**63) <= min(labels) <= max(labels) < 2**63:
        raise ValueError(f"`{name}` must fit int64; got {labels!r}.")
    return labels


def _pack_lists(target: Dicts, device: torch.device) -> dict[str, Tensor]:
    """Return the lists of classes of each image, first absent ones; errors as in `_checked_lists`."""
    lists = _checked_lists(target)
    labels = torch.tensor(list(chain.from_iterable(lists)), dtype=torch.int64, device="cpu")
    counts = torch.tensor(list(map(len, lists)), dtype=torch.int64, device="cpu").view(-1, 2)
    return {"listed_labels": labels.to(device), "listed_counts": counts.to(device)}


def listed_rows(numbered: NumberedImages) -> Tensor:
    """Return the lists of classes of images as rows of image number, label, and kind.

    The kind is 0 for an absent class, and 1 for a partly annotated one.
    """
    extras = numbered.images.extras
    counts = extras["listed_counts"].flatten()
    list_number = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    image_numbers = numbered.numbers.long()[list_number // 2]
    return torch.stack([image_numbers, extras["listed_labels"], list_number % 2], 1)


EXTRAS["lists"] = ExtraColumns(
    states={
        "listed_labels": torch.empty(0, dtype=torch.int64, device="cpu"),
        "listed_counts": torch.empty((0, 2), dtype=torch.int64, device="cpu"),
    },
    pack=_pack_lists,
    options=lambda numbered: {"lists": listed_rows(numbered)},
    check_detections=_check_no_lists,
)
