"""Claims: on a GPU scores are equal to the bit, ranks are those of the CPU, and the host seldom waits.

    python benchmarks/gpu.py [PART ...]     # needs torch, torchmetrics and numpy; pytest for the tests

Without a GPU every part runs once, small and on the CPU: whether the script itself runs. Then nothing is claimed.
Times of rankings and lists are claimed beside those of a few lines of PyTorch; others are printed. All but the tests
takes a minute on an H100.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product as product_of_sets
from pathlib import Path

import torch
from torch import Tensor

from harness.claims import claim, main
from harness.detection_problems import VAL2017, Batch, detection_problem
from harness.device_times import Device
from harness.problems import Problem, market1501, msmt17_size
from reid_torchmetrics import DetectionMAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import rank_positives
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.ranking.counting import count_by_lookup
from reid_torchmetrics.functional.retrieval.scores.products import full_precision, product

ROOT = Path(__file__).parents[1]
BATCH = 64
OPTIONS = ({}, {"ties": "stable"}, {"ties": "expected"}, {"protocol": "cuhk03_openreid"})

DEVICE = Device(is_trial=not torch.cuda.is_available())


def seen(text: str, value: float, limit: float, unit: str, *detail: str) -> None:
    """Claim it, unless this is a trial."""
    if DEVICE.is_trial:
        print(text, value, unit)
    else:
        claim(text, value, limit, unit, detail=", ".join((*detail, DEVICE.title)))


def embeddings_on(dimension: int) -> Problem:
    """Market-1501's size with a good model, or a part of it, of dimension 32, in a trial."""
    problem = market1501(32 if DEVICE.is_trial else dimension, 1.7 if dimension <= 512 else 2.5)
    if DEVICE.is_trial:
        problem = tuple(values[:: 53 if number % 2 == 0 else 17] for number, values in enumerate(problem))
    return tuple(values.to(DEVICE.name) for values in problem)


def batches(problem: Problem) -> Iterator[dict[str, Tensor | bool]]:
    """The same as a loop over two loaders gives it."""
    for side, is_query in ((problem[::2], True), (problem[1::2], False)):
        for first in range(0, len(side[0]), BATCH):
            values = (each[first : first + BATCH].clone() for each in side)  # as a model gives them: no views
            yield dict(zip(("embeddings", "identities", "cameras"), values, strict=True)) | {"is_query": is_query}


def filled(problem: Problem, **options: object) -> ReIDMetrics:
    """A metric with all samples."""
    metric = ReIDMetrics(**options).to(DEVICE.name)
    for batch in batches(problem):
        metric.update(**batch)
    DEVICE.finish()
    return metric


