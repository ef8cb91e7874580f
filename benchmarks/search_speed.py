"""Claims: shapes of retrieval that people run every day take no longer than what they would use instead.

    python benchmarks/search_speed.py [PART ...]     # of leave_one_out, places, codes, memory, matrices, steps, growth

Metric learning searches each sample among all others; places have few positives, within a radius; codes have very many,
and few distinct scores. All are measured on one thread, by the time of the CPU, and the functions take turns in one
process. Embeddings are made: the more noise, the worse the model.

What is not installed is left out, and so are the claims about it: pip install --group bench.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from harness.claims import claim, compare, interleaved, is_there, main
from harness.load import set_threads
from harness.memory import reset_peak, resident
from harness.search_peers import RADIUS, metric_learning
from harness.search_peers import codes as sorted_codes
from harness.search_peers import places as searched_places
from reid_torchmetrics import EmbeddingQuality, evaluate, evaluate_scores

GOOD, WEAK, USELESS = 1.0, 3.0, 50.0
"""noise beside identities of variance 1"""
ROUNDS = 5
NUM_ITEMS, NUM_CODES = 50_000, 1000
STEPS = 50
"""updates that are measured together"""
GALLERIES = (8_000, 16_000, 32_000, 64_000)


def metric_learning_set(num_items: int, dimension: int, num_classes: int, noise: float) -> tuple[Tensor, Tensor]:
    """Unit vectors and their classes."""
    generator = torch.Generator().manual_seed(0)
    classes = torch.randint(0, num_classes, (num_items,), generator=generator)
    centers = torch.randn(num_classes, dimension, generator=generator)
    embeddings = centers[classes] + noise * torch.randn(num_items, dimension, generator=generator)
    return torch.nn.functional.normalize(embeddings), classes


def leave_one_out() -> None:
    """CUB's size beside pytorch-metric-learning, and a third of SOP's by a good and by a weak model."""
    set_threads(1)
    work = partial(evaluate, similarity="euclidean")
    if is_there("pytorch_metric_learning") and is_there("faiss"):
        samples = metric_learning_set(5_924, 512, 100, GOOD)
        ways = {"ours": partial(work, *samples, protocol="cub200"), "peer": partial(metric_learning, *samples)}
        seconds = interleaved(ways, ROUNDS, time.process_time)
        text = "CUB's size, 5,924 x 512 of 100 classes, takes less time than by pytorch-metric-learning with faiss."
        compare(text, seconds["ours"], seconds["peer"], 0.85)
    sets = {noise: metric_learning_set(20_167, 128, 3_772, noise) for noise in (WEAK, GOOD)}
    ways = {str(noise): partial(work, *samples, protocol="sop") for noise, samples in sets.items()}
    seconds = interleaved(ways, ROUNDS, time.process_time)
    text = "A third of SOP's size, 20,167 x 128, takes hardly longer by a weak model than by a good one."
    compare(text, seconds[str(WEAK)], seconds[str(GOOD)], 1.3)


def map_of_places(num_queries: int, num_items: int, dimension: int, side: float) -> tuple[Tensor, ...]:
    """Embeddings that depend on the position, and positions in meters on a square."""
    generator = torch.Generator().manual_seed(0)
    origin = torch.tensor([585_000.0, 4_477_000.0], dtype=torch.float64)
    gallery_positions = torch.rand(num_items, 2, generator=generator, dtype=torch.float64) * side + origin
    near = gallery_positions[torch.randint(0, num_items, (num_queries,), generator=generator)]
    query_positions = near + 20 * torch.randn(num_queries, 2, generator=generator, dtype=torch.float64)
    waves = torch.randn(2, dimension, generator=generator)
    embeddings = []
    for positions in (query_positions, gallery_positions):
        signal = torch.sin((positions - positions.mean(0)).float() / 40 @ waves)
        noise = 1.5 * torch.randn(len(positions), dimension, generator=generator)
        embeddings.append(torch.nn.functional.normalize(signal + noise))
    return (*embeddings, query_positions, gallery_positions)


def ranked_places(query: Tensor, gallery: Tensor, query_positions: Tensor, gallery_positions: Tensor) -> object:
    """Hit rates, with positives within the radius."""
    positions = {"query_positions": query_positions, "gallery_positions": gallery_positions}
    return evaluate(query, gallery, protocol="pitts30k", similarity="euclidean", radius=RADIUS, **positions)


def places() -> None:
    """Place recognition beside a flat index of faiss and scikit-learn's search within a radius."""
    if not (is_there("faiss") and is_there("sklearn")):
        return
    set_threads(1)
    problem = map_of_places(2_000, 80_000, 256, side=6000.0)
    ways = {"ours": partial(ranked_places, *problem), "peer": partial(searched_places, *problem)}
    seconds = interleaved(ways, 3, time.process_time)
    text = "Places, 2,000 x 80,000 x 256 within 25 m, take little more time than faiss and scikit-learn's radius."
    compare(text, seconds["ours"], seconds["peer"], 1.2)


