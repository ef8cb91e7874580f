"""Vector indexes: how many of the exact nearest items their lists hold."""
# mypy: implicit-reexport

from .exact_search import SearchedLists
from .recall import IndexRecall, index_recall, search_lists
