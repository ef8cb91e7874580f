"""Problems of pairs: verification, near duplicates, comparisons of models, recall of an index, and what is alike."""

from random import Random
from typing import Any

import numpy as np
import torch

from . import samples
from .problems import Made, Problem, Question
from .retrieval import matrix, sizes

VERIFICATION = (
    Question("area_under_curve", {}),
    *(Question("equal_error_rate", {"rule": rule}) for rule in ("interpolated", "voxceleb")),
    *(Question("average_precision", {"ties": ties}) for ties in ("pessimistic", "optimistic", "grouped")),
    *(Question("tar_at_far", {"far": [0.0, 0.1, 0.5], "rule": rule}) for rule in ("largest", "nearest")),
    Question("threshold_at_far", {"far": [0.1]}),
    Question("min_dcf", {"p_target": 0.05}),
    Question("roc", {}),
)


def draw_verification(random: Random) -> Problem:
    """Draw pairs with scores, in one of the ways in which they are given."""
    return random.choice((given_pairs, all_pairs, pair_metric, pair_functions))(random)


def pairs_of(random: Random, total: int) -> tuple[Any, Any]:
    """Return scores of few or any values, and whether each pair is of one identity."""
    numbers = samples.generator_of(random)
    scores = numbers.integers(0, random.choice((1, 3, 50)), total) / 8
    if random.random() < 0.4:
        scores = scores + numbers.normal(size=total)
    same = numbers.random(total) < random.choice((0.2, 0.5))
    if total > 1 and random.random() < 0.9:
        same[:2] = True, False
    return scores, same


def given_pairs(random: Random) -> Problem:
    """Return a problem of `verify_pairs`."""
    total = random.choice((1, 5, 5, 30, 30, 100))
    scores, same = pairs_of(random, total)
    form = random.choice(("numpy", "list", "tensor"))
    if form == "list":
        scores, same = scores.tolist(), same.tolist()
    elif form == "tensor":
        scores, same = torch.from_numpy(scores).float(), torch.from_numpy(same)
    return Problem(
        Made("verify_pairs", {"scores": scores, "same": same}), VERIFICATION, facts={"total": total, "form": form}
    )


def all_pairs(random: Random) -> Problem:
    """Return a problem of `verify` for all pairs of two sets."""
    names = {"identities"} | ({"cameras"} if random.random() < 0.6 else set())
    num_queries, num_gallery = sizes(random)
    relevance = samples.sided(*samples.draw_sides(random, names, (num_queries, num_gallery)))
    if "cameras" in names:
        relevance["same_camera"] = random.choice(samples.CAMERA_RULES)
    scores = torch.as_tensor(matrix(random, num_queries, num_gallery))
    call = Made("steps.verified", {"relevance": relevance, "scores": scores})
    return Problem(call, VERIFICATION, facts={"labels": sorted(names), "sizes": (num_queries, num_gallery)})


def pair_metric(random: Random) -> Problem:
    """Return a problem of `PairVerification` in batches."""
    options = random.choice(
        (
            *({"metric": name} for name in ("accuracy", "auc", "eer", "eer_voxceleb", "min_dcf", "tar_at_far")),
            {"metric": "tar_at_far", "far": 0.1},
            {"metric": "min_dcf", "p_target": 0.5},
        )
    )
    batches = []
    with_index, num_batches = random.random() < 0.5, random.choice((0, 1, 1, 1, 3, 3))
    for first in range(num_batches):
        rows = [torch.from_numpy(samples.embeddings(random, 15, 3, "any")) for _ in range(2)]
        same = torch.tensor([(place + 10 * first) % 3 == 0 for place in range(15)])
        batches.append({"first": rows[0], "second": rows[1], "same": same})
        if with_index:
            batches[-1]["index"] = torch.arange(15) + 10 * first
    questions = (Question("compute", {}), Question("results", {}, (), VERIFICATION))
    return Problem(Made("PairVerification", options), questions, batches, options | {"batches": len(batches)})


