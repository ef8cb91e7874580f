"""Claims: 300,000 different names as identities cost at most three times the time and memory of integers.

    python benchmarks/names_cost.py [PART ...]     # of evaluation, epoch, memory

100 queries are searched among 300,000 gallery items of dimension 4, so that labels are most of the cost. Names and
integers come as lists of Python's objects. The ways take turns in one process, in CPU seconds of one thread; for memory
each way runs in a process of its own.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch

from harness.claims import claim, compare, interleaved, main
from harness.load import set_threads
from harness.memory import reset_peak, resident
from harness.processes import run
from reid_torchmetrics import ReIDMeanAP, evaluate

NUM_QUERIES, NUM_GALLERY, DIMENSION = 100, 300_000, 4
LIMIT = 3
REPEATS = 3


def problem(kind: str) -> tuple[torch.Tensor, torch.Tensor, list[int] | list[str]]:
    """Embeddings of queries and gallery, and the identities of the gallery: "names" or "integers"."""
    embeddings = torch.randn((NUM_GALLERY, DIMENSION), generator=torch.Generator().manual_seed(0))
    numbers = np.random.default_rng(0).permutation(NUM_GALLERY).tolist()
    identities = [f"animal_{number:07d}" for number in numbers] if kind == "names" else numbers
    return embeddings[:NUM_QUERIES] + 0.01, embeddings, identities


def by_function(query: torch.Tensor, gallery: torch.Tensor, identities: list[int] | list[str]) -> float:
    """Mean average precision by `evaluate`."""
    return evaluate(query, gallery, identities[:NUM_QUERIES], identities)["map"]


def by_metric(query: torch.Tensor, gallery: torch.Tensor, identities: list[int] | list[str]) -> float:
    """Mean average precision by a metric, with one batch of queries and one of the gallery."""
    metric = ReIDMeanAP()
    metric.update(query, identities[:NUM_QUERIES], is_query=True)
    metric.update(gallery, identities, is_query=False)
    return float(metric.compute())


def evaluation() -> None:
    """Time of `evaluate`."""
    set_threads(1)
    ways = {kind: partial(by_function, *problem(kind)) for kind in ("names", "integers")}
    seconds = interleaved(ways, REPEATS, time.process_time)
    text = "`evaluate` with 300,000 different names costs at most three times what it costs with integers."
    compare(text, seconds["names"], seconds["integers"], LIMIT)


def epoch() -> None:
    """Time of `update` and `compute`."""
    set_threads(1)
    ways = {kind: partial(by_metric, *problem(kind)) for kind in ("names", "integers")}
    seconds = interleaved(ways, REPEATS, time.process_time)
    text = "An epoch of `ReIDMeanAP` with 300,000 different names costs at most three times that with integers."
    compare(text, seconds["names"], seconds["integers"], LIMIT)


def peak_of(_rank: int, _size: int, kind: str) -> float:
    """Peak of memory over the samples, in MB."""
    samples = problem(kind)
    by_metric(*(side[:NUM_QUERIES] for side in samples))
    before = reset_peak()
    by_metric(*samples)
    return resident("VmHWM") - before


def memory() -> None:
    """Memory of `update` and `compute`."""
    (names,), (integers,) = (run(1, peak_of, kind) for kind in ("names", "integers"))
    text = "An epoch of `ReIDMeanAP` with 300,000 different names needs at most three times the memory of integers."
    claim(text, names / integers, LIMIT, "times", detail=f"{names:.0f} MB over {integers:.0f} MB")


if __name__ == "__main__":
    main(evaluation, epoch, memory)
