"""Embeddings in files, read as numbers: codes become 1 and -1, if the files of both sides together have codes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import or_

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _names
from reid_torchmetrics._arrays import Array
from reid_torchmetrics.functional.retrieval import Protocol
from reid_torchmetrics.functional.retrieval.scores import are_bits, as_signs, read_with_marks, union_of_marks
from reid_torchmetrics.functional.world import World

from .processes import Share
from .sample_sets import SampleSet


def open_embeddings(
    query_set: SampleSet,
    gallery_set: SampleSet,
    world: World,
    *,
    protocol: Protocol,
    similarity: _names.SimilarityName | None,
    packed: bool,
) -> tuple[Tensor, Callable[[Tensor | Array], Tensor]]:
    """Return the embeddings of all queries, and a function that reads a block of the gallery.

    Each process reads a part of the gallery to know whether 0 and 1 are codes, where the protocol leaves that open.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: codes of 0 and 1 beside other codes or numbers.
    """
    may_be_codes = protocol.reads_codes and similarity is None
    read = partial(
        read_with_marks, similarity=protocol.similarity_or(similarity), packed=packed, may_be_codes=may_be_codes
    )
    query_parts = [read("query", file.embeddings[:]) for file in query_set.files]
    query = torch.cat([embeddings for embeddings, _ in query_parts])
    part = Share(world.process, world.size).part_of(len(gallery_set))
    has_bits = False

    def find_marks() -> tuple[None, list[int]]:
        found = 0
        for _, embeddings in gallery_set.blocks(np.ones(len(gallery_set), dtype=bool), part, "Reading"):
            _, marks = read("gallery", embeddings)
            if marks is not None:
                found |= union_of_marks(marks)
        return None, [found]

    if may_be_codes:
        query_marks = [union_of_marks(marks) for _, marks in query_parts if marks is not None]
        _, table = world.guarded_all_gather(find_marks)
        has_bits = are_bits(reduce(or_, query_marks, 0), reduce(or_, [found for (found,) in table]))
    if has_bits:
        query = as_signs(query)

    def read_block(embeddings: Tensor | Array) -> Tensor:
        values, _ = read("gallery", embeddings)
        return as_signs(values) if has_bits else values

    return query, read_block
