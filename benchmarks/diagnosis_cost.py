"""Claims: looking for likely mistakes costs next to nothing, and where a mistake is suspected as much as the numbers.

    python benchmarks/diagnosis_cost.py [PART ...]     # of detection, retrieval, market, expected, expected_boxes

Nothing that is suspected is found here: detectors and models are untrained. The ways take turns, each with a metric
that was just filled; for the suspicions alone, trials find nothing at once.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from harness.claims import claim, compare, main
from harness.detection_shapes import COCO, SHAPES
from harness.load import set_threads
from harness.problems import NOISE, market1501
from reid_torchmetrics import DetectionMAP, ReIDMetrics, _extras, diagnosis, evaluate
from reid_torchmetrics.functional.detection.evaluation import EvaluatedImages
from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples

ROUNDS = 15
UNTRAINED = 100.0
"""noise of embeddings that know nothing"""


def seconds_of(fill: Callable[[], Any], rounds: int) -> dict[str, list[float]]:
    """Processor time of `compute` of filled metrics without the diagnosis, with suspicions, and with trials."""
    warnings.simplefilter("ignore")
    seconds: dict[str, list[float]] = {"without": [], "suspicions": [], "trials": []}
    for repeat in range(rounds + 1):
        for way, taken in seconds.items():
            metric = fill()
            with WAYS[way]():
                start = time.process_time()
                metric.compute()
                took = time.process_time() - start
            if repeat:
                taken.append(took)
    return seconds


@contextmanager
def no_diagnosis() -> Iterator[None]:
    """Let the engine find no diagnosis."""
    with mock.patch.object(_extras, "diagnosis", None):
        yield


@contextmanager
def no_trials() -> Iterator[None]:
    """Let all suspicions be asked, and let each trial find nothing at once."""

    def find_nothing(_: object) -> None:
        return None

    def without_trial(cause: Any) -> Any:
        return cause if cause.suspect is None else replace(cause, find=find_nothing)

    with ExitStack() as stack:
        for samples_type in (EvaluatedImages, RankedSamples):
            module = diagnosis.module_for(samples_type)
            calm = {
                samples: (case_of, {name: without_trial(cause) for name, cause in causes.items()})
                for samples, (case_of, causes) in module.REGISTRIES.items()
            }
            stack.enter_context(mock.patch.dict(module.REGISTRIES, calm))
        yield


WAYS = {"without": no_diagnosis, "suspicions": no_trials, "trials": nullcontext}


def state_claims(name: str, fill: Callable[[], Any], rounds: int = ROUNDS) -> None:
    """Compare the three ways."""
    set_threads(1)
    seconds = seconds_of(fill, rounds)
    compare(f"Suspicions add a tenth at most to {name}.", seconds["suspicions"], seconds["without"], 1.1)
    compare(
        f"A call with trials takes three times at most as long as {name}.", seconds["trials"], seconds["without"], 3
    )


def untrained_detector(num_images: int, num_detections: int, num_ground_truths: int) -> Callable[[], DetectionMAP]:
    """Return a function that fills a metric with boxes anywhere."""
    generator = torch.Generator().manual_seed(0)

    def boxes(num: int) -> Tensor:
        sides = 20 + 60 * torch.rand(num, 2, generator=generator)
        near = torch.rand(num, 2, generator=generator) * (torch.tensor([640.0, 480.0]) - sides)
        return torch.cat([near, near + sides], 1)

    def labels(num: int) -> Tensor:
        return torch.randint(0, 20, (num,), generator=generator)

    preds, target = [], []
    for _ in range(num_images):
        scores = torch.rand(num_detections, generator=generator)
        preds.append({"boxes": boxes(num_detections), "scores": scores, "labels": labels(num_detections)})
        target.append({"boxes": boxes(num_ground_truths), "labels": labels(num_ground_truths)})

    def fill() -> DetectionMAP:
        preds[0]["scores"] = torch.rand(num_detections, generator=generator)  # otherwise matches are found in a cache
        metric = DetectionMAP()
        for start in range(0, num_images, 16):
            metric.update(preds[start : start + 16], target[start : start + 16])
        return metric

    return fill


def detection() -> None:
    """An untrained detector, on few images and on many; and how many functions a calm call enters."""
    for num_images, num_ground_truths, rounds in ((4, 8, 5 * ROUNDS), (2_000, 7, ROUNDS)):
        fill = untrained_detector(num_images, 100, num_ground_truths)
        state_claims(f"`DetectionMAP.compute` of an untrained detector on {num_images:,} images", fill, rounds)
    metric = untrained_detector(40, 60, 40)()
    text = "`DetectionMAP.compute` of 40 images without trials calls so many functions of the package."
    with no_trials():
        claim(text, _calls(metric.compute), 450)


def _calls(function: Callable[[], object]) -> int:
    """Count the calls of named functions of the package, on all threads."""
    count = 0

    def profile(frame: Any, event: str, _: object) -> None:
        nonlocal count
        code = frame.f_code
        if event == "call" and "/reid_torchmetrics/" in code.co_filename and not code.co_name.startswith("<"):
            count += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


def retrieval() -> None:
    """A validation of 50 queries, and one of Market-1501's size."""
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(250, 64, generator=generator)
    identities = torch.randint(0, 20, (250,), generator=generator)
    cameras = torch.randint(0, 4, (250,), generator=generator)
    is_query = torch.arange(250) < 50

    def fill() -> ReIDMetrics:
        metric = ReIDMetrics()
        embeddings[0] = torch.randn(64, generator=generator)  # otherwise a ranking is found in a cache
        metric.update(embeddings.clone(), identities, cameras, is_query=is_query)
        return metric

    state_claims("`ReIDMetrics.compute` of 50 x 200 x 64", fill, 5 * ROUNDS)


