"""Checks of a batch that `update` is given, by itself and beside the batches before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _checks, _hints
from reid_torchmetrics.functional.retrieval.relevance import (
    EXTRA,
    LABELS,
    SIDES,
    LabelValues,
    NumberedLabels,
    argument_of,
    check_alike,
    fits_names,
)
from reid_torchmetrics.functional.retrieval.sharding import GALLERY, QUERY


def check_label_names(labels: Mapping[str, object]) -> None:
    """Raise if a keyword argument of `update` is no label."""
    for name in labels:
        if name not in LABELS:
            hint = _hints.argument_meant(name, ["is_query", *LABELS])
            raise TypeError(f"update() got an unexpected keyword argument {name!r}{hint}.")


def check_batch(
    embeddings: Tensor, is_query: Any, labels: Mapping[str, object]
) -> tuple[bool | Tensor | None, dict[str, Tensor]]:
    """Convert the roles and labels of `update` to tensors; raise unless they fit the embeddings."""
    length, device = len(embeddings), embeddings.device
    if is_query is not None and not isinstance(is_query, (bool, np.bool_)):
        is_query = _checks.mask("is_query", is_query, length, device, "be True, False, None or a bool tensor")
    checked = {}
    for name, value in labels.items():
        if value is not None:
            checked[name] = LABELS[name].check(name, value, length, device)
    return is_query, checked


def check_kinds(
    earlier: Mapping[str, list[Tensor]],
    earlier_names: Collection[str],
    numbered: NumberedLabels,
    extra: Sequence[str] = (),
) -> None:
    """Raise if a batch has names for a label that was integers in earlier batches, or the reverse.

    Args:
        earlier: the states of the earlier batches.
        earlier_names: the labels that had names in them.
        numbered: the labels of the batch.
        extra: the labels with names by the user, which are columns of one label.

    Raises:
        ValueError: the kinds differ.
    """
    for label, values in numbered.values.items():
        is_empty = not (hasattr(values, "__len__") and len(values))
        is_first = not any(map(len, earlier.get(label, ())))
        if is_empty or is_first:
            continue
        names = extra if label == EXTRA else [label]
        for column, name in enumerate(names):
            has_names = name in numbered.names
            if has_names == (name in earlier_names):
                continue
            # Values are read only if the kinds differ.
            batches = [values, *earlier[label]]
            if label == EXTRA:
                batches = [batch[:, column] for batch in batches]
            batch, *earlier_batches = batches
            if not (fits_names(batch) or all(map(fits_names, earlier_batches))):
                argument = argument_of(label, name) if label == EXTRA else label
                kind, earlier_kind = ("names", "integers") if has_names else ("integers", "names")
                got = f"a batch of {kind} after batches of {earlier_kind}"
                raise ValueError(f"`{argument}` must be names in every batch, or integers in every batch; got {got}.")


def check_against_earlier(earlier: Mapping[str, list[Tensor]], embeddings: Tensor, labels: LabelValues) -> None:
    """Raise unless a batch has the dimension and the labels of the earlier batches in the states of a metric."""
    if not earlier["embeddings"]:
        return
    earlier_dimension = earlier["embeddings"][-1].shape[1]
    _checks.same_dimension("embeddings", embeddings.shape[1], "embeddings of earlier batches", earlier_dimension)
    for name, label in LABELS.items():
        if label.sides == SIDES and (name in labels) != bool(earlier[name]):
            _checks.given_throughout(name, given=name in labels, given_before=bool(earlier[name]))
    for name, values in labels.items():
        last_batch = earlier[name][-1] if earlier[name] else values
        if LABELS[name].may_be_several and (values.ndim > 1 or last_batch.ndim > 1):
            check_alike(name, values, "earlier batches", last_batch)
        elif values.ndim > 1:
            _checks.same_width(name, values.shape[1], last_batch.shape[1], "earlier batches")


def roles(is_query: bool | Tensor | None, length: int, device: torch.device) -> Tensor:
    """Return the role of each sample, `QUERY`, `GALLERY` or both, as int8 [length]."""
    if isinstance(is_query, Tensor):
        return torch.where(is_query, QUERY, GALLERY).to(torch.int8)
    if is_query is None:
        role = QUERY | GALLERY
    else:
        role = QUERY if is_query else GALLERY
    return torch.full((length,), role, dtype=torch.int8, device=device)


def note_roles(kinds: set[str], is_query: bool | Tensor | None, *, grouped: bool) -> None:
    """Add the kind of a batch to the kinds of earlier batches.

    Args:
        kinds: "queries", "gallery" and "both" for the roles of earlier batches, where "both" are samples of
            leave-one-out; "groups" and "no groups" for gallery items with and without them.
        is_query: of the batch.
        grouped: whether the batch has groups.

    Raises:
        ValueError: some batches with gallery items have groups, and others do not.
    """
    if grouped and is_query is None:
        raise ValueError("`groups` must come with `is_query`, as a query is no member of a group; got them without.")
    is_mask = isinstance(is_query, Tensor)  # its values are not read, because the host would wait for a GPU
    if is_mask or not is_query:
        if kinds & {"groups", "no groups"}:
            _checks.given_throughout("groups", given=grouped, given_before="groups" in kinds)
        kinds.add("groups" if grouped else "no groups")
    if is_query is None:
        kinds.add("both")
    elif is_mask or is_query:
        kinds.add("queries")
    else:
        kinds.add("gallery")
