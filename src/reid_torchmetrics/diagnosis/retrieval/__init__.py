"""Causes of wrong numbers of retrieval."""
# mypy: implicit-reexport

from .case import RetrievalCase
from .known_rankings import is_known
from .registry import FACTS, RETRIEVAL_CAUSES
