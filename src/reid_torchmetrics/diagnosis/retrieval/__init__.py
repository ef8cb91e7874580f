"""Causes of wrong numbers of retrieval; to add one, decorate its trial with `fact` or `cause`."""
# mypy: implicit-reexport

from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples

from . import label_rows, score_rows
from .case import CAUSES_OF_RANKS, FACTS, RetrievalCase, is_known
from .shards import compare_shards, read_updates

RETRIEVAL_CAUSES = FACTS | CAUSES_OF_RANKS
"""all rows by name, in the order in which they are asked"""
REGISTRIES = {RankedSamples: (RetrievalCase, RETRIEVAL_CAUSES)}
