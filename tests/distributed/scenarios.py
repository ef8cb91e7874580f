"""Everything that several processes do together, drawn at random: metrics, options, labels and kinds of results.

A scenario is drawn from a seed alike on all processes. Each feeds a metric with its share of the samples, which may be
nothing, and asks for what the others ask for.
"""

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import (
    DetectionMAP,
    DetectionMetrics,
    EmbeddingQuality,
    KReciprocal,
    LvisMAP,
    PairVerification,
    QueryExpansion,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
    ReIDOpenSet,
    VocMAP,
    YoloMAP,
)
from reid_torchmetrics.command.evaluate import read_sides
from reid_torchmetrics.command.options import parsed
from reid_torchmetrics.command.processes import Share
from reid_torchmetrics.command.streams import streamed
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.retrieval.evaluation import PROTOCOLS, take_protocol
from reid_torchmetrics.functional.retrieval.relevance import LABELS
from reid_torchmetrics.functional.world import World
from tests.distributed.problems import SIMILARITIES
from tests.functional.detection.detection_samples import images
from tests.functional.detection.keypoint_samples import SIGMAS, keypoint_images
from tests.functional.detection.mask_samples import mask_images
from tests.strategies import ALL_TIES, SAME_CAMERA

RADIUS = 25.0
DRAWING = [name for name, protocol in PROTOCOLS.items() if protocol.draw is not None]


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
        with contextlib.suppress(TypeError, ValueError):
            self.feed(metric, process)
        return self.ask(metric, world)


def dealt(random: Random, total: int, size: int) -> list[list[int]]:
    """Every sample to some process; some processes have none, and some samples come to several."""
    active = random.sample(range(size), random.randint(1, size))
    seen: list[list[int]] = [[] for _ in range(size)]
    for sample in range(total):
        for process in random.sample(active, 1 if random.random() < 0.9 else min(2, len(active))):
            seen[process].append(sample)
    return seen


