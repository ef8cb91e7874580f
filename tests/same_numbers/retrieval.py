"""Problems of embeddings, scores, metrics, ranked lists, streams and drawn galleries."""

from random import Random
from typing import Any

import numpy as np
import torch

from . import samples
from .problems import Made, Problem, Question
from .samples import draw_names_and_options, draw_sides, embeddings, sided

ATTRIBUTES = ("means", "per_query", "cmc", "num_positives", "num_candidates", "query_index", "weight", "ranks.rank")
RESULTS = tuple(Question(path) for path in ATTRIBUTES)
"""what is asked of each result"""
MORE = (
    *(Question("nearest", {}, (k,)) for k in (1, 3, 100)),
    *(Question(name, {}) for name in ("by_identity", "by_camera", "by_camera_pair", "identification", "to_dict")),
    *(Question(name, {"n": 3}) for name in ("hardest", "confident_mistakes")),
    Question("interval", {"generator": Made("steps.generator", {}), "num_resamples": 20}),
    Question("interval", {"generator": Made("steps.generator", {}), "num_resamples": 20, "per_identity": True}),
    *(Question(name, {}) for name in ("mean_over_identities", "mean_precision_recall", "to_markdown")),
    Question("precision_recall", {"query": 0}),
    *(Question(name) for name in ("counts", "averaged", "average_precision", "inverse_negative_penalty", "first_rank")),
    Question("ranks.tied"),
)
"""one of these is asked, too"""


def asked(random: Random) -> tuple[Question, ...]:
    """Return the questions to a result."""
    return (*RESULTS, random.choice(MORE))


def sizes(random: Random) -> tuple[int, int]:
    """Return the numbers of queries and of gallery items."""
    return random.choice((0, 1, 2, 4, 8, 8)), random.choice((0, 1, 3, 9, 20, 30, 30))


def change_labels(random: Random, names: set[str], options: dict[str, Any], sides: list[dict[str, Any]]) -> None:
    """Give labels another form: names, several labels, or some that are missing."""
    form = random.random()
    is_plain = not names & {"groups"} and not options.keys() & {"camera_map", "search_cameras", "junk_identities"}
    is_plain = is_plain and not str(options.get("protocol")).startswith("sysu") and "gallery_draw" not in options
    if form < 0.4 and is_plain:
        samples.as_names(random, sides)
    elif form < 0.5 and not names & {"groups", "positions"} and options.get("protocol") not in samples.DRAWN:
        samples.several_labels(random, sides)
        names.add("several identities")
        options.pop("junk_identities", None)
    elif form < 0.55 and is_plain:
        samples.some_missing(random, sides)
        options["missing_identities"] = random.choice(("junk", "junk", "error"))


