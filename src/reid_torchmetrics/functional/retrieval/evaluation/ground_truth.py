"""The lists that come with every query of a benchmark, by name: the protocol says what each of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.relevance import Relevance, check_listed_once, find_listed_relevance

GroundTruth = Sequence[Mapping[str, Any]]
"""For every query, tensors, arrays or lists of gallery positions by name, as the revisited Oxford and Paris come"""

_BESIDE_LISTS = ("bbx", "query")
"""what the files of benchmarks hold beside lists: the box of the query (revisitop, Oxford), its image (Oxford)"""


def find_named_relevance(
    ground_truth: GroundTruth,
    protocol: Protocol,
    *,
    num_queries: int,
    num_gallery: int,
    self_index: Integer[Tensor, " queries"] | None,
    device: torch.device,
) -> Relevance:
    """Who is positive and who junk by the lists that a protocol names; on a device, wherever the lists are.

    Raises:
        TypeError: no sequence of mappings of names to positions.
        ValueError: lists that the protocol does not name, positions outside the gallery or listed twice for a query.
    """
    _check_mappings(ground_truth, num_queries)
    _check_list_names(ground_truth, protocol)
    sides = (protocol.positive_lists, protocol.junk_lists)
    positives, junk = (_joined(ground_truth, names, num_gallery) for names in sides)
    check_listed_once("ground_truth", positives, junk)
    return find_listed_relevance(positives, junk, num_gallery=num_gallery, self_index=self_index).to(device)


def _check_mappings(values: object, num_queries: int) -> None:
    """Raise unless there is a mapping for each query."""
    if isinstance(values, (str, bytes, Tensor, Mapping)) or not isinstance(values, Sequence):
        raise TypeError(f"`ground_truth` must be a sequence of mappings, one per query; got {type(values).__name__}.")
    for lists in values:
        if not isinstance(lists, Mapping):
            raise TypeError(
                f"`ground_truth` must hold mappings of names to gallery positions; got {type(lists).__name__}."
            )
    if len(values) != num_queries:
        raise ValueError(f"`ground_truth` must hold one mapping for each of {num_queries} queries; got {len(values)}.")


def _check_list_names(ground_truth: GroundTruth, protocol: Protocol) -> None:
    """Raise unless the protocol names the lists of every query, one of them as positives at least.

    A list that it does not name would be a list of negatives, which nobody means.
    """
    positive, known = protocol.positive_lists, dict.fromkeys((*protocol.positive_lists, *protocol.junk_lists))
    for query, lists in enumerate(ground_truth):
        if not set(positive) & set(lists):
            wanted = ", ".join(map(repr, positive))
            raise ValueError(
                f"`ground_truth` must name one of {wanted} for every query; got {list(lists)} for {query}."
            )
        unknown = [name for name in lists if name not in {*known, *_BESIDE_LISTS}]
        if unknown:
            raise ValueError(
                "`ground_truth` must hold lists that `positive_lists` or `junk_lists` of the protocol name,"
                f" {', '.join(map(repr, known))}; got {unknown[0]!r} for query {query}."
            )


def _joined(ground_truth: GroundTruth, names: tuple[str, ...], num_gallery: int) -> list[Tensor]:
    """The named lists of every query, one after the other, on the CPU; a list that a query lacks is empty."""
    none = torch.empty(0, dtype=torch.int64, device="cpu")
    joined = []
    for query, lists in enumerate(ground_truth):
        parts = [none]
        for name in names:
            argument, positions = f"ground_truth[{query}][{name!r}]", lists.get(name, none)
            _checks.array_like(argument, positions)
            positions = torch.as_tensor(positions, device="cpu")
            if positions.numel():  # an empty list is a tensor of floats
                _checks.integer_labels(argument, positions)
                _checks.in_range(argument, positions, 0, num_gallery)
                parts.append(positions)
        joined.append(torch.cat(parts))
    return joined
