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
from reid_torchmetrics.command.options import parse
from reid_torchmetrics.command.processes import Share
from reid_torchmetrics.command.sample_reading import read_sample_sets
from reid_torchmetrics.command.streams import evaluate_streamed_gallery
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
DRAWING = [name for name, protocol in PROTOCOLS.items() if protocol.gallery_draw is not None]


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
    options, names = retrieval_options(random)
    total = random.choice((0, 1, 3, 9, 20, 40))
    labels = labels_of(random, total, names)
    if random.random() < 0.3:  # several labels of each sample, two words of bits or one
        num_labels = random.choice((2, 70))
        patterns = [[random.random() < 0.5 for _ in range(num_labels)] for _ in range(3)]
        labels["identities"] = torch.tensor(patterns)[labels["identities"]]
    named = names_of(random, labels, options)
    embeddings = torch.tensor([[random.randint(-2, 2) for _ in range(4)] for _ in range(total)]).view(total, 4).float()
    if total and random.random() < 0.05:
        embeddings[random.randrange(total)] = torch.nan
    roles = random.choice(("mixed", "batches") if "groups" in names else ("mixed", "mixed", "batches", "none"))
    if PROTOCOLS[options.get("protocol", "market1501")].leave_one_out:
        roles = "none"
        labels.pop("groups", None)
    is_query = torch.tensor([random.random() < 0.4 for _ in range(total)], dtype=torch.bool)
    seen, batch_size = dealt(random, total, size), random.choice((1, 3, 100))
    kind, more = random.choice(RETRIEVAL_METRICS)
    if kind is ReIDMetrics and roles != "none" and random.random() < 0.5:
        more = more | {"directions": ("a2b", "b2a")}
    method, ask = retrieval_question(random, kind, with_pairs="cameras" in labels and not _draws(options))

    def feed(metric: Any, process: int) -> None:
        parts = [seen[process]]
        if roles == "batches":
            parts = [[place for place in seen[process] if bool(is_query[place]) == role] for role in (True, False)]
        for part in parts:
            for first in range(0, len(part), batch_size):
                places = torch.tensor(part[first : first + batch_size])
                given: dict[str, Any] = {label: values[places] for label, values in labels.items()}
                given |= {
                    label: [NAMES[number] for number in given[label].tolist()]
                    for label in named(process)
                    if label in given
                }
                role: Any = {"none": None, "mixed": is_query[places], "batches": bool(is_query[places[0]])}[roles]
                metric.update(embeddings[places], is_query=role, **with_named_label(given))

    def make(**others: Any) -> Any:
        return kind(**more, **options, **others)

    facts = {"method": method, "labels": [*labels], "roles": roles, "total": total, "seen": seen, **options}
    return Scenario(make, feed, ask, kind.__name__, facts)


def with_named_label(labels: dict[str, Any]) -> dict[str, Any]:
    """The labels of a batch as arguments: the one that users name is in a mapping."""
    return labels | {"labels": {"side": labels["labels"]}} if "labels" in labels else labels


def names_of(random: Random, labels: Mapping[str, Tensor], options: dict[str, Any]) -> Callable[[int], list[str]]:
    """Which labels a process gives as names, all of one kind or, as a mistake, on some processes alone."""
    integers = [label for label, values in labels.items() if values.dtype == torch.int64 and label != "index"]
    if random.random() < 0.6 or labels["identities"].dtype == torch.bool or options.get("protocol") in DRAWING:
        return lambda _: []
    named = [label for label in integers if random.random() < 0.7]
    if 0 in options.get("junk_identities", ()) and "identities" in named:
        options["junk_identities"] = (NAMES[0],)
    if random.random() < 0.3:
        options["missing_identities"] = "junk"
    is_mistaken = random.random() < 0.1
    return lambda process: named[process % 2 :] if is_mistaken else named


NAMES = ["unknown", *(f"name {number}" for number in range(1, 400))]


def retrieval_options(random: Random) -> tuple[dict[str, Any], set[str]]:
    """Options of a metric of embeddings, and the names of the labels that it is given."""
    options: dict[str, Any] = {"ties": random.choice([*ALL_TIES]), "similarity": random.choice(SIMILARITIES)}
    options["max_bytes"] = random.choice((None, 1, 500, 20_000))
    names = {name for name in LABELS if random.random() < 0.5} | {"identities"}
    names |= {"index"} if random.random() < 0.5 else set()
    kind = random.choice(("plain", "plain", "radius", "radius", "protocol", "drawn", "reranked"))
    if kind in ("plain", "radius"):
        options["same_camera"] = random.choice([*SAME_CAMERA]) if "cameras" in names else "same_identity"
        options["junk_identities"] = random.choice(((), (-1,), (0,)))
        options["empty_target_action"] = random.choice(("skip", "neg", "pos"))
        options |= {"clothes": random.choice(("drop_same", "drop_other"))} if "clothes" in names else {}
    if kind == "radius":
        options["radius"] = RADIUS
        names.add("positions")
    if kind in ("protocol", "drawn"):
        options["protocol"] = random.choice(DRAWING if kind == "drawn" else [*PROTOCOLS])
        protocol = PROTOCOLS[options["protocol"]]
        names |= {*protocol.needed_labels} | ({"groups"} if protocol.needs_groups else set())
    if kind == "drawn":
        options["ties"] = random.choice(("pessimistic", "optimistic", "stable"))
        names |= {"cameras"}
    if kind == "drawn":
        names.discard("labels")
    if "labels" in names:  # a label that users name, and its rule
        options[random.choice(("must_agree", "must_differ"))] = ("side",)
    if kind == "reranked":
        options["similarity"] = random.choice(("cosine", "euclidean"))
        options["rerank"] = random.choice((KReciprocal(k1=3, k2=2), QueryExpansion(k=2)))
    return options, names - ({"groups"} if kind in ("drawn", "reranked") else set())


