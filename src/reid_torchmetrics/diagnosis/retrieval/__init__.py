"""Causes of wrong numbers of retrieval."""
# mypy: implicit-reexport

from .answers import find_in_ranking
from .case import RetrievalCase, Sample
from .registry import RETRIEVAL_CAUSES
