"""A number depends on the items alone: not on `max_bytes`, nor on the batches, blocks and files that items come in.

Public functions and metrics with an argument about memory or blocks are found by their signatures, and each is called
with hard items: near duplicates, copies, one item far from all others, and vectors far from the origin.
"""

import inspect

import numpy as np
import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics import KReciprocal, QueryExpansion, evaluate, evaluate_scores, index_recall, tasks
from reid_torchmetrics.data import SampleFile
from reid_torchmetrics.functional import detection, retrieval
from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES
from tests.profiles import each_row, of_each

ABOUT_BLOCKS = {"max_bytes", "batch_size", "block_size", "chunk_size", "tile_size", "num_shards", "blocks", "tile"}
"""names of arguments that decide how items are cut"""
ELSEWHERE = {
    "EmbeddingMetric": "the base class",
    "PositiveRanks": "`concatenate` joins the ranks of other queries",
    "Relevance": "`pairs` takes a tile of its own",
    "KReciprocal": "`evaluate` with `rerank` calls it",
    "QueryExpansion": "`evaluate` with `rerank` calls it",
}
"""public names with such an argument that are tested by others, with the reason"""
NUM_QUERIES, NUM_GALLERY = 10, 60
IDENTITIES = torch.arange(NUM_QUERIES) % 7, torch.arange(NUM_GALLERY) % 6
CUTS = ((30_000, [1]), (3_000, [1, 2, 40]), (None, [30]))
"""`max_bytes`, and the places at which items are cut in blocks"""


def near_duplicates():
    """Items of few centers in float32, far from the origin, with copies, and one item of zeros before all others."""
    rng = np.random.default_rng(5)
    centers = 3 + rng.normal(size=(4, 12))
    items = centers[rng.integers(0, 4, NUM_QUERIES + NUM_GALLERY)] + 1e-4 * rng.normal(size=(70, 12))
    items[60:65] = items[:5]
    query, gallery = torch.from_numpy(items.astype(np.float32)).split([NUM_QUERIES, NUM_GALLERY])
    gallery[0] = 0
    return query, gallery.clone()


QUERY, GALLERY = near_duplicates()
CODES = QUERY - QUERY.mean(0) > 0, GALLERY - QUERY.mean(0) > 0
LISTS = np.random.default_rng(0).permuted(np.tile(np.arange(NUM_GALLERY), (NUM_QUERIES, 1)), axis=1)[:, :12]
RELEVANCE = retrieval.find_relevance(*IDENTITIES)


def embeddings_for(similarity):
    return tuple(codes.float() for codes in CODES) if similarity == "hamming" else (QUERY, GALLERY)


def cut_at(rows, places):
    return [rows] if places is None else list(rows.tensor_split(places))


def of_evaluate(max_bytes, cut, similarity):
    query, gallery = embeddings_for(similarity)
    gallery = files_of(gallery, cut)
    options = {"similarity": similarity, "max_bytes": max_bytes}
    return evaluate(query, gallery, *IDENTITIES, **options, ties="stable").average_precision


def files_of(rows, cut):
    """The rows in one array, or in files."""
    if cut is None:
        return rows
    return [SampleFile(f"{number}.npy", part.numpy(), {}, ()) for number, part in enumerate(cut_at(rows, cut))]


def of_recall(max_bytes, cut, similarity):
    query, gallery = embeddings_for(similarity)
    recalls = [
        index_recall(LISTS, query, form, k=7, similarity=similarity, max_bytes=max_bytes, tolerance=0).per_query
        for form in (cut_at(gallery, cut), files_of(gallery, cut))
    ]
    assert torch.equal(*recalls)
    return recalls[0]


def of_counter(max_bytes, cut, similarity):
    query, gallery = embeddings_for(similarity)
    options = {"similarity": similarity, "max_bytes": max_bytes, "ties": "expected"}
    counter = tasks.RankCounter(query, gallery[:9], IDENTITIES[0], IDENTITIES[0][:9].clamp(max=6), **options)
    counts = [
        counter.count(block, torch.full((len(block),), 99), key=number)
        for number, block in enumerate(cut_at(gallery[9:], cut))
        if len(block)
    ]
    return tasks.evaluate_stream(counter, sum(counts)).average_precision


def of_rerank(rerank):
    def compute(max_bytes, cut, similarity):
        return evaluate(QUERY, GALLERY, *IDENTITIES, rerank=rerank, max_bytes=max_bytes).average_precision

    return compute


def of_metric(name):
    def compute(max_bytes, cut, similarity):
        arguments = ["map"] * (name == "ReIDMeasure")
        metric = getattr(reid_torchmetrics, name)(*arguments, similarity=similarity, max_bytes=max_bytes)
        for rows, identities, is_query in zip(embeddings_for(similarity), IDENTITIES, (True, False), strict=True):
            for batch, labels in zip(cut_at(rows, cut), cut_at(identities, cut), strict=True):
                metric.update(batch, labels, is_query=is_query)
        return metric.compute()

    return compute


def images():
    """Images with boxes of two classes, results and ground truths; some are equal, some overlap in part."""
    rng = np.random.default_rng(2)
    pairs = []
    for _ in range(4):
        corners = torch.from_numpy(rng.integers(0, 8, (9, 2)) * 4.0)
        boxes = torch.cat([corners, corners + 12], dim=1).float()
        labels = torch.from_numpy(rng.integers(0, 2, 9))
        scores = torch.from_numpy(rng.integers(1, 5, 6) / 5).float()
        truth = {"boxes": boxes[5:], "labels": labels[5:]}
        pairs.append(({"boxes": boxes[:6], "scores": scores, "labels": labels[:6]}, truth))
    return pairs


