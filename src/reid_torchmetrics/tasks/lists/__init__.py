"""Ranked lists from a vector index, a server, a run file of TREC or a submission, in the place of scores."""
# mypy: implicit-reexport

from .engine_lists import IndexLists, as_lists, index_lists
from .evaluate import evaluate_lists, protocol_of_lists, ranking_of_lists, summarize_lists
from .labeled_lists import ListedSamples, mark_repeated, read_items, without
from .list_forms import MISSING_QUERIES, ItemReader, ListQueries, Lists, as_ids, read_names, read_retrieved
