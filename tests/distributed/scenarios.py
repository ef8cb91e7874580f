"""What several processes do together, drawn at random: each feeds a metric with its share, and all ask for the same.

Most scenarios are problems of `tests.same_numbers` whose samples are dealt out. A scenario is drawn alike on all
processes, of which some may have nothing.
"""

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

import torch

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.command.options import parse
from reid_torchmetrics.command.processes import Share
from reid_torchmetrics.command.sample_reading import read_sample_sets
from reid_torchmetrics.command.streams import evaluate_streamed_gallery
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.retrieval.evaluation import PROTOCOLS, take_protocol
from reid_torchmetrics.functional.world import ALONE, World
from tests.same_numbers import kinds, pairs
from tests.same_numbers.answers import answer, build, public
from tests.same_numbers.problems import Problem
from tests.same_numbers.retrieval import picked


@dataclass
class Scenario:
    """A metric with its share of samples, and what is asked of it."""

    make: Callable[..., Any]
    """the metric, given keyword arguments of `torchmetrics.Metric`"""
    feed: Callable[[Any, int], None]
    """give the metric the samples of a process"""
    ask: Callable[[Any, World], object]
    """what all processes ask for together"""
    name: str
    facts: dict[str, object] = field(default_factory=dict)
    """what was drawn, for messages"""

    def outcome(self, process: int, world: World, **options: Any) -> object:
        """What a process is told; the others are told of a batch that it refused."""
        metric = self.make(**options)
        with contextlib.suppress(ValueError):  # a TypeError would be an argument that `update` does not have
            self.feed(metric, process)
        return self.ask(metric, world)

    def alone(self, size: int) -> object:
        """What one process is told that has the samples of so many, process by process."""
        metric = self.make()
        for process in range(size):
            self.feed(metric, process)
        return self.ask(metric, ALONE)


def dealt(random: Random, total: int, size: int) -> list[list[int]]:
    """Every sample to some process; some processes have none, and some samples come to several."""
    active = random.sample(range(size), random.randint(1, size))
    seen: list[list[int]] = [[] for _ in range(size)]
    for sample in range(total):
        for process in random.sample(active, 1 if random.random() < 0.9 else min(2, len(active))):
            seen[process].append(sample)
    return seen


class Images:
    """Detections and ground truths of a process, for the function that takes them all."""

    def __init__(self, **_: Any) -> None:
        self.preds: list[Any] = []
        self.target: list[Any] = []

    def update(self, preds: list[Any], target: list[Any]) -> None:
        self.preds += preds
        self.target += target


def rows_of(batch: Mapping[str, Any], places: list[int]) -> dict[str, Any]:
    """Some samples of a batch."""
    return {name: value if isinstance(value, bool) else picked(value, places) for name, value in batch.items()}


def of_problem(random: Random, size: int, problem: Problem) -> Scenario:
    """A metric, or a function of images, whose samples are dealt out."""
    call, batches = problem.call, list(problem.batches)
    is_function = not batches and call.name == "evaluate_images"
    if is_function:
        batches = [dict(zip(("preds", "target"), call.positional, strict=True))]
    facts = {"call": call.name, **problem.facts} | change_batches(random, batches)
    rows = [
        (number, place)
        for number, batch in enumerate(batches)
        for place in range(max(len(values) for values in batch.values() if not isinstance(values, bool)))
    ]
    seen, most = dealt(random, len(rows), size), random.choice((1, 3, 100))
    question = random.choice(problem.questions)

    def feed(metric: Any, process: int) -> None:
        for number, group in groupby((rows[place] for place in seen[process]), key=itemgetter(0)):
            places = [place for _, place in group]
            for first in range(0, len(places), most):
                metric.update(**rows_of(batches[number], places[first : first + most]))

    def make(**others: Any) -> Any:
        return Images() if is_function else public(call.name)(**build(call.arguments), **others)

    def ask(metric: Any, world: World) -> object:
        if is_function:
            return evaluate_images(metric.preds, metric.target, world=world, **build(call.arguments))
        return answer(metric, question)

    return Scenario(make, feed, ask, call.name, facts | {"seen": seen, "asked": question.name})