IMAGES = images()


def of_detection_metric(name):
    def compute(max_bytes, cut, similarity):
        metric = getattr(reid_torchmetrics, name)(max_bytes=max_bytes)
        for batch in [IMAGES] if cut is None else [[pair] for pair in IMAGES]:
            preds, target = map(list, zip(*batch, strict=True))
            if name == "LvisMAP":
                target = [{**item, "not_exhaustive": [], "negative": []} for item in target]
            metric.update(preds, target)
        return metric.compute()

    return compute


def of_images(max_bytes, cut, similarity):
    return detection.evaluate_images(*map(list, zip(*IMAGES, strict=True)), max_bytes=max_bytes).means


def of_boxes(max_bytes, cut, similarity):
    preds, target = zip(*IMAGES, strict=True)

    def numbers(items):
        return torch.arange(len(items)).repeat_interleave(torch.tensor([len(item["boxes"]) for item in items]))

    def joined(items, key):
        return torch.cat([item[key] for item in items])

    detections = detection.Detections(
        joined(preds, "boxes"), joined(preds, "scores"), joined(preds, "labels"), numbers(preds)
    )
    ground_truths = detection.GroundTruths(joined(target, "boxes"), joined(target, "labels"), numbers(target))
    return detection.evaluate_boxes(detections, ground_truths, max_bytes=max_bytes).means


def parameters(value):
    """The names of all arguments of a function, or of the methods of a class."""
    functions = [value]
    if inspect.isclass(value):
        functions = [function for _, function in inspect.getmembers(value, inspect.isfunction)]
    return {
        name
        for function in functions
        if inspect.isfunction(function)
        for name in inspect.signature(function).parameters
    }


PUBLIC = {
    name: getattr(room, name)
    for room in (reid_torchmetrics, retrieval, detection)
    for name in room.__all__
    if ABOUT_BLOCKS & parameters(getattr(room, name))
}
"""the public functions and classes with an argument about blocks, in themselves or in a method"""
METRICS = {name: value for name, value in PUBLIC.items() if hasattr(value, "update") and name not in ELSEWHERE}
CALLS = {
    "evaluate": of_evaluate,
    "evaluate with KReciprocal": of_rerank(KReciprocal(k1=5, k2=2)),
    "evaluate with QueryExpansion": of_rerank(QueryExpansion(k=3)),
    "evaluate_scores": lambda max_bytes, cut, similarity: (
        evaluate_scores(QUERY @ GALLERY.T, *IDENTITIES, max_bytes=max_bytes, ties="expected").average_precision
    ),
    "index_recall": of_recall,
    "find_duplicates": lambda max_bytes, cut, similarity: (
        tasks.find_duplicates(
            *embeddings_for(similarity), similarity=similarity, max_bytes=max_bytes, threshold=0
        ).query
    ),
    "rank_positives": lambda max_bytes, cut, similarity: (
        retrieval.rank_positives(
            *embeddings_for(similarity), *IDENTITIES, similarity=similarity, max_bytes=max_bytes, ties="stable"
        ).rank
    ),
    "rank_positives_from_scores": lambda max_bytes, cut, similarity: (
        retrieval.rank_positives_from_scores(QUERY @ GALLERY.T, *IDENTITIES, max_bytes=max_bytes).rank
    ),
    "score_embeddings": lambda max_bytes, cut, similarity: retrieval.score_embeddings(
        *embeddings_for(similarity), RELEVANCE, similarity=similarity, max_bytes=max_bytes
    ).all(),
    "scores_from_matrix": lambda max_bytes, cut, similarity: retrieval.scores_from_matrix(
        QUERY @ GALLERY.T, RELEVANCE, max_bytes=max_bytes
    ).all(),
    "expand_queries": lambda max_bytes, cut, similarity: retrieval.expand_queries(
        QUERY, GALLERY, k=3, max_bytes=max_bytes
    ),
    "rerank_k_reciprocal": lambda max_bytes, cut, similarity: retrieval.rerank_k_reciprocal(
        QUERY, GALLERY, k1=5, k2=2, max_bytes=max_bytes
    ).all(),
    "RankCounter": of_counter,
    "evaluate_images": of_images,
    "evaluate_boxes": of_boxes,
    **{name: of_metric(name) for name, kind in METRICS.items() if "similarity" in parameters(kind)},
    **{name: of_detection_metric(name) for name, kind in METRICS.items() if "similarity" not in parameters(kind)},
}
"""a function of `max_bytes`, of the places where items are cut, and of a similarity, for each way to a number"""


def same(value, expected):
    if isinstance(expected, dict):
        return value.keys() == expected.keys() and all(same(value[name], expected[name]) for name in expected)
    return np.array_equal(np.asarray(value), np.asarray(expected), equal_nan=True)


def similarities_of(name):
    """The similarities to call a name with: one for metrics, which share their scores, but all of them at night."""
    if name not in PUBLIC or "similarity" not in parameters(PUBLIC[name]):
        return ["cosine"]
    return of_each(SIMILARITIES, suite=1 if name in METRICS else len(SIMILARITIES))


def test_every_public_name_with_an_argument_about_blocks_is_called_here():
    assert PUBLIC.keys() - CALLS.keys() - ELSEWHERE.keys() == set()


@each_row("name", CALLS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_number_depends_on_the_items_alone(name):
    call = CALLS[name]
    for similarity in similarities_of(name):
        expected = call(None, None, similarity)
        for max_bytes, cut in CUTS:
            assert same(call(max_bytes, cut, similarity), expected), (name, similarity, max_bytes, cut)
