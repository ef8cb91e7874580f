"""Scores of one process's part of a gallery, made comparable with those of the other parts."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.retrieval.scores.rows import Rows, promoted
from reid_torchmetrics.functional.retrieval.scores.scores import EmbeddingScores, check_function, score_dtype
from reid_torchmetrics.functional.retrieval.scores.similarity import CustomSimilarity, gallery_statistics
from reid_torchmetrics.functional.world import DTYPES, World


def score_rows(
    world: World, query: Rows, gallery: Rows, *, similarity: str | CustomSimilarity, max_bytes: int
) -> EmbeddingScores:
    """Scores of all queries against this process's part of the gallery, computed when they are needed.

    Dtype and statistics are those of the whole gallery, so that a score does not depend on how it is sharded.

    Raises:
        DistributedMetricError: an error on some process, or a function that gives other scores on another process.
        ValueError: a function whose scores depend on the other items of a block.
    """
    if callable(similarity):
        check_function(world, query, gallery, similarity, max_bytes)
    if world.size == 1:
        return EmbeddingScores(query, gallery, similarity=similarity, max_bytes=max_bytes)
    _, codes = world.guarded_all_gather(lambda: (None, [DTYPES.index(score_dtype(similarity, query, gallery))]))
    dtype = promoted([DTYPES[code] for (code,) in codes])
    sums = _sums_of_all(world, gallery, dtype, similarity)
    return world.guarded(
        lambda: EmbeddingScores(query, gallery, similarity=similarity, max_bytes=max_bytes, dtype=dtype, sums=sums)
    )


def _sums_of_all(
    world: World, gallery: Rows, dtype: torch.dtype, similarity: str | CustomSimilarity
) -> Float[Tensor, " sums"]:
    """What a similarity must know of the galleries of all processes."""

    def look() -> tuple[Tensor, Tensor]:
        own = gallery_statistics(similarity, gallery, dtype).to(world.device)
        return own, own.new_empty(len(own) + 1)

    def fill(out: Tensor) -> None:
        out.copy_(own)

    own, buffer = world.guarded(look)
    return (world.all_reduce_sum(buffer, fill) if len(own) else own).to(gallery.device)
