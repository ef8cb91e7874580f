"""A call for each cause of retrieval, by its name, in which it alone is told: small problems, made by hand."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.made import results_made
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples
from reid_torchmetrics.tasks import person_search
from tests.diagnosis.retrieval.doors import call
from tests.diagnosis.retrieval.wrong_samples import WRONG

NUM = 40
LABELS = torch.arange(NUM)


def vectors(num: int = NUM, seed: int = 0) -> Tensor:
    return torch.randn(num, 16, generator=torch.Generator().manual_seed(seed))


def of_process_0(**facts: bool) -> None:
    """What two processes find out together."""
    results_made(None, RankedSamples(find_protocol("market1501"), **facts))


def missing_cameras() -> None:
    evaluate(vectors(), vectors(seed=1), LABELS, LABELS, protocol="market1501")


def missing_search_cameras() -> None:
    """Search in a camera of another data set."""
    cameras = LABELS % 3
    evaluate(vectors(), vectors(seed=1), LABELS, LABELS, cameras, cameras, search_cameras=(7,))


def missing_items() -> None:
    """Give a part of the gallery."""
    metric = ReIDMeanAP(ground_truth={query: [NUM + query, 1000 + query] for query in range(NUM)})
    metric.update(vectors(), is_query=True, index=LABELS)
    metric.update(vectors(seed=1), is_query=False, index=NUM + LABELS)
    metric.compute()


def mixed_roles() -> None:
    """Give a batch without `is_query` after others."""
    metric = ReIDMeanAP()
    metric.update(vectors(), LABELS, is_query=True)
    metric.update(vectors(seed=1), LABELS)
    metric.compute()


def forgotten_reset() -> None:
    """Give the same samples in two epochs."""
    metric = ReIDMeanAP()
    for epoch in range(2):
        metric.update(vectors(seed=epoch), LABELS // 2)
        metric.compute()


def other_embeddings() -> None:
    """Give samples with the numbers of others."""
    metric = ReIDMeanAP()
    for seed in range(2):
        metric.update(vectors(seed=seed), LABELS // 2, index=LABELS)
    metric.compute()


def not_finite() -> None:
    metric = ReIDMeanAP()
    metric.update(vectors() / 0, LABELS // 2)
    metric.compute()


def no_positives() -> None:
    evaluate(vectors(), vectors(seed=1), LABELS, NUM + LABELS)


def infinite_scores() -> None:
    """Leave out pairs by a score of -inf."""
    evaluate_scores(vectors()[:10].fill_diagonal_(-math.inf), LABELS[:10], torch.arange(16) % 10)


def copied_queries() -> None:
    """Give queries that are in the gallery, and another gallery item of each identity."""
    gallery = vectors(2 * NUM)
    evaluate(gallery[:NUM].clone(), gallery, LABELS, LABELS.repeat(2))


def distances_as_scores() -> None:
    distances = 1 + LABELS / 1000 + torch.zeros(NUM, NUM)
    evaluate_scores(distances.fill_diagonal_(0), LABELS, LABELS)


def tied_pairs() -> None:
    """Give codes of so few bits that half of the pairs tie."""
    scores = (vectors(NUM * 25).reshape(NUM, 400) > 0).double()
    evaluate_scores(scores, LABELS % 4, torch.arange(400) % 4)


def unknown_identities() -> None:
    """Give queries of the identity -100 that find each other."""
    identities = LABELS.clone()
    identities[:5] = -100
    evaluate(vectors(), vectors(seed=1), identities, identities)


def at(values: Tensor, radius: float) -> None:
    """Find places within a radius."""
    places = {"query_positions": values, "gallery_positions": values}
    evaluate(vectors(len(values)), vectors(len(values), seed=1), radius=radius, **places)


def rounded_positions() -> None:
    """Give meters of UTM in float32, with a radius of one meter."""
    meters = 5e6 + torch.arange(20, dtype=torch.float32)[:, None] * 7.5
    at(meters.expand(20, 2).double(), 1.0)


def positions_in_degrees() -> None:
    """Give degrees of a town, with a radius of 25 meters."""
    at(torch.tensor([48.2, 16.37], dtype=torch.float64) + torch.arange(20)[:, None].double() / 7000, 25.0)


def nothing_pooled() -> None:
    """Give one image of each query."""
    evaluate(vectors(), vectors(seed=1), LABELS, LABELS, multi_query=True)


def boxes_in_shares() -> None:
    """Give boxes as shares of the image."""
    near = torch.rand(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 2
    boxes = torch.cat([near, near * 1.5 + 0.1], 1)
    images = torch.arange(20)
    queries = {"query_embeddings": vectors(20), "query_images": 20 + images, "query_identities": images}
    detected = {"embeddings": vectors(20, seed=1), "boxes": boxes, "images": images}
    persons = {"true_boxes": boxes, "true_images": images, "true_identities": images}
    person_search(**queries, **detected, **persons)


EXAMPLES: dict[str, Callable[[], None]] = {
    "missing_cameras": missing_cameras,
    "missing_search_cameras": missing_search_cameras,
    "missing_items": missing_items,
    "mixed_roles": mixed_roles,
    "forgotten_reset": forgotten_reset,
    "other_embeddings": other_embeddings,
    "gathered_samples": lambda: of_process_0(are_gathered=True),
    "padded_samples": lambda: of_process_0(are_padded=True),
    "not_finite": not_finite,
    "no_positives": no_positives,
    "infinite_scores": infinite_scores,
    "copied_queries": copied_queries,
    "distances_as_scores": distances_as_scores,
    "tied_pairs": tied_pairs,
    "unknown_identities": unknown_identities,
    "rounded_positions": rounded_positions,
    "positions_in_degrees": positions_in_degrees,
    "nothing_pooled": nothing_pooled,
    "boxes_in_shares": boxes_in_shares,
}
for cause, mistakes in WRONG.items():
    EXAMPLES.setdefault(cause, partial(call, "evaluate", next(iter(mistakes.values()))))