def pair_functions(random: Random) -> Problem:
    """Return a problem of a function of scores and truths alone."""
    total = random.choice((10, 30, 100))
    scores, same = pairs_of(random, total)
    calls = (
        Made("accuracy_over_folds", {"distances": scores, "same": same, "folds": random.choice((2, 10))}),
        Made(
            "global_average_precision",
            {"confidence": torch.from_numpy(scores), "correct": torch.from_numpy(same)}
            | {"ties": random.choice(("pessimistic", "optimistic", "stable"))},
        ),
        Made(
            "knn_accuracy",
            {"labels": torch.from_numpy(samples.generator_of(random).integers(0, 3, (6, 5)))}
            | {"scores": torch.from_numpy(samples.generator_of(random).normal(size=(6, 5)))}
            | {"query_labels": torch.tensor([0, 1, 2, 0, 1, 2]), "vote": random.choice(("weighted", "majority"))},
        ),
    )
    call = random.choice(calls)
    return Problem(call, (Question(""),), facts={"call": call.name, "total": total})


def draw_models(random: Random) -> Problem:
    """Draw an evaluation beside rankings: duplicates, comparisons, recall of an index, spread, person search."""
    ways = (duplicates, without_duplicates, compared, recall, quality, persons, reranked, saved)
    return random.choice(ways)(random)


def two_sets(random: Random) -> tuple[Any, Any]:
    """Return embeddings of queries and of a gallery that holds copies of some queries."""
    kind = random.choice(samples.EMBEDDINGS)
    rows = [samples.embeddings(random, size, 3, kind) for size in (random.choice((1, 5, 8)), random.choice((1, 9, 25)))]
    copies = min(map(len, rows), default=0) // 2
    rows[1][:copies] = rows[0][:copies]
    return rows[0], rows[1]


DUPLICATES = tuple(Question(path) for path in ("query", "gallery", "score", "affected_queries", "num_queries"))


def duplicates(random: Random) -> Problem:
    """Return a problem of `find_duplicates`."""
    query, gallery = two_sets(random)
    similarity = random.choice(samples.SIMILARITIES[:3])
    arguments: dict[str, Any] = {"query": query, "gallery": gallery, "similarity": similarity}
    arguments["threshold"] = random.choice((0.5, 0.95, 1.0))
    if random.random() < 0.4:
        del arguments["gallery"]
    call = Made("find_duplicates", arguments)
    facts = {"call": call.name, "similarity": similarity, "one set": "gallery" not in arguments}
    return Problem(call, (*DUPLICATES, Question("groups", {})), facts=facts)


def evaluation(random: Random, names: set[str]) -> dict[str, Any]:
    """Return arguments of `evaluate` for integer labels."""
    query, gallery = two_sets(random)
    sides = samples.draw_sides(random, names, (len(query), len(gallery)))
    return samples.sided(*sides) | {"query": query, "gallery": gallery}


def without_duplicates(random: Random) -> Problem:
    """Return a problem of means without the queries that have a copy."""
    arguments = {"evaluation": evaluation(random, {"identities", "cameras"}), "threshold": random.choice((0.5, 0.99))}
    return Problem(Made("steps.without_duplicates", arguments), (Question(""),), facts={"call": "means_without"})


def compared(random: Random) -> Problem:
    """Return a problem of `compare` for two or three models."""
    first = evaluation(random, {"identities", "cameras"})
    models = [first]
    options = {"num_resamples": 20, "num_permutations": 20, "per_identity": random.random() < 0.3}
    for _ in range(random.choice((1, 2))):
        rows = [samples.embeddings(random, len(first[side]), 3, "few") for side in ("query", "gallery")]
        models.append(first | {"query": rows[0], "gallery": rows[1]})
    if random.random() < 0.3:  # two models alone
        models = models[:2]
    call = Made("steps.models", {"function": "evaluate", "arguments": models[:2], "options": options})
    questions = (Question("differences"), Question("num_queries"), Question("num_valid"), Question("gained"))
    return Problem(call, questions, facts={"call": "compare", **options})