def codes_of_classes(num_queries: int, num_classes: int = 10, num_bits: int = 64) -> tuple[Tensor, ...]:
    """Codes of 1 and -1, and classes, of queries and of the gallery."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(num_classes, num_bits, generator=generator)
    classes = [torch.randint(0, num_classes, (size,), generator=generator) for size in (num_queries, NUM_ITEMS)]
    noise = [1.5 * torch.randn(len(labels), num_bits, generator=generator) for labels in classes]
    query, gallery = (torch.sign(centers[labels] + some) for labels, some in zip(classes, noise, strict=True))
    return query, gallery, *classes


def ranked_codes(problem: tuple[Tensor, ...], ties: str, k: int | None) -> float:
    """Mean average precision."""
    return float(evaluate(*problem, protocol="hashing", similarity="dot", ties=ties, k=k)["map"])


def codes() -> None:
    """Codes of 64 bits of 10 classes, 1,000 x 50,000, beside a loop that sorts a query at a time."""
    set_threads(1)
    problem = codes_of_classes(NUM_CODES)
    query, gallery, query_classes, gallery_classes = problem
    limits = {None: {"stable": 0.8, "expected": 0.55, "pessimistic": 0.5}, 5000: {"expected": 0.7}}
    for k, of_ties in limits.items():
        ways: dict[str, Callable[[], object]] = {ties: partial(ranked_codes, problem, ties, k) for ties in of_ties}
        ways["loop"] = partial(sorted_codes, query, gallery, query_classes, gallery_classes, k)
        seconds = interleaved(ways, 3, time.process_time)
        for ties, limit in of_ties.items():
            cut = "of all" if k is None else f"of the first {k:,}"
            text = f'mAP {cut} of 1,000 x 50,000 codes of 64 bits, `ties="{ties}"`, takes less time than a NumPy loop.'
            compare(text, seconds[ties], seconds["loop"], limit)


def memory() -> None:
    """What exact expectations hold of 4,000 x 50,000 codes of 10 classes."""
    set_threads(1)
    problem = codes_of_classes(4 * NUM_CODES)
    ranked_codes(codes_of_classes(10), "expected", 5000)  # modules that are imported late
    before = reset_peak()
    ranked_codes(problem, "expected", 5000)
    text = 'Codes of 4,000 queries and 50,000 items with `ties="expected"` need little memory over the codes.'
    claim(text, resident("VmHWM") - before, 300, "MB")


def matrices() -> None:
    """Scores of 25,000 captions and 5,000 images, searched the other way through their transposed matrix."""
    set_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.nn.functional.normalize(torch.randn(5000, 256, generator=generator))
    noise = 0.25 * torch.randn(25_000, 256, generator=generator)
    captions = torch.nn.functional.normalize(images.repeat_interleave(5, 0) + noise)
    numbers = torch.arange(5000)
    scores, labels = captions @ images.T, (numbers, numbers.repeat_interleave(5))
    contiguous = scores.T.contiguous()
    ways = {
        "transposed": lambda: evaluate_scores(scores.T, *labels, protocol="coco_captions"),
        "contiguous": lambda: evaluate_scores(contiguous, *labels, protocol="coco_captions"),
    }
    seconds = interleaved(ways, ROUNDS, time.process_time)
    text = "`evaluate_scores` of a transposed matrix, 5,000 x 25,000, takes little more time than of a contiguous one."
    compare(text, seconds["transposed"], seconds["contiguous"], 1.7)


def repeated(work: Callable[[], object]) -> None:
    """Do short work many times."""
    for _ in range(STEPS):
        work()


def steps() -> None:
    """A step of `EmbeddingQuality` beside the norms of its embeddings."""
    set_threads(1)
    embeddings = torch.randn(256, 2048, generator=torch.Generator().manual_seed(0))
    metric = EmbeddingQuality(("norm_mean",))
    ways = {
        "ours": partial(repeated, partial(metric.update, embeddings)),
        "norms": partial(repeated, partial(torch.linalg.vector_norm, embeddings, dim=1)),
    }
    seconds = interleaved(ways, ROUNDS, time.process_time)
    text = '`EmbeddingQuality(("norm_mean",)).update` of 256 x 2,048 takes little more time than `vector_norm`.'
    compare(text, seconds["ours"], seconds["norms"], 3)


def gallery_of(num_items: int, noise: float) -> Callable[[], object]:
    """A search of 500 queries, each with about ten positives."""
    generator = torch.Generator().manual_seed(0)
    num_identities = num_items // 10
    sizes = 500, num_items
    identities = [torch.randint(0, num_identities, (size,), generator=generator) for size in sizes]
    centers = torch.randn(num_identities, 128, generator=generator)
    query, gallery = (centers[some] + noise * torch.randn(len(some), 128, generator=generator) for some in identities)
    return partial(evaluate, query, gallery, *identities, protocol="inshop")


def growth() -> None:
    """The exponent of the time as the gallery doubles three times: 1 where it costs twice as much each time."""
    set_threads(1)
    for model, noise in (("weak", 2.0), ("useless", USELESS)):
        ways = {str(size): gallery_of(size, noise) for size in GALLERIES}
        seconds = interleaved(ways, 7, time.process_time)
        first, last = (statistics.median(seconds[str(size)]) for size in (GALLERIES[0], GALLERIES[-1]))
        exponent = math.log2(last / first) / math.log2(GALLERIES[-1] / GALLERIES[0])
        detail = ", ".join(f"{1e3 * statistics.median(values):.0f} ms" for values in seconds.values())
        text = f"By a {model} model twice the gallery takes about twice the time: the exponent from 8,000 to 64,000."
        claim(text, exponent, 1.08, detail=detail)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(leave_one_out, places, codes, memory, matrices, steps, growth)
