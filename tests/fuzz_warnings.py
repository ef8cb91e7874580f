"""Looks for warnings where nothing is amiss, in many random problems: `python -m tests.fuzz_warnings [problems]`.

Not a part of the test suite. It writes how many problems of each kind were looked at and which of them warned, and
exits with 1 if one did. What the data truly lack is no false alarm: that no query can be evaluated, that an image has
many detections.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from itertools import repeat
from random import Random

import torch
from torch import Tensor
from torch.utils.data import DistributedSampler

from reid_torchmetrics import (
    DetectionMAP,
    PairVerification,
    ReIDMetrics,
    UnpaddedDistributedSampler,
    VocMAP,
    YoloMAP,
    index_recall,
    verify_pairs,
)
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from reid_torchmetrics.tasks import accuracy_over_folds, evaluate_lists
from tests.diagnosis.detection.right_values import RIGHT as RIGHT_VALUES
from tests.diagnosis.detection.right_values import values
from tests.diagnosis.retrieval.right_samples import PLACES, RIGHT, right
from tests.distributed.processes import Processes
from tests.functional.detection.detection_samples import images
from tests.functional.detection.drawn_detectors import drawn_detector
from tests.functional.detection.drawn_shapes import drawn_shapes
from tests.functional.detection.keypoint_samples import SIGMAS, keypoint_images
from tests.functional.detection.mask_samples import mask_images

TRUE = (
    "No query can be evaluated",
    r"(\d+) of \1 queries have no positive",
    "Encountered more than",
    "Mean of empty slice",
    r"\d+% of the pairs of a positive and a negative have equal scores",  # counted: in one dimension a cosine is a sign
    "All scores of a list are equal, in each list",  # one score for all, and in one dimension a cosine is a sign
    r"\d+ of \d+ checked ground truths have no pixel",  # counted: some masks are drawn without one
)

AT_ONCE = 100  # problems of several processes, which are stopped if they take longer than a test may


@contextmanager
def strictly():
    """Let every warning but true ones be an error: those that are given once are found in every problem."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in TRUE:
            warnings.filterwarnings("ignore", message=message)
        yield


# Embeddings of [samples, dim], given a random number of samples.
MODELS: dict[str, Callable[[int, Tensor], Tensor]] = {
    "untrained": lambda dim, identities: torch.randn(len(identities), dim),
    "trained": lambda dim, identities: (
        torch.eye(64)[identities % 64][:, :dim] + 0.3 * torch.randn(len(identities), dim)
    ),
    "collapsed": lambda dim, identities: torch.ones(len(identities), dim) + 1e-6 * torch.randn(len(identities), dim),
    "constant": lambda dim, identities: torch.ones(len(identities), dim),
    "perfect": lambda dim, identities: torch.eye(64)[identities % 64],
    "binary": lambda dim, identities: torch.randn(len(identities), dim).sign(),
    "of zeros": lambda dim, identities: torch.randn(len(identities), dim) * (torch.rand(len(identities), 1) > 0.3),
    "half": lambda dim, identities: torch.randn(len(identities), dim).half(),
    "with duplicates": lambda dim, identities: torch.randn(len(identities), dim)[_some_twice(len(identities))],
}


def _some_twice(length: int) -> Tensor:
    """Positions, one in five of which is that of another sample: files that a data set has twice."""
    positions = torch.arange(length)
    return torch.where(torch.rand(length) < 0.2, torch.randint(length, (length,)), positions)


def samples(random: Random, model: str) -> dict[str, Tensor]:
    torch.manual_seed(random.getrandbits(32))
    length, dim = random.choice((2, 3, 5, 12, 40, 100)), random.choice((1, 4, 32))
    identities = torch.randint(random.choice((2, 6, 30)), (length,))
    given = {"embeddings": MODELS[model](dim, identities), "identities": identities}
    if model == "with duplicates":  # with their labels
        same = (given["embeddings"][:, None] == given["embeddings"]).all(2).int().argmax(1)
        given["identities"] = identities[same]
    if random.random() < 0.5:
        given["cameras"] = torch.randint(3, (length,))
    if random.random() < 0.7:
        given["is_query"] = torch.rand(length) < 0.3
    return given