def market() -> None:
    """The same for 3,368 x 15,913 x 512."""
    query, gallery, query_identities, gallery_identities, query_cameras, gallery_cameras = market1501(512, UNTRAINED)

    def fill() -> ReIDMetrics:
        metric = ReIDMetrics()
        query[0] = torch.randn(512)  # otherwise a ranking is found in a cache
        metric.update(query.clone(), query_identities, query_cameras, is_query=True)
        metric.update(gallery.clone(), gallery_identities, gallery_cameras, is_query=False)
        return metric

    state_claims("`ReIDMetrics.compute` of Market-1501's size", fill, 5)


def expected() -> None:
    """The search of all conventions for a number that none of them gives, at Market-1501's size."""
    query, gallery, *labels = market1501(512, NOISE["good"][512])
    seconds: dict[str, list[float]] = {"evaluate": [], "diagnose": []}
    for repeat in range(4):
        start = time.process_time()
        results = evaluate(query, gallery, *labels)
        evaluated = time.process_time()
        explanation = diagnosis.diagnose(results, expected="0.45671")
        if repeat and not explanation.conventions:
            seconds["evaluate"].append(evaluated - start)
            seconds["diagnose"].append(time.process_time() - evaluated)
    text = "`diagnose(results, expected=...)` of Market-1501's size takes at most 12 times an evaluation."
    compare(text, seconds["diagnose"], seconds["evaluate"], 12, peer="evaluate")


def expected_boxes() -> None:
    """The search for a number that no convention gives, of detections of COCO val2017's size."""
    set_threads(1)
    warnings.simplefilter("ignore")
    preds, target = SHAPES[COCO].problem()
    generator = torch.Generator().manual_seed(0)
    seconds: dict[str, list[float]] = {"compute": [], "diagnose": []}
    for repeat in range(6):
        for way, taken in seconds.items():
            metric = DetectionMAP()
            preds[0]["scores"] = torch.rand(len(preds[0]["scores"]), generator=generator)  # see above
            metric.update(preds, target)
            start = time.process_time()
            if way == "compute":
                metric.compute()
            else:
                diagnosis.diagnose(metric, expected="99.99")
            took = time.process_time() - start
            if repeat:
                taken.append(took)
    text = f"A search of the conventions of {COCO} takes at most 20 times as long as `DetectionMAP.compute`."
    compare(text, seconds["diagnose"], seconds["compute"], 20)


if __name__ == "__main__":
    main(detection, retrieval, market, expected, expected_boxes)
