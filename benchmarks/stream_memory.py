"""Claims: a gallery of five million distractors that are drawn on the fly is ranked exactly in 400 MB, never held.

    python benchmarks/stream_memory.py                  # 10,000 queries, 20,000 positives, 5,000,000 x 128
    python benchmarks/stream_memory.py --size 200000    # the same with fewer distractors

`RankCounter` counts blocks of 50,000 and drops them, with `max_bytes` of 64 MiB. For 200,000 distractors the ranks are
those of `rank_positives` with the gallery in memory. The time goes beside that of the bare products of the same blocks,
block by block. The peak is that of the whole process, with torch (VmHWM, so Linux only).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from harness.claims import claim
from harness.memory import resident
from reid_torchmetrics.functional.retrieval import RankCounter, average_precision, rank_positives

DIMENSION, BLOCK, STORED = 128, 50_000, 200_000
QUERIES, POSITIVES, IDENTITIES = 10_000, 20_000, 2_000
MAX_BYTES, PEAK_LIMIT, TIME_LIMIT = 64 << 20, 400, 2.5


def sides() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings and identities of queries, then of positives."""
    generator = torch.Generator().manual_seed(0)
    of_identity = torch.randn(IDENTITIES, DIMENSION, generator=generator)
    labels = torch.arange(QUERIES) % IDENTITIES, torch.arange(POSITIVES) % IDENTITIES
    query, positives = (of_identity[each] + torch.randn(len(each), DIMENSION, generator=generator) for each in labels)
    return query, positives, *labels


def distractors(size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks, the same ones in every call."""
    generator = torch.Generator().manual_seed(1)
    for first in range(0, size, BLOCK):
        number = min(BLOCK, size - first)
        yield torch.randn(number, DIMENSION, generator=generator), torch.full((number,), IDENTITIES)


def main() -> None:
    """Count, and compare; exit with 1 if a claim fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=5_000_000, help="distractors")
    size = parser.parse_args().size
    query, positives, query_identities, positive_identities = sides()
    counter = RankCounter(query, positives, query_identities, positive_identities, max_bytes=MAX_BYTES)
    product, spent, bare = torch.empty(1008 * 1008), 0.0, 0.0
    for block, identities in distractors(size):
        start = time.process_time()
        counter.update(block, identities)
        spent += time.process_time() - start
        start = time.process_time()
        for some in query.split(1008):
            for items in block.split(1008):
                torch.mm(some, items.T, out=product[: len(some) * len(items)].view(len(some), len(items)))
        bare += time.process_time() - start
    ranks = counter.ranks()
    peak = resident("VmHWM")
    precision = float(average_precision(ranks).mean())
    print(f"{size:,} distractors: {spent:.0f} CPU s, the bare products {bare:.0f} s; mAP {precision:.4f}")
    holds = [claim("MB of the process", peak, PEAK_LIMIT), claim("time over the products", spent / bare, TIME_LIMIT)]
    # Fewer distractors can be held.
    counter = RankCounter(query, positives, query_identities, positive_identities, max_bytes=MAX_BYTES)
    blocks = list(distractors(min(size, STORED)))
    for block in reversed(blocks):
        counter.update(*block)
    gallery, labels = (torch.cat(parts) for parts in zip(*[(positives, positive_identities), *blocks], strict=True))
    stored = rank_positives(query, gallery, query_identities, labels)
    holds.append(claim("ranks that differ", float((counter.ranks().rank != stored.rank).sum()), 0))
    sys.exit(not all(holds))


if __name__ == "__main__":
    main()
