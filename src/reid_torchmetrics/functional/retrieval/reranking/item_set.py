"""Queries and gallery as one set of items, in which a query that is a gallery item is there once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.scores import Rows


class ItemSet(NamedTuple):
    """The queries that are not in the gallery, then the gallery."""

    rows: Rows
    of_query: Int[Tensor, " queries"]
    """the item of every query"""
    of_gallery: Int[Tensor, " gallery"]
    """the item of everything in the gallery"""

    @classmethod
    def of(cls, query: Tensor, gallery: Tensor, self_index: Tensor | None) -> ItemSet:
        """Unite embeddings; `self_index` holds every query's own position in the gallery, or -1.

        Raises:
            TypeError: `self_index` is not an integer tensor.
            ValueError: its shape or values do not fit.
        """
        self_index = torch.full((len(query),), -1, device=query.device) if self_index is None else self_index
        _checks.integer_labels("self_index", self_index, len(query), query.device)
        _checks.in_range("self_index", self_index, -1, len(gallery))
        self_index, is_new = self_index.long(), self_index < 0
        num_new = int(is_new.sum())
        of_query = torch.where(is_new, is_new.cumsum(0) - 1, self_index + num_new)
        of_gallery = torch.arange(num_new, num_new + len(gallery), device=query.device)
        return cls(Rows([query[is_new] if num_new < len(query) else query, gallery]), of_query, of_gallery)
