"""`compare`: results files of two or more models, by `compare`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from reid_torchmetrics import _hints
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.tasks import compare

from .outputs import Outputs


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Compare results files; return the exit status."""
    paths = arguments.files
    outputs = Outputs(arguments)
    if arguments.seed is not None:
        options["generator"] = torch.Generator().manual_seed(arguments.seed)
    if len(paths) < 2 or len(set(paths)) < len(paths):
        raise ValueError(f"`files` must be two results files or more, each once; got {_hints.listed(paths, str)}.")
    models = [_load(path) for path in paths]
    # Models are named like their files, with folders where several files have one name.
    names = [Path(path).stem for path in paths]
    if len(set(names)) < len(names):
        names = paths
    comparison = compare(dict(zip(names, models, strict=True)), **options)
    return outputs.write({"": comparison}, reported=models[-1], comparison=comparison)


def _load(path: str) -> RetrievalResults | DetectionResults:
    """Load the results of a retrieval or of a detection."""
    try:
        return RetrievalResults.load(path)
    except ValueError as error:
        if "DetectionResults" not in str(error):
            raise
        return DetectionResults.load(path)
