"""Samples that are sharded over the processes of a world: which of them count, and the queries of all."""

from reid_torchmetrics.functional.retrieval.sharding.counted_samples import count_samples
from reid_torchmetrics.functional.retrieval.sharding.samples import GALLERY, QUERY, Samples
from reid_torchmetrics.functional.retrieval.sharding.shared_samples import (
    Queries,
    examine_samples,
    gather_samples,
    share_queries,
)
