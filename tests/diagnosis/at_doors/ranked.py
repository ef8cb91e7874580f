"""Examples of every cause of retrieval, lists and pairs, as what users pass."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from tests.diagnosis.at_doors.doors import OF_SAMPLES, Data
from tests.diagnosis.list_problems import Searched, named
from tests.diagnosis.retrieval.wrong_samples import WRONG

NUM = 40
LABELS = torch.arange(NUM)
IN_TURNS = torch.arange(2 * NUM) % NUM


class Example(NamedTuple):
    """Data with a mistake, and the entry points that cannot show it, with the reason."""

    kind: str
    make: Callable[[], Data]
    not_seen: Mapping[str, str] = MappingProxyType({})


def vectors(num: int = NUM, seed: int = 0) -> Tensor:
    return torch.randn(num, 16, generator=torch.Generator().manual_seed(seed))


def trained(num: int = 2 * NUM, seed: int = 1) -> Tensor:
    """Gallery items near the queries `vectors()`, in turns."""
    return vectors()[torch.arange(num) % NUM] + vectors(num, seed)


def samples(query: Tensor | None = None, gallery: Tensor | None = None, **given: Any) -> Data:
    """Queries of forty identities, and two gallery items of each."""
    labels = {"query_identities": LABELS, "gallery_identities": IN_TURNS}
    sides = {"query": vectors() if query is None else query, "gallery": trained() if gallery is None else gallery}
    return sides | labels | given


def with_cameras(query_word: str, gallery_word: str) -> Data:
    """Samples with three cameras on each side, by their names."""
    words = {"query": query_word, "gallery": gallery_word}
    numbers = {"query": LABELS, "gallery": IN_TURNS + IN_TURNS // 20}
    cameras = {
        f"{side}_cameras": [words[side].format(number) for number in (numbers[side] % 3).tolist()] for side in words
    }
    return samples(**cameras)


def places(positions: Tensor, radius: float) -> Data:
    num = len(positions)
    labels = {"query_positions": positions, "gallery_positions": positions}
    return {"query": vectors(num), "gallery": vectors(num, 1), "radius": radius} | labels


def meters() -> Tensor:
    """Meters of UTM in float32."""
    return (5e6 + torch.arange(NUM, dtype=torch.float32)[:, None] * 7.5).expand(NUM, 2).double()


def degrees() -> Tensor:
    """Degrees of a town."""
    return torch.tensor([48.2, 16.37], dtype=torch.float64) + torch.arange(NUM)[:, None].double() / 7000


def opposite_matrix(kind: str) -> Data:
    data = samples()
    distances = torch.cdist(data.pop("query"), data.pop("gallery"))
    return data | {kind: distances if kind == "scores" else -distances}


def right_matrix(kind: str) -> Data:
    data = opposite_matrix("scores")
    matrix = data.pop("scores")
    return data | {kind: -matrix if kind == "scores" else matrix}


def infinite(kind: str) -> Data:
    data = opposite_matrix("scores")
    matrix = data.pop("scores") * (-1 if kind == "scores" else 1)
    matrix[:, :4] = -math.inf if kind == "scores" else math.inf
    return data | {kind: matrix}


def of_unknown() -> Data:
    """Queries of the identity -100 that find each other."""
    labels = [LABELS.clone(), IN_TURNS.clone()]
    for values in labels:
        values[:5] = -100
    return samples(query_identities=labels[0], gallery_identities=labels[1])


def of_few_bits() -> Data:
    """Embeddings of eight signs, and a hundred gallery items of each identity."""
    labels = {"query_identities": LABELS % 4, "gallery_identities": torch.arange(400) % 4}
    return {"query": vectors()[:, :8].sign(), "gallery": vectors(400, 1)[:, :8].sign()} | labels


def batches(*given: Any, **options: Any) -> Data:
    return {"batches": given, "options": options}


def batch(seed: int = 0, **labels: Any) -> Data:
    return {"embeddings": vectors(seed=seed), "identities": LABELS // 2} | labels


def rows_of(places: Sequence[int]) -> Data:
    """What one of two processes has of some samples."""
    return {name: values[list(places)] for name, values in batch().items()}


def persons() -> Data:
    """Boxes as shares of the image."""
    near = torch.rand(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 2
    boxes, images = torch.cat([near, near * 1.5 + 0.1], 1), torch.arange(20)
    queries = {"query_embeddings": vectors(20), "query_images": 20 + images, "query_identities": images}
    detected = {"embeddings": vectors(20, seed=1), "boxes": boxes, "images": images}
    return queries | detected | {"true_boxes": boxes, "true_images": images, "true_identities": images}


def sides(cause: str, mistake: str) -> Callable[[], Data]:
    def make() -> Data:
        query, gallery, given = WRONG[cause][mistake]()
        return {"query": query, "gallery": gallery} | given

    return make


def of_exchanged_axes() -> Data:
    """Positions in meters within three kilometers, with the axes of the queries exchanged: few match by chance."""
    positions = 3000 * torch.rand(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    labels = {"query_positions": positions.flip(1), "gallery_positions": positions}
    return {"query": vectors(200), "gallery": vectors(200, 1), "radius": 25.0} | labels


def pairs(*, opposite: bool = False, scale: float = 1.0) -> Data:
    """Pairs in blocks of genuine ones and impostors."""
    same = torch.arange(400) // 50 % 2 == 0
    first, other, error = torch.randn(3, 400, 24, generator=torch.Generator().manual_seed(0)).unbind()
    second = torch.where(same[:, None], first, other) + 0.6 * error
    return {"first": scale * normalize(first), "second": scale * normalize(second), "same": ~same if opposite else same}


def searched(change: Callable[[list[list[int]]], Any] | None = None, length: int = 5) -> Data:
    """Lists of a trained model as a user may change them, and the positives."""
    problem = Searched(2)
    lists = problem.nearest[:, :length].tolist()
    return {"retrieved": lists if change is None else change(lists), "positives": problem.positives}


def runs_of_one_score() -> Data:
    """Runs in which each item has the same score."""
    data = {side: named(lists, "d{}".format) for side, lists in searched(length=20).items()}
    return data | {"retrieved": [dict.fromkeys(items, 1.0) for items in data["retrieved"]]}


def indexed(change: Callable[[Any], Any]) -> Data:
    """Lists of an index as a user may change them, and the embeddings that it holds."""
    problem = Searched(1)
    sides = {"query": problem.query, "gallery": problem.gallery, "similarity": "euclidean"}
    return {"retrieved": change(problem.nearest[:, :10])} | sides


def not_seen(reason: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, reason)


NO_GALLERY = not_seen("a stream keeps no gallery", "evaluate_stream", "command --stream")
NO_EMBEDDINGS = NO_GALLERY | not_seen("there are no embeddings", "evaluate_scores", "distances", "evaluate_lists")

NO_CAMERAS = not_seen(
    "no cameras are kept: `no_positives` is told", *("evaluate_lists", "evaluate_stream", "command --stream")
)
IN_LISTS = not_seen("lists have no scores", "evaluate_lists")
NO_NAMES = not_seen("names of queries alone are kept: `no_positives` is told", "evaluate_stream", "command --stream")
NOT_POOLED = not_seen(
    "an option of `evaluate`",
    *(name for name in (*OF_SAMPLES, "two processes") if name not in ("evaluate", "command")),
)
GIVEN_SCORES = not_seen(
    "the similarity is not known, or no function",
    *("evaluate_scores", "distances", "evaluate_lists", "command", "command --stream"),
)

RETRIEVAL_EXAMPLES: dict[str, list[Example]] = {
    "missing_cameras": [
        Example(
            "samples",
            lambda: samples(protocol="market1501"),
            not_seen("the command refuses it", "command", "command --stream"),
        )
    ],
    "missing_search_cameras": [
        Example(
            "samples",
            lambda: samples(query_cameras=LABELS % 3, gallery_cameras=IN_TURNS % 3, search_cameras=(7,)),
            NO_CAMERAS,
        )
    ],
    "renumbered_identities": [
        Example(
            "samples",
            lambda: samples(
                query_identities=(7 * LABELS + 3) % NUM, gallery=vectors()[IN_TURNS] + 0.3 * vectors(80, 2)
            ),
            IN_LISTS | NO_GALLERY | not_seen("a process has half of the identities", "two processes"),
        )
    ],
    "unlike_cameras": [
        Example(
            "samples", lambda: with_cameras("c{}", "Camera {}"), not_seen("a process has some cameras", "two processes")
        ),
        Example("samples", lambda: with_cameras("North{}", " north{}"), not_seen("as above", "two processes")),
    ],
    "infinite_scores": [Example("matrix", lambda kind=kind: infinite(kind)) for kind in ("scores", "distances")],
    "copied_queries": [Example("samples", sides("copied_queries", "equal"), IN_LISTS)],
    "no_positives": [
        Example("samples", lambda: samples(gallery_identities=NUM + IN_TURNS)),
    ],
    "unlike_labels": [
        Example("samples", sides("unlike_labels", "zeros in front"), NO_NAMES),
        Example("samples", of_exchanged_axes, NO_GALLERY),
    ],
    "no_negatives": [Example("samples", sides("no_negatives", "kilometers"))],
    "repeated_samples": [Example("samples", sides("repeated_samples", "middle"), IN_LISTS | NO_GALLERY)],
    "zero_embeddings": [Example("samples", sides("zero_embeddings", "gallery"), NO_EMBEDDINGS)],
    "distances_as_scores": [
        *(Example("matrix", lambda kind=kind: opposite_matrix(kind)) for kind in ("scores", "distances")),
        Example("samples", lambda: samples(similarity=torch.cdist), GIVEN_SCORES),
    ],
    "tied_pairs": [
        Example("samples", of_few_bits, NO_GALLERY | not_seen("lists are ordered", "evaluate_lists")),
    ],
    "unknown_identities": [Example("samples", of_unknown)],
    "rounded_positions": [Example("samples", lambda: places(meters(), 1.0))],
    "positions_in_degrees": [Example("samples", lambda: places(degrees(), 25.0))],
    "nothing_pooled": [Example("samples", lambda: samples(multi_query=True), NOT_POOLED)],
    "boxes_in_shares": [Example("persons", persons)],
    "missing_items": [
        Example(
            "batches",
            lambda: batches(
                {"embeddings": vectors(), "is_query": True, "index": LABELS},
                {"embeddings": vectors(seed=1), "is_query": False, "index": NUM + LABELS},
                ground_truth={query: [NUM + query, 1000 + query] for query in range(NUM)},
            ),
        )
    ],
    "mixed_roles": [Example("batches", lambda: batches(batch(is_query=True), batch(1)))],
    "forgotten_reset": [Example("batches", lambda: batches(batch(), None, batch(1)))],
    "other_embeddings": [Example("batches", lambda: batches(batch(index=LABELS), batch(1, index=LABELS)))],
    "gathered_samples": [Example("parts", lambda: {"samples": [batch(), batch()]})],
    "padded_samples": [
        Example("parts", lambda: {"samples": [rows_of(range(0, 40, 2)), rows_of([*range(1, 39, 2), 0])]})
    ],
    "not_finite": [Example("batches", lambda: batches({"embeddings": vectors() / 0, "identities": LABELS // 2}))],
}
PAIR_EXAMPLES: dict[str, list[Example]] = {
    "opposite_pairs": [Example("pairs", lambda: pairs(opposite=True))],
    "thresholds_beyond": [
        Example(
            "pairs",
            lambda: pairs(scale=3.0),
            not_seen(
                "every threshold counts",
                *("verify_pairs", "verify_pairs, distances", "command pairs", "two processes"),
                *("PairVerification.compute", "PairVerification.results"),
            ),
        )
    ],
}
INDEX_EXAMPLES: dict[str, list[Example]] = {
    "shifted_positions": [Example("index", lambda: indexed(lambda lists: np.where(lists < 399, lists + 1, -1)))],
    "opposite_lists": [Example("index", lambda: indexed(lambda lists: lists[:, ::-1].copy()))],
}
LIST_EXAMPLES: dict[str, list[Example]] = {
    "other_names": [
        Example(
            "lists",
            lambda: {
                "retrieved": named(searched()["retrieved"], "gallery/{:05d}.png".format),
                "positives": named(searched()["positives"], "{:05d}.png".format),
            },
        )
    ],
    "shifted_items": [Example("lists", lambda: searched(lambda lists: [[item + 1 for item in row] for row in lists]))],
    "equal_list_scores": [Example("lists", runs_of_one_score)],
    "worst_first": [Example("lists", lambda: searched(lambda lists: [row[::-1] for row in lists], 400))],
}
