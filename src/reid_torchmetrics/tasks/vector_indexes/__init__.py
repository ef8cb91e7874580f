"""Vector indexes: how many of the exact nearest items their lists hold."""
# mypy: implicit-reexport

from .recall import IndexRecall, SearchedLists, index_recall, search_lists
