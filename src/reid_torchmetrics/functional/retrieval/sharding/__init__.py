"""Samples that are sharded over the processes of a world: which of them count, and the queries of all."""

from .counted_samples import count_samples
from .samples import GALLERY, QUERY, Samples
from .shared_samples import Queries, examine_samples, gather_samples, share_queries
