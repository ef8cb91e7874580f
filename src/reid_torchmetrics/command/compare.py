"""`compare`: results files of two or more models, by `compare`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval import RetrievalResults, compare

from .outputs import Outputs


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Compare results files; return the exit status."""
    files = arguments.files
    outputs = Outputs(arguments, files)
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
