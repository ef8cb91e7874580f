"""One batch of `update`: its checks, and the roles of its samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torchmetrics.utilities import rank_zero_warn

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.sharding import GALLERY, QUERY


def check_batch(
    embeddings: Tensor,
    identities: Tensor,
    cameras: Tensor | None,
    is_query: bool | Tensor | None,
    index: Tensor | None,
) -> None:
    """Raise unless the arguments of `update` fit each other."""
    _checks.embeddings("embeddings", embeddings)
    length, device = len(embeddings), embeddings.device
    _checks.integer_labels("identities", identities, length, device)
    if cameras is not None:
        _checks.integer_labels("cameras", cameras, length, device)
    if is_query is not None and not isinstance(is_query, (bool, np.bool_)):
        _checks.mask("is_query", is_query, length, device, "be True, False, None or a bool tensor")
    if index is not None:
        _checks.integer_labels("index", index, length, device)


def check_against_earlier(
    held: Mapping[str, list[Tensor]], embeddings: Tensor, cameras: Tensor | None, index: Tensor | None
) -> None:
    """Raise unless a batch has what the batches `held`, the states of a metric, have."""
    if held["embeddings"]:
        before = held["embeddings"][-1].shape[1]
        _checks.same_dimension("embeddings", embeddings.shape[1], "embeddings of earlier batches", before)
        _checks.given_throughout("cameras", given=cameras is not None, given_before=bool(held["cameras"]))
        _checks.given_throughout("index", given=index is not None, given_before=bool(held["index"]))


def copied(labels: Tensor) -> Tensor:
    """Labels to keep, int64: a loop may fill its buffers anew."""
    return labels.detach().to(torch.int64, copy=True)


def roles(is_query: bool | Tensor | None, length: int, device: torch.device) -> Tensor:
    """What each sample is, int8 [length]."""
    if isinstance(is_query, Tensor):
        return torch.where(is_query, QUERY, GALLERY).to(torch.int8)
    role = {None: QUERY | GALLERY, True: QUERY, False: GALLERY}[is_query]
    return torch.full((length,), role, dtype=torch.int8, device=device)


def warn_of_mixed_roles(before: set[str], is_query: bool | Tensor | None) -> None:
    """Note how the roles of a batch are given, and say once if some batches have queries and others no roles at all."""
    has_queries = isinstance(is_query, Tensor) or is_query  # a mask is not looked at, for that would wait for a GPU
    given = "nothing" if is_query is None else "queries" if has_queries else "gallery"
    is_new = given not in before
    before.add(given)
    if is_new and {"nothing", "queries"} <= before:
        rank_zero_warn(
            "Some batches were given with `is_query` and some without: the samples of the latter are queries and"
            " gallery items at once (leave-one-out). Pass `is_query=False` with batches of the gallery.",
            UserWarning,
            stacklevel=5,  # the line that calls `update`
        )
