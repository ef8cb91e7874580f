"""Samples that are sharded over processes: the samples that count, and the queries of all processes."""
# mypy: implicit-reexport

from .samples import FIRST_MARK, GALLERY, GROUPED, QUERY, Numbered, Samples
from .shared_samples import Queries, Shard, examine_samples, gather_samples, share_queries
