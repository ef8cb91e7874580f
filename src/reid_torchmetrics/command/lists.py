"""`lists`: ranked lists in files, by `evaluate_lists`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reid_torchmetrics.data import read_ground_truth, read_retrieved
from reid_torchmetrics.functional.retrieval import evaluate_lists

from .options import parsed
from .outputs import Outputs


def run(words: Sequence[str]) -> int:
    """Evaluate what the words of the command line say; return the exit status."""
    arguments, options = parsed("lists", words)
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
