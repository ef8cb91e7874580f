"""Claims: a step of validation costs microseconds, and as much at the end of an epoch as at its start.

    python benchmarks/step_cost.py

`update` costs at most 50 microseconds over appending the tensors to lists, 60 for the five numbers of `ReIDMetrics`,
and a step of 1,000 steps of `forward` costs at most 1.5 times a step of 10.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

from harness.claims import claim
from reid_torchmetrics import ReIDMeanAP, ReIDMetrics

ROUNDS = 7


def batches(number: int) -> list[dict[str, torch.Tensor]]:
    """Batches of 64 samples of dimension 512."""
    return [
        {
            "embeddings": torch.randn(64, 512),
            "identities": torch.randint(0, 9, (64,)),
            "cameras": torch.randint(0, 4, (64,)),
        }
        for _ in range(number)
    ]


def microseconds_per_step(function, given: list[dict[str, torch.Tensor]]) -> float:
    """Mean over the batches."""
    start = time.perf_counter()
    for batch in given:
        function(**batch)
    return (time.perf_counter() - start) / len(given) * 1e6


def storing() -> float:
    """Append to three lists."""
    lists: dict[str, list[torch.Tensor]] = {"embeddings": [], "identities": [], "cameras": []}

    def append(**batch: torch.Tensor) -> None:
        for name, values in batch.items():
            lists[name].append(values)

    return microseconds_per_step(append, batches(500))


def main() -> None:
    """Measure both claims; exit with 1 if one fails."""
    torch.set_num_threads(1)  # steps are small: threads would only add noise
    over, over_all = (
        [microseconds_per_step(metric().update, batches(500)) - storing() for _ in range(ROUNDS)]
        for metric in (ReIDMeanAP, ReIDMetrics)
    )
    few = [microseconds_per_step(ReIDMeanAP(), batches(10)) for _ in range(5 * ROUNDS)]
    many = [microseconds_per_step(ReIDMeanAP(), batches(1000)) for _ in range(ROUNDS)]
    print(f"forward: {statistics.median(few):.0f} us a step of 10, {statistics.median(many):.0f} us a step of 1,000")
    holds = [
        claim("us of `update` over storing", statistics.median(over), 50),
        claim("us of `update` over storing, `ReIDMetrics`", statistics.median(over_all), 60),
        claim("times the cost of a step, 1,000 steps over 10", statistics.median(many) / statistics.median(few), 1.5),
    ]
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
