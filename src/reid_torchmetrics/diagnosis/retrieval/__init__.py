"""Causes of wrong numbers of retrieval."""
# mypy: implicit-reexport

from .case import RetrievalCase, Sample
from .registry import RETRIEVAL_CAUSES
