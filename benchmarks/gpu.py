"""What only a machine with a GPU can tell, in one command of under ten minutes.

    python benchmarks/gpu.py            # needs a GPU, torch, torchmetrics and numpy; pytest for the tests
    python benchmarks/gpu.py --trial    # every step once, small and on the CPU: whether the script itself runs

Steps: the tests of devices; whether equal items have equal scores there, and whether a score depends on its tile; the
ranks of the CPU; where the host waits; deterministic algorithms; memory beside `max_bytes`; times of the parts of a
ranking, and of whole metrics. It prints tables for RESULTS.md, and exits with 1 if a step fails; the others are taken
all the same.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product as product_of_sets
from pathlib import Path

import torch
from torch import Tensor

from harness.detection_problems import VAL2017, Batch, detection_problem
from harness.device_times import Device
from harness.problems import Problem, market1501, msmt17_size
from reid_torchmetrics import DetectionMAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import TIE_POLICIES, rank_positives
from reid_torchmetrics.functional.retrieval.ranking import counting as negatives_counting
from reid_torchmetrics.functional.retrieval.scores.products import full_precision, product

ROOT = Path(__file__).parents[1]
SECONDS = 500  # no step begins later
BATCH = 64
OPTIONS = ({}, {"ties": "stable"}, {"ties": "expected"}, {"protocol": "cuhk03_openreid"})

Row = tuple[str, str]
"""what was looked at, and what was seen"""


def embeddings_on(device: Device, dimension: int) -> Problem:
    """Market-1501's size with a good model, or a part of it in a trial."""
    problem = market1501(dimension, 1.7 if dimension <= 512 else 2.5)
    if device.is_trial:
        problem = tuple(values[:: 53 if number % 2 == 0 else 17] for number, values in enumerate(problem))
    return tuple(values.to(device.name) for values in problem)


def batches(problem: Problem) -> Iterator[dict[str, Tensor | bool]]:
    """The same as a loop over two loaders gives it."""
    for side, is_query in ((problem[::2], True), (problem[1::2], False)):
        for first in range(0, len(side[0]), BATCH):
            values = (each[first : first + BATCH].clone() for each in side)  # as a model gives them: no views
            yield dict(zip(("embeddings", "identities", "cameras"), values, strict=True)) | {"is_query": is_query}


def filled(problem: Problem, device: Device, **options: object) -> ReIDMetrics:
    """A metric with all samples."""
    metric = ReIDMetrics(**options).to(device.name)
    for batch in batches(problem):
        metric.update(**batch)
    device.finish()
    return metric