def recall(random: Random) -> Problem:
    """Return a problem of `index_recall`."""
    query, gallery = two_sets(random)
    k = random.choice((1, 3, 10))
    lists = [random.sample(range(len(gallery)), min(len(gallery), random.choice((1, k)))) for _ in query]
    similarity = random.choice(samples.SIMILARITIES[:3])
    arguments = {"retrieved": lists, "query": query, "gallery": gallery, "k": k, "similarity": similarity}
    if random.random() < 0.3:
        arguments["gallery"] = [gallery[: len(gallery) // 2], gallery[len(gallery) // 2 :]]
    facts = {"call": "index_recall", "k": k, "similarity": similarity, "blocks": isinstance(arguments["gallery"], list)}
    questions = tuple(Question(path) for path in ("per_query", "k", "num_gallery", "num_short", "mean"))
    return Problem(Made("index_recall", arguments), questions, facts=facts)


def quality(random: Random) -> Problem:
    """Return a problem of `EmbeddingQuality`."""
    names = ("rankme", "dead_dimensions", "norm_mean", "norm_std", "alignment", "uniformity", "hubness")
    measures = random.sample(names, random.choice((1, 3, 7)))
    batches = []
    for _ in range(random.choice((1, 2))):
        rows = torch.from_numpy(samples.embeddings(random, 12, 4, random.choice(samples.EMBEDDINGS)))
        identities = torch.tensor([random.randrange(4) for _ in range(12)])
        batches.append({"embeddings": rows.float(), "identities": identities})
    call = Made("EmbeddingQuality", {"measures": measures})
    return Problem(call, (Question("compute", {}),), batches, {"call": call.name, "measures": measures})


def persons(random: Random) -> Problem:
    """Return a problem of `person_search`."""
    numbers = samples.generator_of(random)
    num_images, num_boxes, num_queries = 4, random.choice((3, 10)), random.choice((1, 3))
    corners = numbers.integers(0, 3, (num_images, 2)) * 20.0
    true_boxes = np.concatenate([corners, corners + 12], 1)
    images = numbers.integers(0, num_images, num_boxes)
    boxes = true_boxes[images] + numbers.integers(-2, 3, (num_boxes, 1))
    arguments: dict[str, Any] = {
        "query_embeddings": samples.embeddings(random, num_queries, 3, "any"),
        "embeddings": samples.embeddings(random, num_boxes, 3, "any"),
        "boxes": boxes,
        "images": images.tolist(),
        "query_images": [0] * num_queries,
        "query_identities": numbers.integers(0, 2, num_queries).tolist(),
        "true_boxes": true_boxes,
        "true_images": list(range(num_images)),
        "true_identities": numbers.integers(0, 2, num_images).tolist(),
        "protocol": random.choice(("cuhk_sysu", "prw")),
    }
    if random.random() < 0.5:
        arguments["galleries"] = [random.sample(range(num_images), 3) for _ in range(num_queries)]
        arguments["listed_twice"] = random.random() < 0.3
    questions = (Question("means"), Question("per_query"), Question("nearest", {}, (3,)))
    return Problem(Made("person_search", arguments), questions, facts={"call": "person_search"})


def reranked(random: Random) -> Problem:
    """Return a problem of the functions of re-ranking."""
    query, gallery = two_sets(random)
    arguments: dict[str, Any] = {"query": query, "gallery": gallery}
    if random.random() < 0.5:
        options: dict[str, Any] = {"k": random.choice((1, 4)), "alpha": random.choice((0.0, 3.0))}
        return Problem(
            Made("expand_queries", arguments | options), (Question(""),), facts={"call": "expand_queries"} | options
        )
    options = {"k1": random.choice((2, 5)), "k2": random.choice((1, 2)), "weight": random.choice((0.0, 0.3))}
    options["distance"] = random.choice(("squared_euclidean", "euclidean"))
    call = Made("rerank_k_reciprocal", arguments | options)
    facts = {"call": call.name} | options
    return Problem(call, (Question("all", {}),), facts=facts)


def saved(random: Random) -> Problem:
    """Return a problem of results that are saved and loaded."""
    options = {"ties": random.choice(samples.TIES), "reports": tuple(random.sample(samples.REPORTS, 4))}
    if random.random() < 0.3:
        options = {"protocol": random.choice(samples.DRAWN[:3]), "cmc_same_camera": random.choice(("all", "keep"))}
    arguments = evaluation(random, {"identities", "cameras"}) | options
    call = Made("steps.saved", {"function": "evaluate", "arguments": arguments})
    return Problem(call, (Question(""),), facts={"call": "load(save)"} | options, files={"empty.txt": ""})
