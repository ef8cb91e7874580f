"""Advice on retrieval: guesses that the input is not what the user meant; see `functional.advice`."""
# mypy: implicit-reexport

from .backwards import seems_backwards
from .copied_queries import find_copies, has_copied_queries
from .evidence import ListedItems, RetrievalEvidence
from .registry import RETRIEVAL_ADVICE, advise_on_retrieval
from .tied_pairs import are_many, count_tied_pairs