def noisy(embeddings: Tensor) -> Tensor:
    """The same images in another batch: rounded otherwise."""
    return (embeddings.double() * (1 + 1e-6 * torch.randn_like(embeddings, dtype=torch.float64))).to(embeddings.dtype)


def update(metric: ReIDMetrics, given: dict[str, Tensor], positions: Tensor, size: int) -> None:
    for part in positions.split(size):
        metric.update(**{name: values[part] for name, values in given.items()})


def retrieval(random: Random, model: str) -> None:
    """Epochs of a metric in batches, then one call; an index where a sampler repeats samples."""
    metric, given = ReIDMetrics(), samples(random, model)
    positions, size = torch.randperm(len(given["identities"])), random.choice((1, 7, 64))
    if random.random() < 0.5:
        given["index"] = torch.arange(len(positions)) * random.choice((1, 3)) - 5
        repeated = positions[: random.choice((0, 0, 1, 4))]
    else:
        repeated = positions[:0]
    for _ in range(random.choice((1, 2))):
        metric.reset()
        update(metric, given, positions, size)
        again = given | {"embeddings": noisy(given["embeddings"])}  # a sampler with repetitions, on one process
        update(metric, again, repeated, size)
        metric.compute()
        given["embeddings"] = given["embeddings"] + 1  # the next epoch
    metric.results(nearest=3)
    if "is_query" in given and 0 < int(given["is_query"].sum()) < len(positions):
        sides = [
            {name: values[mask] for name, values in given.items()} for mask in (given["is_query"], ~given["is_query"])
        ]
        labels = [side["identities"] for side in sides]
        evaluate(sides[0]["embeddings"], sides[1]["embeddings"], *labels)


def augmented(random: Random, model: str) -> None:
    """Test-time augmentation: two views of each image, as samples of their own or as their mean."""
    given = samples(random, model)
    views = given["embeddings"], noisy(given["embeddings"]) + 0.01
    metric, length = ReIDMetrics(), len(given["identities"])
    for view, embeddings in enumerate(views):
        own = {"index": torch.arange(length) + view * length}
        metric.update(**(given | {"embeddings": embeddings} | own))
    metric.compute()


def _of_groups(groups: int, identities: Tensor, others: Tensor) -> Tensor:
    """True for the pairs of identities that are in one group of some, drawn at random."""
    group = torch.randint(groups, (1 + max(int(identities.max()), int(others.max())),))
    return group[identities][:, None] == group[others]