def change_batches(random: Random, batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Give some images names, and make some embeddings invalid; what was changed."""
    if not batches:
        return {}
    if "target" in batches[0]:
        has_ids = any("image_id" in item for batch in batches for item in batch["target"])
        if has_ids and random.random() < 0.4:
            for batch in batches:
                batch["target"] = [item | {"image_id": f"{item['image_id']}.jpg"} for item in batch["target"]]
        return {"ids": "some" if has_ids else "none"}
    if "is_query" in batches[0] and len(batches[0]["embeddings"]) and random.random() < 0.05:
        batches[0]["embeddings"] = batches[0]["embeddings"].clone()
        batches[0]["embeddings"][0] = torch.nan
    return {}


def retrieval(random: Random, size: int) -> Scenario:
    """A metric of embeddings under any labels and options."""
    return of_problem(random, size, kinds.KINDS["metrics"](random))


def detection(random: Random, size: int) -> Scenario:
    """A metric of boxes or other shapes, or the function."""
    shape = random.choice(("boxes", "boxes", "masks", "keypoints", "rotated"))
    return of_problem(random, size, kinds.KINDS[shape](random))


def quality(random: Random, size: int) -> Scenario:
    """How embeddings are spread."""
    return of_problem(random, size, pairs.quality(random))


def given_pairs(random: Random, size: int) -> Scenario:
    """Verification of given pairs."""
    return of_problem(random, size, pairs.pair_metric(random))


def stream(random: Random, size: int) -> Scenario:
    """A gallery in files that `evaluate --stream` reads, each process a part."""
    folder = tempfile.mkdtemp()
    words = [str(Path(folder, "query.pt")), str(Path(folder, "gallery")), "--stream"]
    words += ["--similarity", random.choice(("cosine", "euclidean", "dot"))]
    words += ["--ties", random.choice(("pessimistic", "optimistic", "grouped"))]
    sizes = [random.choice((1, 2, 12)), *(random.choice((1, 2, 25)) for _ in range(random.randint(1, 3)))]
    Path(folder, "gallery").mkdir()
    generator = torch.Generator().manual_seed(random.getrandbits(30))
    for number, length in enumerate(sizes):
        # No array of NumPy: Python 3.11 does not parse their headers in several threads at a time.
        arrays = {
            "embeddings": torch.randint(-2, 3, (length, 4), generator=generator).float(),
            "identities": torch.randint(0, 4, (length,), generator=generator),
            "cameras": torch.randint(0, 2, (length,), generator=generator),
        }
        torch.save(arrays, Path(folder, f"gallery/{number}.pt" if number else "query.pt"))

    def read(**_: Any) -> tuple[Any, dict[str, Any]]:
        arguments, options = parse("evaluate", words)
        protocol, others, _ = take_protocol("market1501", options, lists=False)
        sides = read_sample_sets(arguments, needs_identities=True)
        sides.check_names(protocol.relevance_options)
        return sides, others | {"protocol": protocol}

    def ask(sides_and_options: Any, world: World) -> object:
        return evaluate_streamed_gallery(*sides_and_options, Share(world.process, world.size))

    drawn = Scenario(read, lambda *_: None, ask, "stream", {"words": words, "sizes": sizes})
    weakref.finalize(drawn, shutil.rmtree, folder, ignore_errors=True)
    return drawn


def lists(random: Random, size: int) -> Scenario:
    """Relevance by the lists that come with each query."""
    num_queries, num_items, name = random.randint(0, 5), random.randint(0, 12), random.choice(LISTED)
    positives, junk = PROTOCOLS[name].positive_lists[0], PROTOCOLS[name].junk_lists[0]
    truth = {}
    for query in range(num_queries):
        kinds = [random.choice((positives, junk, None)) for _ in range(num_items)]
        places = {kind: [100 + place for place, each in enumerate(kinds) if each == kind] for kind in (positives, junk)}
        truth[query] = {kind: numbers + [500] * (kind == positives) for kind, numbers in places.items()}
    total = num_queries + num_items
    rows = torch.tensor([[random.randint(-2, 2) for _ in range(3)] for _ in range(total)]).view(total, 3).float()
    index = torch.tensor([*range(num_queries), *range(100, 100 + num_items)], dtype=torch.int64)
    seen, method = dealt(random, total, size), random.choice(("compute", "results", "nearest"))

    def feed(metric: Any, process: int) -> None:
        for place in seen[process]:
            metric.update(rows[place][None], is_query=place < num_queries, index=index[place][None])

    def make(**more: Any) -> ReIDMeanAP:
        return ReIDMeanAP(protocol=name, ground_truth=truth, **more)

    return Scenario(make, feed, lambda metric, _: getattr(metric, method)(), "ReIDMeanAP", {"seen": seen})


LISTED = ("roxford5k_easy", "roxford5k_hard")
KINDS = {
    "retrieval": retrieval,
    "detection": detection,
    "quality": quality,
    "pairs": given_pairs,
    "lists": lists,
    "stream": stream,
}
WEIGHTS = (8, 4, 1, 1, 1, 1)


def scenario(seed: int, size: int) -> Scenario:
    """A scenario for so many processes."""
    random = Random(seed)  # noqa: S311 - no secret
    (kind,) = random.choices([*KINDS], WEIGHTS)
    return KINDS[kind](random, size)