def _draws(options: Mapping[str, Any]) -> bool:
    return options.get("protocol") in DRAWING


RETRIEVAL_METRICS: list[tuple[Any, dict[str, Any]]] = [
    (ReIDMeanAP, {}),
    (ReIDMINP, {}),
    (ReIDCMC, {"top_k": 2}),
    (ReIDCMCCurve, {"max_rank": 5}),
    (ReIDMeasure, {"metric": "precision_2"}),
    (ReIDMetrics, {}),
    (ReIDMetrics, {}),
    (ReIDOpenSet, {"fpir": 0.1}),
]


def retrieval_question(random: Random, kind: type, *, with_pairs: bool) -> tuple[str, Callable[[Any, World], object]]:
    """What is asked of a metric of embeddings, by its name."""
    k, threshold = random.randint(1, 30), random.choice((0.5, 0.9, 1.0))
    queries = torch.tensor([0, 0]) if random.random() < 0.2 else None
    asked: dict[str, Callable[[Any, World], object]] = {
        "compute": lambda metric, _: metric.compute(),
        "results": lambda metric, _: metric.results(),
        "results with lists and cameras": lambda metric, _: metric.results(nearest=3, camera_pairs=with_pairs),
        "nearest": lambda metric, _: metric.nearest(k, queries),
        "duplicates": lambda metric, _: metric.duplicates(threshold),
        "compute twice": lambda metric, _: (metric.compute(), metric.results()),
    }
    if kind is ReIDOpenSet:
        asked["identification"] = lambda metric, _: metric.identification()
    method = random.choice([*asked])
    return method, asked[method]


def detection(random: Random, size: int) -> Scenario:
    """A metric of boxes or other shapes, or the function, with any kind of image ids."""
    shapes, ids = random.choice(("bbox", "bbox", "segm", "keypoints", "rotated")), random.choice(("none", "int", "str"))
    preds, target = objects(shapes, random.getrandbits(20), random.choice((0, 1, 4, 9)))
    for number, item in enumerate(target):
        item.pop("image_id", None)
        if ids != "none":
            item["image_id"] = 3 * number if ids == "int" else f"{number}.jpg"
        item |= {"neg_category_ids": [0, 3], "not_exhaustive_category_ids": [1]}
    seen = dealt(random, len(target), size)
    kind, options = random.choice([row for row in DETECTION_METRICS if shapes == row[1].get("iou_type", "bbox")])
    held = {name: random.random() < 0.5 for name in ("across_classes", "boxes", "localization")}
    evaluator = random.choice(("coco", "lvis", "voc", "ultralytics", "scaled_yolov4", "yolov4"))
    if kind is DetectionMetrics:
        del held["localization"]

    def at(process: int) -> tuple[Any, Any]:
        return [preds[place] for place in seen[process]], [target[place] for place in seen[process]]

    def by_function(_: object, world: World) -> object:
        return evaluate_images(*at(world.process), evaluator=evaluator, world=world, **held)

    chosen = ["0.jpg"] if ids == "str" else torch.tensor([0])
    asked: dict[str, Callable[[Any, World], object]] = {
        "compute": lambda metric, _: metric.compute(),
        "results": lambda metric, _: metric.results(**held),
        "boxes_of": lambda metric, _: metric.boxes_of(chosen),
        "compute twice": lambda metric, _: (metric.compute(), metric.results()),
    }
    if shapes == "bbox":
        asked["evaluate_images"] = by_function
    method = random.choice([*asked])

    def feed(metric: Any, process: int) -> None:
        for place in seen[process]:
            metric.update([preds[place]], [target[place]])

    def make(**others: Any) -> Any:
        return kind(**options, **others)

    return Scenario(make, feed, asked[method], kind.__name__, {"method": method, "ids": ids, "seen": seen} | options)


DETECTION_METRICS: list[tuple[Any, dict[str, Any]]] = [
    (DetectionMAP, {}),
    (DetectionMAP, {"average": "micro", "class_metrics": True, "extended_summary": True}),
    (DetectionMAP, {"iou_type": "segm"}),
    (DetectionMAP, {"iou_type": "keypoints", "sigmas": SIGMAS}),
    (DetectionMAP, {"iou_type": "rotated"}),
    (DetectionMetrics, {}),
    (LvisMAP, {"frequencies": {0: "r", 1: "f"}}),
    (LvisMAP, {"fixed": True, "max_detections": 3}),
    (VocMAP, {}),
    (VocMAP, {"iou_type": "rotated"}),
    (YoloMAP, {}),
    (YoloMAP, {"matching": "scaled_yolov4"}),
    (YoloMAP, {"matching": "yolov4"}),
]


def objects(shapes: str, seed: int, total: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Detections and ground truths of some images, of one kind of shapes."""
    if shapes == "segm":
        return mask_images(seed, total)
    if shapes == "keypoints":
        preds, target = keypoint_images(seed, total)
        return [_without_boxes(item) for item in preds], [_without_boxes(item) for item in target]
    preds, target = images(seed, total, num_levels=4)
    if shapes == "rotated":
        return [_rotated(item) for item in preds], [_rotated(item) for item in target]
    return preds, target


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
