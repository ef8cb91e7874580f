"""`lists`: ranked lists in files, by `evaluate_lists`."""

from __future__ import annotations

from collections.abc import Sequence

from reid_torchmetrics.data import read_ground_truth, read_retrieved
from reid_torchmetrics.functional.retrieval import Protocol, evaluate_lists

from .options import add_options, chosen, new_parser
from .outputs import Outputs, add_outputs


def run(words: Sequence[str]) -> int:
    """Evaluate what the words of the command line say; return the exit status."""
    parser = new_parser("lists")
    parser.add_argument(
        "retrieved", help="a TREC run, ints of a vector index (.npy), ranked names, or a folder of them"
    )
    parser.add_argument("positives", help="qrels, a folder of Oxford's lists (*_good.txt, ...), JSON, or gnd_*.pkl")
    add_options(parser, evaluate_lists, words=(Protocol, evaluate_lists))
    add_outputs(parser)
    arguments = parser.parse_args(words)
    outputs = Outputs(arguments)
    retrieved, positives = read_retrieved(arguments.retrieved), read_ground_truth(arguments.positives)
    return outputs.write({"": evaluate_lists(retrieved, positives, **chosen(parser, arguments, evaluate_lists))})