def labels_of(random: Random, total: int, names: set[str]) -> dict[str, Tensor]:
    """Labels by name; members of a group have the same ones, but for positions."""
    groups = torch.tensor([random.randrange(max(1, total // 2)) for _ in range(total)], dtype=torch.int64)
    labels = {}
    for name, label in LABELS.items():
        if name not in names:
            continue
        if name == "index":
            labels[name] = torch.tensor(random.sample(range(3 * total + 1), total), dtype=torch.int64)
        elif name == "groups":
            labels[name] = groups
        elif label.dtype.is_floating_point:
            rows = [[5e5 + random.choice((0.0, 15.0, 20.0, 25.0, 40.0)) for _ in range(2)] for _ in range(total)]
            labels[name] = torch.tensor(rows, dtype=label.dtype).view(total, 2)
        elif "groups" in names:
            labels[name] = groups * random.choice((1, 3, 7)) % random.choice((2, 3))
        else:
            labels[name] = torch.tensor([random.randrange(3) for _ in range(total)], dtype=label.dtype)
    if "groups" in names and "positions" in names and random.random() < 0.5:
        labels["positions"] = labels["positions"][groups]  # all groups stay in place
    return labels


def retrieval(random: Random, size: int) -> Scenario:
    """A metric of embeddings under any labels and options."""
    options: dict[str, Any] = {"ties": random.choice([*ALL_TIES]), "similarity": random.choice(SIMILARITIES)}
    options["max_bytes"] = random.choice((None, 1, 500, 20_000))
    kind = random.choice(("plain", "plain", "radius", "radius", "protocol", "drawn", "reranked"))
    total, names = random.choice((0, 1, 3, 9, 20, 40)), {name for name in LABELS if random.random() < 0.5}
    names |= {"identities", "index"} if random.random() < 0.7 else {"identities"}
    if kind == "radius":
        options["radius"] = RADIUS
        names.add("positions")
    elif kind == "protocol":
        options["protocol"] = random.choice([*PROTOCOLS])
    elif kind == "drawn":
        options["protocol"] = random.choice(DRAWING)
        options["ties"] = random.choice(("pessimistic", "optimistic", "stable"))
        names |= {"cameras"}
    if kind in ("protocol", "drawn"):
        names |= {*PROTOCOLS[options["protocol"]].needed_labels}
        names |= {"groups"} if PROTOCOLS[options["protocol"]].needs_groups else set()
    if kind == "reranked":
        options["similarity"] = random.choice(("cosine", "euclidean"))
        options["rerank"] = random.choice((KReciprocal(k1=3, k2=2), QueryExpansion(k=2)))
    if kind in ("drawn", "reranked"):
        names.discard("groups")
    if kind in ("plain", "radius"):
        options["same_camera"] = random.choice([*SAME_CAMERA])
        if "clothes" in names:
            options["clothes"] = random.choice(("keep", "drop_same", "drop_other"))
        options["junk_identities"] = random.choice(((), (-1,), (0,)))
        options["empty_target_action"] = random.choice(("skip", "neg", "pos"))
    labels = labels_of(random, total, names)
    embeddings = torch.tensor([[random.randint(-2, 2) for _ in range(4)] for _ in range(total)]).view(total, 4).float()
    if total and random.random() < 0.05:
        embeddings[random.randrange(total)] = torch.nan
    roles = random.choice(("mixed", "mixed", "batches", "none"))
    if "groups" in names or PROTOCOLS[options.get("protocol", "market1501")].leave_one_out is False:
        roles = "mixed" if roles == "none" else roles
    if PROTOCOLS[options.get("protocol", "market1501")].leave_one_out:
        roles = "none"
        labels.pop("groups", None)
    is_query = torch.tensor([random.random() < 0.4 for _ in range(total)], dtype=torch.bool)
    seen, batch_size = dealt(random, total, size), random.choice((1, 3, 100))
    classes: list[tuple[str, Callable[..., Any]]] = [
        ("ReIDMeanAP", lambda **more: ReIDMeanAP(**options, **more)),
        ("ReIDMINP", lambda **more: ReIDMINP(**options, **more)),
        ("ReIDCMC", lambda **more: ReIDCMC(2, **options, **more)),
        ("ReIDCMCCurve", lambda **more: ReIDCMCCurve(5, **options, **more)),
        ("ReIDMeasure", lambda **more: ReIDMeasure("precision_2", **options, **more)),
        ("ReIDMetrics", lambda **more: ReIDMetrics(**options, **more)),
        ("ReIDOpenSet", lambda **more: ReIDOpenSet(0.1, **options, **more)),
    ]
    if roles != "none":
        directions = {"directions": ("a2b", "b2a")}
        classes.append(("ReIDMetrics", lambda **more: ReIDMetrics(**directions, **options, **more)))
    name, make = random.choice(classes)
    k, threshold = random.randint(1, 30), random.choice((-1.0, 0.5, 0.9))
    queries = torch.tensor([0, 0]) if random.random() < 0.2 else None
    asked: dict[str, Callable[[Any, World], object]] = {
        "compute": lambda metric, _: metric.compute(),
        "results": lambda metric, _: metric.results(),
        "results with lists and cameras": lambda metric, _: metric.results(
            nearest=3, camera_pairs="cameras" in labels and options.get("protocol") not in DRAWING
        ),
        "nearest": lambda metric, _: metric.nearest(k, queries),
        "duplicates": lambda metric, _: metric.duplicates(abs(threshold)),
        "compute twice": lambda metric, _: (metric.compute(), metric.results()),
    }
    if name == "ReIDOpenSet":
        asked["identification"] = lambda metric, _: metric.identification()
    method = random.choice([*asked])

    def feed(metric: Any, process: int) -> None:
        order = [*seen[process]]
        if roles == "batches":
            parts = [[place for place in order if bool(is_query[place]) == role] for role in (True, False)]
        else:
            parts = [order]
        for part in parts:
            for first in range(0, len(part), batch_size):
                places = torch.tensor(part[first : first + batch_size])
                given = {label: values[places] for label, values in labels.items()}
                role: Any = {"none": None, "mixed": is_query[places], "batches": bool(is_query[places[0]])}[roles]
                metric.update(embeddings[places], is_query=role, **given)

    facts = {"method": method, "labels": [*labels], "roles": roles, "total": total, "seen": seen, **options}
    return Scenario(make, feed, asked[method], name, facts)


def detection(random: Random, size: int) -> Scenario:
    """A metric of boxes or other shapes, or the function, with any kind of image ids."""
    total, seed, ids = random.choice((0, 1, 4, 9)), random.getrandbits(20), random.choice(("none", "int", "str"))
    shapes = random.choice(("bbox", "bbox", "segm", "keypoints", "rotated"))
    if shapes == "segm":
        preds, target = mask_images(seed, total)
    elif shapes == "keypoints":
        preds, target = keypoint_images(seed, total)
    else:
        preds, target = images(seed, total, num_levels=4)
    if shapes == "rotated":
        preds, target = ([_rotated(each) for each in side] for side in (preds, target))
    if shapes == "keypoints":
        preds, target = ([_without_boxes(each) for each in side] for side in (preds, target))
    for number, item in enumerate(target):
        item.pop("image_id", None)
        if ids != "none":
            item["image_id"] = 3 * number if ids == "int" else f"{number}.jpg"
        item |= {"neg_category_ids": [0, 3], "not_exhaustive_category_ids": [1]}
    seen = dealt(random, total, size)
    options: dict[str, Any] = {"iou_type": shapes} | ({"sigmas": SIGMAS} if shapes == "keypoints" else {})
    classes: dict[str, Callable[..., Any]] = {"DetectionMAP": lambda **more: DetectionMAP(**options, **more)}
    if shapes == "bbox":
        classes |= {
            "DetectionMAP, micro": lambda **more: DetectionMAP(
                average="micro", class_metrics=True, extended_summary=True, **more
            ),
            "LvisMAP": lambda **more: LvisMAP(frequencies={0: "r", 1: "f"}, **more),
            "LvisMAP, fixed": lambda **more: LvisMAP(fixed=True, max_detections=3, **more),
            "YoloMAP": lambda **more: YoloMAP(**more),
            "YoloMAP, scaled": lambda **more: YoloMAP(matching="scaled_yolov4", **more),
            "YoloMAP, yolov4": lambda **more: YoloMAP(matching="yolov4", **more),
            "DetectionMetrics": lambda **more: DetectionMetrics(**more),
        }
    if shapes in ("bbox", "rotated"):
        classes["VocMAP"] = lambda **more: VocMAP(**options, **more)
    name = random.choice([*classes])
    held = {kind: random.random() < 0.5 for kind in ("across_classes", "boxes", "localization")}
    if name == "DetectionMetrics":
        del held["localization"]
    evaluator = random.choice(("coco", "lvis", "voc", "ultralytics", "scaled_yolov4", "yolov4"))

    def at(process: int) -> tuple[Any, Any]:
        return [preds[place] for place in seen[process]], [target[place] for place in seen[process]]

    asked: dict[str, Callable[[Any, World], object]] = {
        "compute": lambda metric, _: metric.compute(),
        "results": lambda metric, _: metric.results(**held),
    }
    if name != "DetectionMetrics":
        chosen = ["0.jpg"] if ids == "str" else torch.tensor([0])
        asked["boxes_of"] = lambda metric, _: metric.boxes_of(chosen)
        asked["compute twice"] = lambda metric, _: (metric.compute(), metric.results())
    if shapes == "bbox":
        asked["evaluate_images"] = lambda _, world: evaluate_images(
            *at(world.process), evaluator=evaluator, world=world, **held
        )
    method = random.choice([*asked])

    def feed(metric: Any, process: int) -> None:
        for place in seen[process]:
            metric.update([preds[place]], [target[place]])

    return Scenario(classes[name], feed, asked[method], name, {"method": method, "ids": ids, "seen": seen} | options)


def _without_boxes(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values for name, values in item.items() if name != "boxes"}


def _rotated(item: Mapping[str, Any]) -> dict[str, Any]:
    boxes = item["boxes"]
    centers, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    angles = torch.full((len(boxes), 1), 0.3)
    others = {name: values for name, values in item.items() if name not in ("boxes", "iscrowd", "area")}
    return others | {"rotated_boxes": torch.cat([centers, sizes, angles], 1)}


def quality(random: Random, size: int) -> Scenario:
    """How embeddings are spread."""
    names = ("rankme", "dead_dimensions", "norm_mean", "norm_std", "alignment", "uniformity", "hubness")
    measures, total = random.sample(names, random.randint(1, len(names))), random.choice((0, 1, 2, 5, 30))
    rows = torch.tensor([[random.gauss(0, 1) for _ in range(5)] for _ in range(total)]).view(total, 5)
    if total and random.random() < 0.2:
        rows[0] = random.choice((0.0, torch.nan))
    identities, seen = torch.tensor([random.randrange(3) for _ in range(total)]), dealt(random, total, size)

    def feed(metric: Any, process: int) -> None:
        for place in seen[process]:
            metric.update(rows[place][None], identities[place][None])

    def make(**more: Any) -> EmbeddingQuality:
        return EmbeddingQuality(measures, **more)

    return Scenario(make, feed, lambda metric, _: metric.compute(), "EmbeddingQuality", {"seen": seen})


def pairs(random: Random, size: int) -> Scenario:
    """Verification of given pairs."""
    name, total = random.choice(("auc", "eer", "tar_at_far", "min_dcf")), random.choice((0, 1, 6, 30))
    first, second = (torch.tensor([[random.gauss(0, 1)] * 3 for _ in range(total)]).view(total, 3) for _ in range(2))
    same, seen = (
        torch.tensor([random.random() < 0.5 for _ in range(total)], dtype=torch.bool),
        dealt(random, total, size),
    )
    has_index, method = random.random() < 0.5, random.choice(("compute", "results"))

    def feed(metric: Any, process: int) -> None:
        for place in seen[process]:
            index = torch.tensor([place]) if has_index else None
            metric.update(first[place][None], second[place][None], same[place][None], index=index)

    def make(**more: Any) -> PairVerification:
        return PairVerification(name, **more)

    return Scenario(make, feed, lambda metric, _: getattr(metric, method)(), "PairVerification", {"seen": seen})


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
        arguments, options = parsed("evaluate", words)
        protocol, others = take_protocol("market1501", options, lists=False)
        return read_sides(arguments), others | {"protocol": protocol}

    def ask(sides_and_options: Any, world: World) -> object:
        return streamed(*sides_and_options, Share(world.process, world.size))

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
    "pairs": pairs,
    "lists": lists,
    "stream": stream,
}
WEIGHTS = (8, 4, 1, 1, 1, 1)


def scenario(seed: int, size: int) -> Scenario:
    """A scenario for so many processes."""
    random = Random(seed)  # noqa: S311 - no secret
    (kind,) = random.choices([*KINDS], WEIGHTS)
    return KINDS[kind](random, size)