def tests(device: Device) -> Iterator[Row]:
    """The tests that run on a GPU where there is one."""
    if device.is_trial or importlib.util.find_spec("pytest") is None:
        yield "tests", "not run: no pytest, or a trial"
        return
    command = [sys.executable, "-m", "pytest", "-q", "-k", "cuda or gpu", "tests"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    yield "tests", run.stdout.strip().splitlines()[-1] if run.stdout.strip() else run.stderr[-300:]
    if run.returncode:
        raise RuntimeError(run.stdout[-4000:])


def equal_scores(device: Device) -> Iterator[Row]:
    """Whether copies of an item, anywhere in a gallery of any size, have the same score to the bit."""
    sizes = [(64, 500)] if device.is_trial else [(d, n) for d in (64, 511, 2048) for n in (500, 4099, 15913)]
    for dtype in (torch.float32, torch.float64):
        differing = []
        for dimension, num_columns in sizes:
            items = torch.randn(500, dimension, device=device.name, dtype=dtype)
            place = torch.randint(500, (num_columns,), device=device.name)
            for num_rows in (1, 2, 3, 8, 100, 210, 1024):
                query = torch.randn(num_rows, dimension, device=device.name, dtype=dtype)
                scores = scores_of(query, items[place])
                index, ends = place.expand(num_rows, -1), []
                for end, start in (("amin", torch.inf), ("amax", -torch.inf)):
                    ends.append(torch.full((num_rows, 500), start, device=device.name, dtype=dtype))
                    ends[-1].scatter_reduce_(1, index, scores, end)
                if bool((ends[0] < ends[1]).any()):
                    differing.append(f"{num_rows} x {num_columns} x {dimension}")
        yield f"{dtype}: products in which equal items differ", ", ".join(differing) or "none"


def same_bits(device: Device) -> Iterator[Row]:
    """Whether a score depends on its tile: on which queries and items are multiplied together."""
    num_rows, num_columns = (100, 1100) if device.is_trial else (1500, 20_000)
    for dtype in (torch.float32, torch.float64):
        differing = []
        for dimension in (64, 511) if device.is_trial else (64, 510, 511, 512, 2048):
            query = torch.randn(num_rows, dimension, device=device.name, dtype=dtype)
            items = torch.randn(num_columns, dimension, device=device.name, dtype=dtype)
            whole = scores_of(query, items)
            differing += [
                f"{rows.start}:{rows.stop} x {columns.start}:{columns.stop} x {dimension}"
                for rows, columns in product_of_sets(cuts(num_rows), cuts(num_columns))
                if not torch.equal(scores_of(query[rows], items[columns]), whole[rows, columns])
            ]
        yield f"{dtype}: tiles with other scores than the whole", ", ".join(differing) or "none"


def cuts(size: int) -> list[slice]:
    """Some ranges of a size."""
    return [slice(0, 1), slice(1, 3), slice(size // 7, size // 2), slice(size // 3, size)]


def scores_of(query: Tensor, items: Tensor) -> Tensor:
    """Products as a ranking takes them."""
    scores = torch.empty(len(query), len(items), device=query.device, dtype=query.dtype)
    with full_precision(query.device, foreign=False):
        product(query, items, scores)
    return scores


def same_ranks(device: Device) -> Iterator[Row]:
    """Whether whole numbers, with many ties, have the ranks that they have on the CPU."""
    sizes = (40, 300) if device.is_trial else (300, 9000)
    for ties in TIE_POLICIES:
        wrong = []
        for seed in range(1 if device.is_trial else 6):
            generator = torch.Generator().manual_seed(seed)
            given = [torch.randint(-3, 4, (size, 16), generator=generator).float() for size in sizes]
            for high in (30, 4):
                given += [torch.randint(-1, high, (size,), generator=generator) for size in sizes]
            for options in ({}, {"max_bytes": 10**6}, {"same_camera": "all"}, {"similarity": "euclidean"}):
                chosen = {"similarity": "dot", "ties": ties} | options
                there = rank_positives(*(values.to(device.name) for values in given), **chosen)
                if not torch.equal(there.rank.cpu(), rank_positives(*given, **chosen).rank):
                    wrong.append(f"{seed} {options}")
        yield f"ranks of whole numbers that differ, {ties}", ", ".join(wrong) or "none"


def waits(device: Device) -> Iterator[Row]:
    """Where the host waits, and how many kernels are launched."""
    problem = embeddings_on(device, 64)
    metric = ReIDMetrics().to(device.name)
    of_updates = device.waits(lambda: [metric.update(**batch) for batch in batches(problem)])
    yield "waits of all updates", str(of_updates.total())
    seen = device.waits(metric.compute)
    yield "waits of compute", f"{seen.total()}: {dict(seen.most_common(8))}"
    other = filled(tuple(values.clone() for values in problem), device)
    yield "kernels of compute", str(device.num_kernels(other.compute))


def determinism(device: Device) -> Iterator[Row]:
    """Whether `torch.use_deterministic_algorithms` is content."""
    problem = tuple(values[::4] for values in embeddings_on(device, 64))
    for options in (*OPTIONS, {"protocol": "sysu_mm01_all_multi"}):
        metric = filled(problem, device, **options)
        torch.use_deterministic_algorithms(mode=True)
        try:
            metric.compute()
        finally:
            torch.use_deterministic_algorithms(mode=False)
        yield f"deterministic algorithms, {options or 'defaults'}", "run"


def memory(device: Device) -> Iterator[Row]:
    """The peak of a ranking beside its embeddings."""
    problem = embeddings_on(device, 512)
    for mebibytes in (64, 256, 1024):
        for ties in ("pessimistic", "stable", "expected"):
            options = {"ties": ties, "max_bytes": mebibytes << 20}
            peak = device.peak_bytes(lambda options=options: rank_positives(*problem, **options))
            yield f"peak at max_bytes of {mebibytes} MiB, {ties}", f"{peak >> 20} MiB"


def parts(device: Device) -> Iterator[Row]:
    """Milliseconds of what a ranking is made of, 3,368 x 15,913, by events."""
    for dimension in (512, 2048):
        problem = embeddings_on(device, dimension)
        query, gallery = problem[:2]
        scores = torch.empty(len(query), len(gallery), device=device.name)
        with full_precision(torch.device(device.name), foreign=False):
            bare = device.milliseconds(lambda q=query, g=gallery, out=scores: torch.mm(q, g.T, out=out))
        yield f"product, float32, dimension {dimension}", f"{bare:.3f} ms"
        for name, rows in (("all queries", query), ("one query", query[:1])):
            bare_of_rows = device.milliseconds(lambda q=rows, g=gallery: torch.mm(q, g.T))
            in_blocks = device.milliseconds(lambda q=rows, g=gallery: scores_of(q, g))
            times = f"{in_blocks:.3f} ms, {in_blocks / bare_of_rows:.2f} times the product"
            yield f"product in blocks of one shape, {name}, dimension {dimension}", times
        low = query.bfloat16(), gallery.bfloat16()
        yield (
            f"product, bfloat16, dimension {dimension}",
            f"{device.milliseconds(lambda low=low: low[0] @ low[1].T):.3f} ms",
        )
        ranked = device.milliseconds(lambda problem=problem: rank_positives(*problem), 7)
        yield f"rank_positives, dimension {dimension}", f"{ranked:.3f} ms, {ranked / bare:.2f} times the product"
    rows = scores.split(210)
    yield (
        "sort of all scores, which is not done",
        f"{device.milliseconds(lambda: [part.sort(dim=1) for part in rows], 5):.3f} ms",
    )
    yield "pass for NaN", f"{device.milliseconds(lambda: scores.amax(1).isnan().any()):.3f} ms"
    yield from counting(device, scores)


def counting(device: Device, scores: Tensor) -> Iterator[Row]:
    """Milliseconds of counting the negatives before so many positives, by both ways."""
    removed = torch.zeros(len(scores), dtype=torch.int64, device=device.name)
    for num_positives in (3, 6, 16, 51, 500):
        columns = torch.randperm(scores.shape[1], device=device.name)[:num_positives]
        thresholds = scores[:, columns].sort(dim=1, descending=True).values
        found = {}
        for way, few in (("comparison", 10**9), ("bins", 0)):
            if way == "comparison" and num_positives > 16:
                continue
            negatives_counting._FEW_THRESHOLDS, before = few, negatives_counting._FEW_THRESHOLDS  # noqa: SLF001 - each way by itself
            work = lambda t=thresholds: negatives_counting.count_by_lookup(scores, removed, t, or_tied=(True,))  # noqa: E731
            yield f"counts of {num_positives} positives, {way}", f"{device.milliseconds(work, 7):.3f} ms"
            found[way] = work()
            negatives_counting._FEW_THRESHOLDS = before  # noqa: SLF001
        if not all(torch.equal(found["bins"], other) for other in found.values()):
            raise AssertionError(f"ways differ at {num_positives} positives")


def metrics(device: Device) -> Iterator[Row]:
    """Seconds of `compute` of whole metrics."""
    for name, make in (("Market-1501", lambda: embeddings_on(device, 512)), ("MSMT17", lambda: msmt17_on(device))):
        problem = make()
        seconds = [device.seconds(filled(tuple(v.clone() for v in problem), device).compute) for _ in range(3)]
        yield f"ReIDMetrics.compute, {name}, dimension {problem[0].shape[1]}", f"{min(seconds):.4f} s"
        lists = filled(tuple(v.clone() for v in problem), device)
        yield f"nearest(10), {name}", f"{device.seconds(lambda metric=lists: metric.nearest(10)):.4f} s"
        del problem, lists


def msmt17_on(device: Device) -> Problem:
    """MSMT17's size, or a part of it in a trial."""
    problem = msmt17_size(512)
    return tuple((values[:200] if device.is_trial else values).to(device.name) for values in problem)


def detection(device: Device) -> Iterator[Row]:
    """Seconds of `DetectionMAP` at COCO's size, given boxes of the device and of the CPU, and whether they agree."""
    size = replace(VAL2017, num_images=40, num_ground_truths=300) if device.is_trial else VAL2017
    preds, target = detection_problem(size)
    values = {}
    for where in (device.name, "cpu"):
        given = [[{key: value.to(where) for key, value in each.items()} for each in side] for side in (preds, target)]
        metric = DetectionMAP().to(where)
        metric.warn_on_many_detections = False
        update = device.seconds(lambda metric=metric, given=given: update_all(metric, *given))
        compute = device.seconds(lambda metric=metric, where=where: values.update({where: metric.compute()}))
        yield f"DetectionMAP of boxes of {where}", f"update {update:.3f} s, compute {compute:.3f} s"
    there, here = values[device.name], values["cpu"]
    yield (
        "numbers that differ",
        ", ".join(name for name in here if not torch.equal(there[name].cpu(), here[name])) or "none",
    )


def update_all(metric: DetectionMAP, preds: Batch, target: Batch) -> None:
    """Give a metric all images, 32 at a time."""
    for first in range(0, len(preds), 32):
        metric.update(preds[first : first + 32], target[first : first + 32])


def take(steps: Sequence[Callable[[Device], Iterator[Row]]], device: Device) -> bool:
    """Print a table of each step; whether all went well."""
    start, went_well = time.perf_counter(), True
    for step in steps:
        begun = time.perf_counter() - start
        if begun > SECONDS:
            print(f"\n{step.__name__}: left out after {begun:.0f} s")
            continue
        print(
            f"\n{step.__doc__.splitlines()[0]} ({step.__name__}, after {begun:.0f} s)\n\n| what | seen |\n| --- | --- |"
        )
        try:
            for what, seen in step(device):
                print(f"| {what} | {seen} |", flush=True)
        except Exception:  # noqa: BLE001 - the other steps are taken all the same
            went_well = False
            print(f"\nFAILS\n{traceback.format_exc()}", flush=True)
        if not device.is_trial:
            torch.cuda.empty_cache()
    return went_well


def main() -> None:
    """Take all steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trial", action="store_true", help="small and on the CPU")
    is_trial = parser.parse_args().trial
    if not is_trial and not torch.cuda.is_available():
        sys.exit("`gpu.py` needs a GPU; `--trial` runs its steps on the CPU.")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else products refuse deterministic algorithms
    device = Device(is_trial=is_trial)
    print(f"torch {torch.__version__}, {device.title}")
    steps = (tests, equal_scores, same_bits, same_ranks, waits, determinism, memory, parts, metrics, detection)
    sys.exit(0 if take(steps, device) else 1)


if __name__ == "__main__":
    main()
