"""`compare`: results files of two or more models, by `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval import RetrievalResults, compare

from .options import parsed
from .outputs import Outputs


def run(words: Sequence[str]) -> int:
    """Compare what the words of the command line say; return the exit status."""
    arguments, options = parsed("compare", words, seed=None)
    files, outputs = arguments.files, Outputs(arguments, arguments.files)
    if arguments.seed is not None:
        options["generator"] = torch.Generator().manual_seed(arguments.seed)
    if not len({*files}) == len(files) > 1:
        raise ValueError(f"`files` must be two results files or more, each once; got {', '.join(files)}.")
    # Models are named like their files, with folders where files of several have one name.
    models = [_loaded(path) for path in files]
    stems = [Path(path).stem for path in files]
    names = stems if len({*stems}) == len(stems) else files
    comparison = compare(dict(zip(names, models, strict=True)), **options)
    return outputs.write({"": comparison}, shown=models[-1], comparison=comparison)


def _loaded(path: str) -> RetrievalResults | DetectionResults:
    try:
        return RetrievalResults.load(path)
    except ValueError as error:
        if "DetectionResults" not in str(error):
            raise
        return DetectionResults.load(path)
