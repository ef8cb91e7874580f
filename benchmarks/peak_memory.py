"""Claim: at MSMT17's size, evaluation needs at most 75 MB on top of the embeddings, and a fed metric 200 MB.

    python benchmarks/peak_memory.py

11,659 queries x 82,161 gallery items of dimension 256, float32; a distance matrix alone would take 3.8 GB. Each way
of evaluation runs in a process of its own, whose peak (VmHWM, so Linux only) is compared with what it held before.
"""

from __future__ import annotations

import subprocess
import sys

import torch

from harness.claims import claim
from harness.memory import reset_peak, resident
from harness.problems import msmt17_size
from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import average_precision, rank_positives

BATCH = 64


def by_function() -> None:
    """Two tensors of embeddings."""
    problem = msmt17_size(256)
    warm_up(*problem)
    before = reset_peak()
    average_precision(rank_positives(*problem))
    print(resident("VmHWM") - before)


def by_metric() -> None:
    """A metric that was fed by batches."""
    query, gallery, *labels = msmt17_size(256)
    warm_up(query, gallery, *labels)
    metrics = ReIDMetrics()
    for side, embeddings in enumerate((query, gallery)):
        parts = zip(*(values.split(BATCH) for values in (embeddings, labels[side], labels[2 + side])), strict=True)
        for part in parts:
            metrics.update(*(values.clone() for values in part), is_query=side == 0)
    del query, gallery, embeddings, parts, part
    before = reset_peak()
    metrics.compute()
    print(resident("VmHWM") - before)


def warm_up(*problem: torch.Tensor) -> None:
    """Run once on little, so that libraries are loaded and threads started before anything is measured."""
    average_precision(rank_positives(*(values[:300] for values in problem)))


def main() -> None:
    """Measure both ways; exit with 1 if one needs more."""
    holds = []
    for way, limit in ((by_function, 75), (by_metric, 200)):
        command = [sys.executable, __file__, way.__name__]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        holds.append(claim(f"MB on top of embeddings, {way.__doc__.rstrip('.').lower()}", float(done.stdout), limit))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"by_function": by_function, "by_metric": by_metric}[sys.argv[1]]()
    else:
        main()
