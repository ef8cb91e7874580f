"""Claims: codes with several labels for each sample take no longer than NumPy's loop over queries, in bounded memory.

    python benchmarks/several_labels.py [PART ...]     # of codes, real, memory

2,000 queries and a gallery of 20,000 have codes of 64 bits and 24 labels; a query shares one with 30 % of the gallery.
The loop is what code bases for hashing have: for each query the Hamming distances, their `argsort`, and the precision
at each relevant item. Its order of ties is any; "stable" is the order of the gallery, and "expected" the mean of all.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from harness.claims import claim, compare, interleaved, main
from harness.load import set_threads
from harness.memory import reset_peak, resident
from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate

NUM_QUERIES, NUM_GALLERY, NUM_BITS, NUM_LABELS, SHARE = 2_000, 20_000, 64, 24, 0.12
SIZE = "2,000 x 20,000 codes of 64 bits with 24 labels"


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Codes of the queries and of the gallery, and their labels."""
    random = np.random.default_rng(0)
    sizes = NUM_QUERIES, NUM_GALLERY
    codes = [np.sign(random.standard_normal((size, NUM_BITS))).astype(np.float32) for size in sizes]
    labels = [random.random((size, NUM_LABELS)) < SHARE for size in sizes]
    return *codes, *labels


def loop(query: np.ndarray, gallery: np.ndarray, query_labels: np.ndarray, gallery_labels: np.ndarray) -> float:
    """Mean average precision, one query at a time."""
    gallery_numbers = gallery_labels.astype(np.float32)
    total = 0.0
    for code, labels in zip(query, query_labels.astype(np.float32), strict=True):
        is_relevant = gallery_numbers @ labels > 0
        distances = 0.5 * (NUM_BITS - gallery @ code)
        places = np.flatnonzero(is_relevant[np.argsort(distances)]) + 1
        if len(places):
            total += float(np.mean(np.arange(1, len(places) + 1) / places))
    return total / len(query)


def ours(ties: str, *samples: np.ndarray) -> RetrievalResults:
    """The same under a tie policy."""
    return evaluate(*samples, protocol="hashing", k=None, similarity="dot", ties=ties)


def codes() -> None:
    """Codes, whose distances tie."""
    set_threads(1)
    samples = problem()
    ways = {ties: partial(ours, ties, *samples) for ties in ("stable", "expected")}
    seconds = interleaved({"loop": partial(loop, *samples), **ways}, 3)
    for ties in ways:
        text = f'mAP of {SIZE} takes no longer than NumPy\'s loop under ties "{ties}", with one thread.'
        compare(text, seconds[ties], seconds["loop"], 1)
    claim(
        f"mAP of {SIZE} is that of NumPy's loop, but for ties.",
        abs(loop(*samples) - ours("stable", *samples)["map"]),
        1e-3,
    )


def real() -> None:
    """Real numbers in the place of codes, which do not tie."""
    set_threads(1)
    query, gallery, *labels = problem()
    random = np.random.default_rng(1)
    noise = [random.standard_normal(side.shape).astype(np.float32) for side in (query, gallery)]
    samples = query + noise[0], gallery + noise[1], *labels
    seconds = interleaved({"loop": partial(loop, *samples), "ours": partial(ours, "pessimistic", *samples)}, 3)
    text = f"mAP of {SIZE}, with real numbers in their place, takes little longer than NumPy's loop, with one thread."
    compare(text, seconds["ours"], seconds["loop"], 1.5)


def memory() -> None:
    """Memory while it is ranked and measured, over the ranks that the results hold."""
    samples = problem()
    ours("stable", *(side[:100] for side in samples))
    before = reset_peak()
    results = ours("expected", *samples)
    held = 12 * len(results.ranks.rank) / 1e6  # a number of 64 bits, and the grade
    text = f'{SIZE} need memory of `max_bytes` over their ranks and grades under ties "expected".'
    claim(text, resident("VmHWM") - before - held, 268, "MB", detail=f"{held:.0f} MB of ranks and grades")


if __name__ == "__main__":
    main(codes, real, memory)