def tests() -> None:
    """The tests that run on a GPU where there is one."""
    if DEVICE.is_trial or importlib.util.find_spec("pytest") is None:
        print("tests are not run: no pytest, or a trial")
        return
    command = [sys.executable, "-m", "pytest", "-q", "-k", "cuda or gpu", "tests"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(run.stdout[-4000:], run.stderr[-300:])
    seen("The tests of devices end without an error.", run.returncode, 0, "")


def equal_scores() -> None:
    """Whether copies of an item, anywhere in a gallery of any size, have the same score to the bit."""
    sizes = [(64, 500)] if DEVICE.is_trial else [(d, n) for d in (64, 511, 2048) for n in (500, 4099, 15913)]
    for dtype in (torch.float32, torch.float64):
        differing = []
        for dimension, num_columns in sizes:
            items = torch.randn(500, dimension, device=DEVICE.name, dtype=dtype)
            place = torch.randint(500, (num_columns,), device=DEVICE.name)
            for num_rows in (1, 8) if DEVICE.is_trial else (1, 2, 3, 8, 100, 210, 1024):
                query = torch.randn(num_rows, dimension, device=DEVICE.name, dtype=dtype)
                scores = scores_of(query, items[place])
                index, ends = place.expand(num_rows, -1), []
                for end, start in (("amin", torch.inf), ("amax", -torch.inf)):
                    ends.append(torch.full((num_rows, 500), start, device=DEVICE.name, dtype=dtype))
                    ends[-1].scatter_reduce_(1, index, scores, end)
                if bool((ends[0] < ends[1]).any()):
                    differing.append(f"{num_rows} x {num_columns} x {dimension}")
        print(f"{dtype}: {', '.join(differing) or 'no products'} differ")
        seen(f"Copies of an item have one score, to the bit, in products of {dtype}.", len(differing), 0, "products")


def same_bits() -> None:
    """Whether a score depends on its tile: on which queries and items are multiplied together."""
    num_rows, num_columns = (100, 1100) if DEVICE.is_trial else (1500, 20_000)
    for dtype in (torch.float32, torch.float64):
        differing = []
        for dimension in (64, 511) if DEVICE.is_trial else (64, 510, 511, 512, 2048):
            query = torch.randn(num_rows, dimension, device=DEVICE.name, dtype=dtype)
            items = torch.randn(num_columns, dimension, device=DEVICE.name, dtype=dtype)
            whole = scores_of(query, items)
            differing += [
                f"{rows.start}:{rows.stop} x {columns.start}:{columns.stop} x {dimension}"
                for rows, columns in product_of_sets(cuts(num_rows), cuts(num_columns))
                if not torch.equal(scores_of(query[rows], items[columns]), whole[rows, columns])
            ]
        print(f"{dtype}: {', '.join(differing) or 'no tiles'} differ")
        seen(f"A score of {dtype} does not depend on its tile, to the bit.", len(differing), 0, "tiles")


def cuts(size: int) -> list[slice]:
    """Some ranges of a size."""
    return [slice(0, 1), slice(1, 3), slice(size // 7, size // 2), slice(size // 3, size)]


def scores_of(query: Tensor, items: Tensor) -> Tensor:
    """Products as a ranking takes them."""
    scores = torch.empty(len(query), len(items), device=query.device, dtype=query.dtype)
    with full_precision(query.device, foreign=False):
        product(query, items, scores)
    return scores


def same_ranks() -> None:
    """Whether whole numbers, with many ties, have the ranks that they have on the CPU."""
    sizes = (40, 300) if DEVICE.is_trial else (300, 9000)
    for ties in TIE_POLICIES:
        wrong = []
        for seed in range(1 if DEVICE.is_trial else 6):
            generator = torch.Generator().manual_seed(seed)
            given = [torch.randint(-3, 4, (size, 16), generator=generator).float() for size in sizes]
            for high in (30, 4):
                given += [torch.randint(-1, high, (size,), generator=generator) for size in sizes]
            for options in ({}, {"max_bytes": 10**6}, {"same_camera": "all"}, {"similarity": "euclidean"}):
                chosen = {"similarity": "dot", "ties": ties} | options
                there = rank_positives(*(values.to(DEVICE.name) for values in given), **chosen)
                if not torch.equal(there.rank.cpu(), rank_positives(*given, **chosen).rank):
                    wrong.append(f"{seed} {options}")
        print(f"{ties}: {', '.join(wrong) or 'no problems'} differ")
        text = f"Ranks of 300 x 9,000 x 16 whole numbers are those of the CPU, ties {ties}."
        seen(text, len(wrong), 0, "problems")


def waits() -> None:
    """Where the host waits, and how many kernels are launched."""
    problem = embeddings_on(64)
    of, metric = "Market-1501 in batches of 64", ReIDMetrics().to(DEVICE.name)
    of_updates = DEVICE.waits(lambda: [metric.update(**batch) for batch in batches(problem)])
    seen(f"The host never waits in `update` of `ReIDMetrics`, {of}.", of_updates.total(), 0, "times")
    of_compute = DEVICE.waits(metric.compute)
    print(dict(of_compute.most_common(8)))
    seen(f"The host seldom waits in `compute` of `ReIDMetrics`, {of}.", of_compute.total(), 100, "times")
    other = filled(tuple(values.clone() for values in problem))
    kernels = DEVICE.num_kernels(other.compute)
    seen(f"`compute` of `ReIDMetrics` launches few kernels, {of}.", kernels, 1000, "kernels")


def determinism() -> None:
    """Whether `torch.use_deterministic_algorithms` is content; it raises if not."""
    problem = tuple(values[::4] for values in embeddings_on(64))
    for options in (*OPTIONS, {"protocol": "sysu_mm01_all_multi"}):
        metric = filled(problem, **options)
        torch.use_deterministic_algorithms(mode=True)
        try:
            metric.compute()
        finally:
            torch.use_deterministic_algorithms(mode=False)


def memory() -> None:
    """The peak of a ranking beside its embeddings, of which it makes a copy, and a tile of 33 MB."""
    problem = embeddings_on(512)
    for mebibytes in (64, 256, 1024):
        for ties in ("pessimistic", "stable", "expected"):
            options = {"ties": ties, "max_bytes": mebibytes << 20}
            peak = DEVICE.peak_bytes(lambda options=options: rank_positives(*problem, **options)) / (1 << 20)
            text = f"`max_bytes` of {mebibytes} MiB bounds a ranking of Market-1501, dimension 512, ties {ties}."
            seen(text, peak, mebibytes + 80, "MB")


def parts() -> None:
    """Milliseconds of what a ranking is made of, 3,368 x 15,913, by events."""
    for dimension in (512, 2048):
        problem = embeddings_on(dimension)
        query, gallery = problem[:2]
        scores = torch.empty(len(query), len(gallery), device=DEVICE.name)
        with full_precision(torch.device(DEVICE.name), foreign=False):
            bare = DEVICE.milliseconds(lambda q=query, g=gallery, out=scores: torch.mm(q, g.T, out=out))
        print(f"product, float32, dimension {dimension}: {bare:.3f} ms")
        for name, rows in (("all queries", query), ("one query", query[:1])):
            bare_of_rows = DEVICE.milliseconds(lambda q=rows, g=gallery: torch.mm(q, g.T))
            in_blocks = DEVICE.milliseconds(lambda q=rows, g=gallery: scores_of(q, g))
            times = f"{in_blocks:.3f} ms, {in_blocks / bare_of_rows:.2f} times the product"
            print(f"product in blocks of one shape, {name}, dimension {dimension}: {times}")
        low = query.bfloat16(), gallery.bfloat16()
        reduced = DEVICE.milliseconds(lambda low=low: low[0] @ low[1].T)
        print(f"product, bfloat16, dimension {dimension}: {reduced:.3f} ms")
        ranked = DEVICE.milliseconds(lambda problem=problem: rank_positives(*problem), 7)
        print(f"rank_positives, dimension {dimension}: {ranked:.3f} ms, {ranked / bare:.2f} times the product")
    rows = scores.split(210)
    in_order = DEVICE.milliseconds(lambda: [part.sort(dim=1) for part in rows], 5)
    print(f"sort of all scores, which is not done: {in_order:.3f} ms")
    print(f"pass for NaN: {DEVICE.milliseconds(lambda: scores.amax(1).isnan().any()):.3f} ms")
    counting(scores)


def counting(scores: Tensor) -> None:
    """Milliseconds of counting the negatives before so many positives."""
    for num_positives in (3, 51) if DEVICE.is_trial else (1, 3, 16, 51, 500):
        columns = torch.randperm(scores.shape[1], device=DEVICE.name)[:num_positives]
        thresholds = scores[:, columns].sort(dim=1, descending=True).values
        work = lambda t=thresholds: count_by_lookup(scores, t, or_tied=(True,))  # noqa: E731
        print(f"counts of {num_positives} positives: {DEVICE.milliseconds(work, 7):.3f} ms")


def metrics() -> None:
    """Times of rankings, lists and whole metrics beside those of a few lines of PyTorch."""
    times_of("Market-1501", embeddings_on(512), limit=1.2)
    times_of("MSMT17", msmt17_on(), limit=1)


def times_of(name: str, problem: Problem, *, limit: float) -> None:
    """Times of one problem; the limit is that of a ranking."""
    gallery, parts_of_queries = problem[1], problem[0].split(2000)
    in_order = DEVICE.milliseconds(lambda: [(query @ gallery.T).sort(dim=1) for query in parts_of_queries], 7)
    ranked = DEVICE.milliseconds(lambda: rank_positives(*problem), 7)
    text = f"A ranking of {name}, dimension 512, takes about as long as products and a sort of all scores."
    seen(text, ranked / in_order, limit, "times", f"{ranked:.1f} ms over {in_order:.1f} ms")
    metric = filled(problem)
    best = DEVICE.milliseconds(lambda: [(query @ gallery.T).topk(10) for query in parts_of_queries], 7)
    listed = DEVICE.milliseconds(lambda: metric.nearest(10), 5)
    text = f"`nearest(10)` of {name}, dimension 512, takes at most twice as long as products and `topk`."
    seen(text, listed / best, 2, "times", f"{listed:.1f} ms over {best:.1f} ms")
    seconds = [DEVICE.seconds(filled(tuple(values.clone() for values in problem)).compute) for _ in range(3)]
    print(f"ReIDMetrics.compute, {name}, dimension 512: {min(seconds):.4f} s")


def msmt17_on() -> Problem:
    """MSMT17's size, or a part of it in a trial."""
    problem = msmt17_size(8 if DEVICE.is_trial else 512)
    return tuple((values[:200] if DEVICE.is_trial else values).to(DEVICE.name) for values in problem)


def detection() -> None:
    """Seconds of `DetectionMAP` at COCO's size, given boxes of the device and of the CPU, and whether they agree."""
    size = replace(VAL2017, num_images=40, num_ground_truths=300) if DEVICE.is_trial else VAL2017
    preds, target = detection_problem(size)
    values = {}
    for where in (DEVICE.name, "cpu"):
        given = [[{key: value.to(where) for key, value in each.items()} for each in side] for side in (preds, target)]
        metric = DetectionMAP().to(where)
        metric.warn_on_many_detections = False
        update = DEVICE.seconds(lambda metric=metric, given=given: update_all(metric, *given))
        compute = DEVICE.seconds(lambda metric=metric, where=where: values.update({where: metric.compute()}))
        print(f"DetectionMAP of boxes of {where}: update {update:.3f} s, compute {compute:.3f} s")
    there, here = values[DEVICE.name], values["cpu"]
    differing = [name for name in here if not torch.equal(there[name].cpu(), here[name])]
    seen("`DetectionMAP` finds the numbers of the CPU on COCO val2017, to the bit.", len(differing), 0, "numbers")


def update_all(metric: DetectionMAP, preds: Batch, target: Batch) -> None:
    """Give a metric all images, 32 at a time."""
    for first in range(0, len(preds), 32):
        metric.update(preds[first : first + 32], target[first : first + 32])


if __name__ == "__main__":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else products refuse deterministic algorithms
    print(f"torch {torch.__version__}, {DEVICE.title}")
    main(tests, equal_scores, same_bits, same_ranks, waits, determinism, memory, parts, metrics, detection)
