"""Ranked lists from a vector index, a server, a run file of TREC or a submission, in the place of scores."""
# mypy: implicit-reexport

from .evaluate import evaluate_lists, protocol_of_lists, summarize_lists
from .labeled_lists import read_items
from .list_forms import MISSING_QUERIES, ItemReader, ListQueries, Lists, read_names, read_retrieved
from .list_ranks import ListedSamples
