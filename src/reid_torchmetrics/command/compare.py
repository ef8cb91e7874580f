"""`compare`: results files of two or more models, by `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval import RetrievalResults, compare

from .options import add_options, chosen, new_parser
from .outputs import Outputs, add_outputs


def run(words: Sequence[str]) -> int:
    """Compare what the words of the command line say; return the exit status."""
    parser = new_parser("compare")
    parser.add_argument("files", nargs="+", help="results files of `--save`; the others are compared with the first")
    parser.add_argument("--seed", type=int, help="of the resampling; drawn, and printed, if it is not given")
    added = add_options(parser, compare, words=(compare,), without=("a", "b"))
    add_outputs(parser)
    arguments = parser.parse_args(words)
    outputs, options = Outputs(arguments, arguments.files), chosen(parser, arguments, added)
    if arguments.seed is not None:
        options["generator"] = torch.Generator().manual_seed(arguments.seed)
    if not len({*arguments.files}) == len(arguments.files) > 1:
        raise ValueError(f"`files` must be two results files or more, each once; got {', '.join(arguments.files)}.")
    models = {path: _loaded(path) for path in arguments.files}
    stems = [Path(path).stem for path in models]
    names = stems if len({*stems}) == len(stems) else [*models]
    comparison = compare(dict(zip(names, models.values(), strict=True)), **options)
    return outputs.write({"": comparison}, shown=[*models.values()][-1], comparison=comparison)


def _loaded(path: str) -> RetrievalResults | DetectionResults:
    try:
        return RetrievalResults.load(path)
    except ValueError as error:
        if "DetectionResults" not in str(error):
            raise
        return DetectionResults.load(path)