def facts_of(call: str, labels: set[str], options: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return what is shown of a problem that differs."""
    return {"call": call, "labels": sorted(labels)} | others | options


def draw_embeddings(random: Random) -> Problem:
    """Draw a call of `evaluate`."""
    names, options = draw_names_and_options(random)
    num_queries, num_gallery = sizes(random)
    sides = draw_sides(random, names, (num_queries, num_gallery))
    similarity = random.choice((None, *samples.SIMILARITIES))
    kind, dim = random.choice(samples.EMBEDDINGS), random.choice((1, 2, 3, 8))
    if options.get("protocol") == "hashing":
        similarity = random.choice((None, "hamming"))
    if similarity == "hamming" or options.get("protocol") == "hashing":
        kind, dim = "codes", random.choice((8, 16))
    arrays = [embeddings(random, size, dim, kind) for size in (num_queries, num_gallery)]
    if random.random() < 0.15 and "groups" not in names and num_gallery:
        options["self_index"] = samples.own_items(random, sides, arrays)
    change_labels(random, names, options, sides)
    form = random.random()
    if similarity is not None:
        options["similarity"] = similarity
    if kind == "codes" and form < 0.3:
        arrays = [np.packbits(rows > 0, axis=1) for rows in arrays]
        options |= {"similarity": "hamming", "packed": True}
    elif kind == "codes" and form < 0.5:
        arrays = [(rows > 0).astype(random.choice((np.uint8, np.int64, np.float32, np.bool_))) for rows in arrays]
    elif form < 0.6:
        arrays = [torch.from_numpy(rows) for rows in arrays]
    if random.random() < 0.1 and "groups" not in names and kind != "codes":
        options["rerank"] = samples.reranking(random)
        options["similarity"] = random.choice(("cosine", "euclidean"))
    arguments = sided(*sides) | {"query": arrays[0], "gallery": arrays[1]}
    if random.random() < 0.1 and num_queries and num_gallery:
        options["max_rank"] = random.choice((1, 5, 200))
    call = Made("evaluate", arguments | options)
    return Problem(call, asked(random), facts=facts_of("evaluate", names, options, kind=kind, dim=dim))


def draw_one_set(random: Random) -> Problem:
    """Draw an evaluation in which each sample is a query for all others."""
    protocol = random.choice(samples.LEAVE_ONE_OUT)
    names = {"identities"} | ({"cameras"} if random.random() < 0.3 else set())
    size = random.choice((2, 5, 12, 30))
    side = samples.labels(random, size, names)
    rows = embeddings(random, size, random.choice((1, 3)), random.choice(samples.EMBEDDINGS))
    options: dict[str, Any] = {"protocol": protocol}
    if random.random() < 0.5:
        options |= samples.options_of(random, set(), 0.1)
        options = samples.fit_draws(random, options) if protocol == "vehicleid" else options
    options["similarity"] = random.choice(samples.SIMILARITIES[:3])
    arguments = {"query": rows, **{f"query_{name}": values for name, values in side.items()}}
    call = Made("evaluate", arguments | options)
    return Problem(call, asked(random), facts=facts_of("evaluate", names, options))


def draw_scores(random: Random) -> Problem:
    """Draw a call of `evaluate_scores`, or ranks of a matrix with all functions of ranks."""
    if random.random() < 0.3:
        return draw_functions(random)
    names, options = draw_names_and_options(random, with_groups=random.random() < 0.2)
    num_queries, num_gallery = sizes(random)
    sides = draw_sides(random, names, (num_queries, num_gallery))
    if random.random() < 0.2 and "groups" not in names and num_gallery:
        options["self_index"] = samples.own_items(random, sides)
    change_labels(random, names, options, sides)
    scores = matrix(random, num_queries, num_gallery)
    arguments = sided(*sides) | {random.choice(("scores", "distances")): scores}
    if random.random() < 0.15:
        listed_truth(random, options, arguments, num_queries, num_gallery)
    call = Made("evaluate_scores", arguments | options)
    return Problem(call, asked(random), facts=facts_of("evaluate_scores", names, options))


def matrix(random: Random, num_queries: int, num_gallery: int) -> Any:
    """Return scores of few values or of any."""
    numbers = samples.generator_of(random)
    scores = numbers.integers(0, random.choice((1, 4, 1000)), (num_queries, num_gallery)).astype(np.float32)
    if random.random() < 0.3:
        scores = scores.astype(np.float64) + numbers.normal(size=scores.shape)
    return torch.from_numpy(scores) if random.random() < 0.5 else scores


def listed_truth(
    random: Random, options: dict[str, Any], arguments: dict[str, Any], num_queries: int, num_gallery: int
) -> None:
    """Replace identities and rules by lists of positives and junk for each query."""
    for name in [*arguments]:
        if name.startswith(("query_", "gallery_")):
            del arguments[name]
    for name in [*options]:
        if name not in ("ties", "reports", "max_bytes", *samples.AVERAGES):
            del options[name]
    lists: tuple[str, ...] = ("ok", "junk")
    if random.random() < 0.6:
        options["protocol"] = random.choice([*samples.LISTED])
        lists = samples.LISTED[options["protocol"]]
    truth = []
    for _ in range(num_queries):
        chosen = [random.choice((*lists, "", "")) for _ in range(num_gallery)]
        truth.append({name: [item for item in range(num_gallery) if chosen[item] == name] for name in lists})
    arguments["ground_truth"] = truth


def draw_functions(random: Random) -> Problem:
    """Draw ranks of a matrix, and every function of ranks."""
    num_queries, num_gallery = sizes(random)
    names = {"identities"} | ({"cameras"} if random.random() < 0.6 else set())
    sides = draw_sides(random, names, (num_queries, num_gallery))
    options = {
        "ties": random.choice(samples.TIES),
        "same_camera": random.choice(samples.CAMERA_RULES) if "cameras" in names else "same_identity",
        "junk_identities": random.choice(((), (-1,), (0,))),
    }
    arguments = sided(*sides) | {"scores": matrix(random, num_queries, num_gallery)} | options
    k = random.choice((1, 3, 7))
    call = Made("steps.functions_of_ranks", {"k": k, "arguments": arguments})
    return Problem(call, (Question(""),), facts=facts_of("functions of ranks", names, options, k=k))


METRICS: tuple[tuple[str, tuple[dict[str, Any], ...]], ...] = (
    ("ReIDMeanAP", ({}, {"rule": "trapezoid"}, {"k": 3, "normalizer": "attainable"})),
    ("ReIDMINP", ({},)),
    ("ReIDCMC", ({}, {"top_k": 5}, {"top_k": 2, "mode": "all_shots"})),
    ("ReIDCMCCurve", ({"max_rank": 5},)),
    ("ReIDMeasure", tuple({"metric": name} for name in samples.REPORTS)),
    ("ReIDMetrics", ({}, {"ranks": (1, 2)}, {"prefix": "val_"})),
    ("ReIDMetrics", ({}, {"directions": ("a2b", "b2a")})),
    ("ReIDOpenSet", ({}, {"fpir": 0.3, "rank": 2}, {"fpir": (0.1,), "rule": "interpolated"})),
)
OF_COLLECTION = ("cmc_same_camera", "precision_divisor", "gain", "reports", "rule", "k", "normalizer", "mode")


def draw_metrics(random: Random) -> Problem:
    """Draw a metric that is given batches of samples, some of them twice."""
    names, options = draw_names_and_options(random)
    name, choices = random.choice(METRICS)
    more = dict(random.choice(choices))
    if name != "ReIDMetrics":
        options = {option: value for option, value in options.items() if option not in OF_COLLECTION}
    if "directions" in more:
        names.discard("groups")
    total = random.choice((0, 1, 5, 15, 40))
    side = samples.labels(random, total, names)
    change_labels(random, names, options, [side])
    kind = "codes" if options.get("protocol") == "hashing" else random.choice(samples.EMBEDDINGS)
    rows = embeddings(random, total, 3, kind)
    if "similarity" not in options and kind != "codes":
        options["similarity"] = random.choice(samples.SIMILARITIES[:3])
    if random.random() < 0.08 and kind != "codes" and "groups" not in names:
        options |= {"rerank": samples.reranking(random), "similarity": random.choice(("cosine", "euclidean"))}
    roles = [random.random() < 0.4 for _ in range(total)]
    with_index, with_roles = random.random() < 0.5, random.random() < 0.9 or "groups" in names
    places = list(range(total)) + (random.sample(range(total), min(total, 2)) if with_index else [])
    batches = []
    size = random.choice((1, 4, 100))
    for first in range(0, len(places), size if total <= 15 else 100):
        part = places[first : first + (size if total <= 15 else 100)]
        batch = {"embeddings": torch.from_numpy(rows[part])} | {label: picked(side[label], part) for label in side}
        if with_index:
            batch["index"] = torch.tensor(part)
        if with_roles:
            batch["is_query"] = torch.tensor([roles[place] for place in part])
        if "groups" in names:
            batch |= {"groups": torch.where(batch["is_query"], -1, torch.as_tensor(batch["groups"]))}
        batches.append(batch)
    more_questions = (Question("identification", {}),) if name == "ReIDOpenSet" else RESULT_QUESTIONS
    questions = [Question("compute", {}), random.choice(more_questions)]
    facts = facts_of(name, names, options, index=with_index, roles=with_roles, **more)
    return Problem(Made(name, more | options), questions, batches, facts)


RESULT_QUESTIONS = (
    Question("results", {}, (), RESULTS),
    Question("results", {}, (), RESULTS),
    Question("results", {"nearest": 3}, (), (*RESULTS, Question("nearest", {}, (3,)))),
    Question("nearest", {}, (3,)),
    Question("duplicates", {}, (0.9,)),
)


def picked(values: Any, places: list[int]) -> Any:
    """Return some of the labels, in any of their forms."""
    if isinstance(values, dict):
        return {name: picked(labels, places) for name, labels in values.items()}
    if isinstance(values, list):
        return [values[place] for place in places]
    return torch.as_tensor(values)[places]


def draw_drawn(random: Random) -> Problem:
    """Draw an evaluation over drawn galleries, from embeddings, scores or by a metric."""
    names = {"identities", "cameras"} if random.random() < 0.8 else {"identities"}
    options: dict[str, Any] = {"ties": random.choice(samples.TIES[:3])}
    if random.random() < 0.4 and "cameras" in names:
        options["protocol"] = random.choice(samples.DRAWN)
    else:
        options["gallery_draw"] = samples.gallery_draw(random, names)
        if "cameras" in names:
            options["same_camera"] = random.choice(samples.CAMERA_RULES)
    if random.random() < 0.3 and "cameras" in names:
        options["cmc_same_camera"] = random.choice(samples.CAMERA_RULES)
    for name, values in (("gallery_draw_for_map", (True, False)), ("reports", (("map", "rank_1"), ("minp", "rank_3")))):
        if random.random() < 0.2:
            options[name] = random.choice(values)
    num_queries, num_gallery = sizes(random)
    sides = draw_sides(random, names, (num_queries, num_gallery))
    facts = facts_of("drawn", names, options)
    way = random.choice(("evaluate", "evaluate_scores", "metric"))
    if way == "evaluate_scores":
        call = Made(way, sided(*sides) | {"scores": matrix(random, num_queries, num_gallery)} | options)
        return Problem(call, asked(random), facts=facts | {"call": way})
    rows = [embeddings(random, size, 2, random.choice(samples.EMBEDDINGS)) for size in (num_queries, num_gallery)]
    if way == "evaluate":
        call = Made(way, sided(*sides) | {"query": rows[0], "gallery": rows[1].astype(rows[0].dtype)} | options)
        return Problem(call, asked(random), facts=facts | {"call": way})
    batches = []
    for side, array, role in zip(sides, rows, (True, False), strict=True):
        batches.append({"embeddings": torch.from_numpy(array.astype(np.float32)), "is_query": role})
        batches[-1] |= {name: torch.from_numpy(values) for name, values in side.items()}
    questions = [Question("compute", {}), Question("results", {}, (), RESULTS)]
    return Problem(Made("ReIDMetrics", options), questions, batches, facts | {"call": "ReIDMetrics"})


def draw_streams(random: Random) -> Problem:
    """Draw a gallery that comes in blocks."""
    names = {"identities"} | ({"cameras"} if random.random() < 0.7 else set())
    names |= {"clothes"} if random.random() < 0.2 else set()
    similarity = random.choice(samples.SIMILARITIES)
    kind = "codes" if similarity == "hamming" else random.choice(samples.EMBEDDINGS)
    options = {name: values for name, values in samples.options_of(random, names).items() if name in RULES_OF_STREAMS}
    counting = {name: value for name, value in options.items() if name not in ("reports", "empty_target_action")}
    counting |= {"similarity": similarity, "ties": random.choice(("pessimistic", "optimistic", "grouped", "expected"))}
    protocol = {"reports": options.get("reports", ("map", "rank_1", "minp"))}
    lengths = (random.choice((1, 3, 7)), random.choice((1, 8, 20)), *(random.choice((0, 1, 9)) for _ in range(3)))
    parts = [
        samples.labels(random, size, names) | {"embeddings": embeddings(random, size, 3, kind)} for size in lengths
    ]
    for item in parts[2:]:
        item["identities"] = item["identities"] + 6
    arguments = {"parts": parts, "counting": counting, "protocol": protocol, "statistics": random.random() < 0.3}
    questions = (Question("means"), Question("per_query"), Question("ranks.rank"), Question("cmc"))
    call = Made("steps.stream", arguments)
    return Problem(call, questions, facts=facts_of("RankCounter", names, counting | protocol, kind=kind))


RULES_OF_STREAMS = ("same_camera", "junk_identities", "clothes", "camera_map", "search_cameras", "reports", "max_bytes")
