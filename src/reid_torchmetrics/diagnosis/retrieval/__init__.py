"""Causes of wrong numbers of retrieval; to add one, decorate its trial with `fact` or `cause`."""
# mypy: implicit-reexport

from . import (
    backwards,
    copied_queries,
    facts,
    infinite_scores,
    matches,
    positions,
    repetitions,
    tied_pairs,
    undefined,
    unknown_identities,
)
from .case import CAUSES_OF_RANKS, FACTS, RetrievalCase
from .known_rankings import is_known

RETRIEVAL_CAUSES = FACTS | CAUSES_OF_RANKS
"""all rows by name, in the order in which they are asked"""
