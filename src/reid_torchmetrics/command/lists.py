"""`lists`: ranked lists in files, by `evaluate_lists`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reid_torchmetrics.data import read_ground_truth, read_retrieved
from reid_torchmetrics.functional.retrieval import Protocol, evaluate_lists, find_relevance

from .options import new_parser, parsed
from .outputs import Outputs

_LABELS = ("query_identities", "gallery_identities", "self_index")
_FROM_FILES = ("retrieved", "positives", "gains", "num_positives", *_LABELS)


def run(words: Sequence[str]) -> int:
    """Evaluate what the words of the command line say; return the exit status."""
    parser = new_parser("lists")
    of_retrieved = "a TREC run, ints of a vector index (.npy), ranked names, or a folder of them"
    parser.add_argument("retrieved", help=of_retrieved)
    parser.add_argument("positives", help="qrels, a folder of Oxford's lists (*_good.txt, ...), JSON, or gnd_*.pkl")
    arguments, options = parsed(parser, words, evaluate_lists, without=_FROM_FILES, others=(find_relevance, Protocol))
    outputs = Outputs(arguments, (arguments.retrieved, arguments.positives))
    retrieved, positives = read_retrieved(arguments.retrieved), read_ground_truth(arguments.positives)
    if Path(arguments.retrieved).suffix == ".txt" and isinstance(retrieved, list):
        # The names that one query has retrieved, in a file of its name.
        query = Path(arguments.retrieved).stem
        if query not in positives:
            rule = f"must be named like a query of {arguments.positives}"
            raise ValueError(f"{arguments.retrieved}: {rule}; got {query!r}.")
        retrieved, positives = {query: retrieved}, {query: positives[query]}
    return outputs.write({"": evaluate_lists(retrieved, positives, **options)})