# Scores of [queries, gallery] that are not backwards, however poor, given the identities and cameras of both sides.
SCORED: dict[str, Callable[[Random, Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "by chance": lambda random, q, g, qc, gc: torch.randn(len(q), len(g)),
    "constant": lambda random, q, g, qc, gc: torch.ones(len(q), len(g)),
    "coarse": lambda random, q, g, qc, gc: torch.randint(random.choice((2, 5)), (len(q), len(g))).float(),
    "gallery alone": lambda random, q, g, qc, gc: torch.randn(len(g)).expand(len(q), len(g)),
    "cameras alone": lambda random, q, g, qc, gc: -((qc[:, None] - gc).abs() + 0.01 * torch.randn(len(q), len(g))),
    "other cameras": lambda random, q, g, qc, gc: (qc[:, None] - gc).abs() + 0.01 * torch.randn(len(q), len(g)),
    "one camera first": lambda random, q, g, qc, gc: -gc + 0.01 * torch.randn(len(q), len(g)),
    "other groups": lambda random, q, g, qc, gc: (
        -_of_groups(random.choice((2, 3, 4)), q, g).float() + 0.01 * torch.randn(len(q), len(g))
    ),
    "clusters by chance": lambda random, q, g, qc, gc: (
        torch.randn(int(q.max()) + 1, int(g.max()) + 1)[q][:, g] + 0.01 * torch.randn(len(q), len(g))
    ),
    "twins": lambda random, q, g, qc, gc: ((q ^ 1)[:, None] == g) + 0.5 * torch.randn(len(q), len(g)),
    "slightly wrong": lambda random, q, g, qc, gc: (
        -random.choice((0.1, 0.3, 0.5)) * (q[:, None] == g) + torch.randn(len(q), len(g))
    ),
    "weak": lambda random, q, g, qc, gc: (
        random.choice((0.1, 0.5, 1, 3)) * (q[:, None] == g) + torch.randn(len(q), len(g))
    ),
    "good": lambda random, q, g, qc, gc: 9.0 * (q[:, None] == g) + torch.randn(len(q), len(g)),
}


def scored(random: Random, model: str) -> None:
    """Scores, or minus distances, of enough identities to tell by; few positives or many, with cameras or without."""
    torch.manual_seed(random.getrandbits(32))
    number, num_cameras = random.choice((20, 24, 60)), random.choice((1, 2, 6, 15))
    num_queries, num_gallery = number * random.choice((1, 2)), number * random.choice((1, 2, 5))
    query = torch.arange(num_queries) % number
    gallery = torch.cat([torch.arange(number), torch.randint(number + random.choice((0, 50)), (num_gallery,))])
    cameras = [torch.randint(num_cameras, (len(side),)) for side in (query, gallery)]
    if random.random() < 0.3:  # of each side its own, as in visible and infrared light
        cameras[1] = cameras[1] + num_cameras
    scores = SCORED[model](random, query, gallery, *cameras)
    labels = [query, gallery, *cameras][: random.choice((2, 4, 4))]
    options = {"ties": random.choice(("pessimistic", "optimistic", "stable", "expected"))}
    evaluate_scores(scores, *labels, **options)
    evaluate_scores(None, *labels, distances=-scores, **options)
    if num_queries >= 100:  # more than identities, which lists do not tell
        lists = [{"ok": (gallery == identity).nonzero()[:, 0]} for identity in query]
        evaluate_scores(scores, ground_truth=lists, **options)
    metric = ReIDMetrics(similarity=lambda one, two: scores.double()[one[:, 0].long()][:, two[:, 0].long()], **options)
    for side, is_query in ((query, True), (gallery, False)):
        own = labels[2 + (not is_query)] if len(labels) > 2 else None
        metric.update(torch.arange(len(side))[:, None].double(), side, own, is_query=is_query)
    metric.compute()


def of_each_role(given: dict[str, Tensor]) -> list[Tensor]:
    """The embeddings of queries and of gallery items, which may come from loaders of their own."""
    embeddings, is_query = given["embeddings"], given.get("is_query")
    return [embeddings] if is_query is None else [embeddings[is_query], embeddings[~is_query]]


def ends_as_it_begins(embeddings: Tensor, size: int) -> bool:
    """Whether one of the last `size` samples is also one of the first."""
    return bool((embeddings[-size:, None] == embeddings[:size]).all(2).any())


def sharded(process: int, size: int, first: int, problems: int, model: str) -> list[str]:
    """What warned on several processes: with and without padding."""
    found = []
    for seed in range(first, first + problems):
        random = Random(seed)  # noqa: S311 - no secret
        given = samples(random, model)
        length = len(given["identities"])
        kind = random.choice(("padded, with index", "unpadded", "in two halves", "all on one"))
        if kind == "padded, with index":
            given["index"] = torch.arange(length)
            own = [*DistributedSampler(range(length), size, process, shuffle=random.random() < 0.5)]
            given["embeddings"] = noisy(given["embeddings"]) if process else given["embeddings"]
        elif kind == "unpadded":
            own = [*UnpaddedDistributedSampler(range(length), size, process, shuffle=False)]
        elif kind == "in two halves":
            own = [*range(length * process // size, length * (process + 1) // size)]
        else:
            own = [*range(length)] if process == 0 else []
        repeats = model == "with duplicates" and any(map(ends_as_it_begins, of_each_role(given), repeat(3 * size)))
        if repeats and kind in ("unpadded", "in two halves"):
            continue  # the data set itself has what padding would repeat, if a role ends earlier on a process
        metric = ReIDMetrics()
        try:
            with strictly():
                update(metric, given, torch.tensor(own, dtype=torch.int64), random.choice((1, 7, 64)))
                metric.compute()
        except Exception as error:  # noqa: BLE001 - told
            found.append(f"{seed} ({kind}, {length} samples): {error}")
    return found


def boxes(random: Random) -> tuple[list[dict], list[dict], dict]:
    """Images, and options of `DetectionMAP`."""
    seed, number = random.getrandbits(20), random.choice((1, 2, 5, 12))
    kind = random.choice(("boxes", "boxes", "keypoints", "masks"))
    if kind == "keypoints":
        return *keypoint_images(seed, number), {"iou_type": "keypoints", "sigmas": SIGMAS, "box_format": "xywh"}
    if kind == "masks":
        return *mask_images(seed, number), {"iou_type": "segm"}
    return *images(seed, number, with_ids=random.random() < 0.5), {}


def change(random: Random, preds: list[dict], target: list[dict]) -> None:
    """What a network that has not learned gives, or a data set without much in it."""
    torch.manual_seed(random.getrandbits(32))
    kind = random.choice(("as they are", "untrained", "one label", "nothing found", "nothing there", "tiny", "wide"))
    for found, true in zip(preds, target, strict=True):
        if kind == "untrained" and "boxes" in found:
            found["labels"] = torch.randint(90, found["labels"].shape)
            found["scores"] = torch.rand(found["scores"].shape) * 0.02
            corners = torch.rand(len(found["boxes"]), 2) * random.choice((0.5, 5, 50))
            found["boxes"] = torch.cat([corners, corners + torch.rand(len(corners), 2)], 1)
        if kind == "one label":
            for side in (found, true):
                side["labels"] = torch.zeros_like(side["labels"])
        if kind in ("nothing found", "nothing there"):
            side = found if kind == "nothing found" else true
            side.update(
                {name: values[:0] for name, values in side.items() if isinstance(values, Tensor) and values.ndim}
            )
        if kind in ("tiny", "wide") and "boxes" in true:
            factor = 0.05 if kind == "tiny" else 40.0
            for side in (found, true):
                if "boxes" in side and "keypoints" not in side and "masks" not in side:
                    side["boxes"] = side["boxes"] * factor + 30
                    side.pop("area", None)


def places(random: Random, kind: str) -> None:
    """Images of places, by a metric and in one call."""
    torch.manual_seed(random.getrandbits(32))
    numbers, radius = [random.randint(2, 60), random.randint(2, 200)], random.choice((1.0, 5.0, 25.0))
    if kind == "small":  # so few samples that all may be near
        numbers = [random.randint(2, 9), random.randint(2, 30)]
    sides = PLACES[kind](random, sum(numbers)).split(numbers)
    metric = ReIDMetrics(protocol="pitts30k", radius=radius)
    for positions, is_query in zip(sides, (True, False), strict=True):
        metric.update(torch.randn(len(positions), 16), positions=positions, is_query=is_query)
    metric.compute()
    given = {"query_positions": sides[0], "gallery_positions": sides[1]}
    evaluate(*(torch.randn(number, 16) for number in numbers), **given, protocol="pitts30k", radius=radius)


def given_pairs(random: Random, model: str) -> None:
    """Pairs of two identities, at random or the nearest, and pairs of one: embeddings, scores and distances."""
    torch.manual_seed(random.getrandbits(32))
    identities = torch.randint(random.choice((3, 10, 40)), (random.choice((30, 100, 400)),))
    embeddings = MODELS[model](random.choice((1, 4, 32)), identities).float() * random.choice((1, 1, 0.1, 7))
    if random.random() < 0.2:  # as after a ReLU
        embeddings = embeddings.abs()
    first, second = torch.randint(len(identities), (2, random.choice((20, 200, 1000))))
    same = identities[first] == identities[second]
    cosines = torch.nn.functional.cosine_similarity(embeddings[first], embeddings[second])
    if random.random() < 0.3:  # hard ones
        kept = same | (cosines >= cosines.quantile(0.5))
        first, second, same, cosines = first[kept], second[kept], same[kept], cosines[kept]
    if not 0 < int(same.sum()) < len(same):
        return
    metric = PairVerification(random.choice(("eer", "auc", "accuracy")))
    metric.update(embeddings[first], embeddings[second], same)
    if len(same) >= 10:
        metric.compute()
        accuracy_over_folds(2 - 2 * cosines, same, step=random.choice((0.01, 0.1)))
    verify_pairs(cosines * random.choice((1, 100)), same)
    verify_pairs(None, same, distances=(embeddings[first] - embeddings[second]).norm(dim=1))


def _cut(random: Random, lists: list[list[int]], number: int) -> list[list[int]]:
    """Lists of an index: whole or cut, exact or with other items, of a part of the gallery, one for all queries."""
    kind, length = (
        random.choice(("exact", "poor", "part", "random", "one for all")),
        random.choice((1, 2, 3, 10, number)),
    )
    if kind == "poor":
        lists = [[item for item in row if random.random() < 0.2] for row in lists]
    if kind == "part":
        lists = [[item for item in row if item % 3] for row in lists]
    if kind == "random":
        lists = [random.sample(range(number), number) for _ in lists]
    return [(lists[0] if kind == "one for all" else row)[:length] for row in lists]


def _in_words(random: Random) -> Callable[[int], str]:
    """Names of items."""
    folders = random.choice((1, 7, 1000))
    return random.choice((str, lambda item: f"{item:06d}", lambda item: f"{item % folders}/{item // folders}.jpg"))


def ranked_lists(random: Random, model: str) -> None:
    """Lists by nearest embeddings, in the order of the gallery or sorted by identity, with labels or positives."""
    given = samples(random, model)
    identities = given["identities"]
    if random.random() < 0.5:
        identities = identities.sort().values
    embeddings = MODELS[model](given["embeddings"].shape[1], identities).float()
    number, num_queries = len(identities), random.choice((len(identities), len(identities) // 3 + 1))
    scores = (embeddings[:num_queries] @ embeddings.T).tolist()
    lists = [sorted(range(number), key=lambda item, row=row: -row[item]) for row in scores]
    are_queries_in_lists = random.random() < 0.5
    if not are_queries_in_lists:
        lists = [[item for item in row if item != query] for query, row in enumerate(lists)]
    lists = _cut(random, lists, number)
    positives = [((identities == identities[query]).nonzero()[:, 0]).tolist() for query in range(num_queries)]
    for query, row in enumerate(positives):
        row.remove(query)
    labels = {"query_identities": identities[:num_queries], "gallery_identities": identities}
    evaluate_lists(lists, **labels, self_index=torch.arange(num_queries))
    directions = torch.nn.functional.normalize(embeddings)
    searched = {"euclidean": -torch.cdist(embeddings, embeddings), "cosine": directions @ directions.T}
    for similarity, closeness in {**searched, "dot": embeddings @ embeddings.T}.items():
        found = _cut(random, closeness[:num_queries].argsort(1, descending=True).tolist(), number)
        index_recall(found, embeddings[:num_queries], embeddings, k=random.choice((1, 3, 10)), similarity=similarity)
    evaluate_lists(lists, positives)
    runs = [
        {item: row[item] for item in random.sample(items, len(items))} for items, row in zip(lists, scores, strict=True)
    ]
    evaluate_lists(runs, [dict.fromkeys(row, random.choice((1, 3))) for row in positives])
    name = _in_words(random)
    runs = [{name(item): row[item] for item in items[::-1]} for items, row in zip(lists, scores, strict=True)]
    evaluate_lists(runs, [[name(item) for item in row] for row in positives])
    far = [[f"other_{name(item + number)}" for item in items] for items in lists]  # of a large gallery
    evaluate_lists(far, [[name(item) for item in row] for row in positives])


def detection(random: Random, _: str) -> None:
    preds, target, options = boxes(random)
    change(random, preds, target)
    kinds = [DetectionMAP] if options else [DetectionMAP, VocMAP, YoloMAP]
    for kind in kinds:
        metric = kind(**options)
        for first in range(0, len(preds), size := random.choice((1, 4, 20))):
            metric.update(preds[first : first + size], target[first : first + size])
        metric.compute()


def detectors(random: Random, shape: str) -> None:
    """A detector with an average precision of 0.05 or more, in batches, by metrics and in one call."""
    preds, target, options = drawn_detector(random, shape)
    kinds = [DetectionMAP] if shape == "masks" else [DetectionMAP, VocMAP, YoloMAP]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = DetectionMAP(**options, metric="map")
        metric.update(preds, target)
        if metric.compute() < 0.05:
            return
    size = random.choice((1, 3, 20))
    for kind in kinds:
        metric = kind(**options)
        for first in range(0, len(preds), size):
            metric.update(preds[first : first + size], target[first : first + size])
            if random.random() < 0.1:
                metric.compute()
        metric.compute()
    evaluate_images(preds, target, **options)


def shapes(random: Random, iou_type: str) -> None:
    """Rotated boxes or keypoints of any network, in batches, by a metric and in one call."""
    preds, target, options = drawn_shapes(random, iou_type)
    metric, size = DetectionMAP(**options), random.choice((1, 3, 20))
    for first in range(0, len(preds), size):
        metric.update(preds[first : first + size], target[first : first + size])
    metric.compute()
    evaluate_images(preds, target, **options)


def sharded_images(process: int, size: int, first: int, problems: int, _: str) -> list[str]:
    found = []
    for seed in range(first, first + problems):
        random = Random(seed)  # noqa: S311 - no secret
        preds, target, options = boxes(random)
        change(random, preds, target)
        own = range(process, len(preds), size)
        with_ids = "image_id" in target[0]
        if with_ids:
            own = [*DistributedSampler(range(len(preds)), size, process, shuffle=False)]
        metric = DetectionMAP(**options)
        try:
            with strictly():
                metric.update([preds[place] for place in own], [target[place] for place in own])
                metric.compute()
        except Exception as error:  # noqa: BLE001 - told
            found.append(f"{seed} ({len(preds)} images, ids {with_ids}): {error}")
    return found


def alone(function: Callable[[Random, str], None], first: int, problems: int, model: str) -> list[str]:
    found = []
    for seed in range(first, first + problems):
        try:
            with strictly():
                function(Random(seed), model)  # noqa: S311 - no secret
        except Exception as error:  # noqa: BLE001, PERF203 - told
            found.append(f"{seed}: {type(error).__name__}: {error}")
    return found


WAYS = {
    "retrieval": (retrieval, MODELS),
    "augmented": (augmented, MODELS),
    "scored": (scored, SCORED),
    "right": (right, RIGHT),
    "sharded": (sharded, MODELS),
    "places": (places, PLACES),
    "pairs": (given_pairs, MODELS),
    "lists": (ranked_lists, MODELS),
    "detection": (detection, ["images"]),
    "detectors": (detectors, ["boxes", "masks"]),
    "shapes": (shapes, ["rotated", "keypoints"]),
    "values": (values, RIGHT_VALUES),
    "sharded_images": (sharded_images, ["images"]),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="?", type=int, default=1000)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("--ways", choices=WAYS, nargs="+", default=[*WAYS])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    pool, failed = Processes(), 0
    for name, model in [(way, model) for way in asked.ways for model in WAYS[way][1]]:
        way, found, start = WAYS[name][0], [], time.perf_counter()
        for first in range(asked.first, asked.first + asked.problems, AT_ONCE):
            problems = min(AT_ONCE, asked.first + asked.problems - first)
            if name.startswith("sharded"):
                found += pool.run(2, way, first, problems, model)[0]
            else:
                found += alone(way, first, problems, model)
        seconds = time.perf_counter() - start
        lines = [f"{name}, {model}: {len(found)} of {asked.problems} in {seconds:.0f} s", *found[:3]]
        sys.stdout.write("\n    ".join(lines) + "\n")
        sys.stdout.flush()
        failed += len(found)
    pool.stop()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
