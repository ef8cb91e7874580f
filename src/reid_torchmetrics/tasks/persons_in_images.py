"""Person search: queries are searched for among the boxes that a detector found in whole images.

For a query, each image that shows the person has at most one right box: the most similar one that overlaps the person's
true box. Every other box of every searched image is wrong. Images without a right box lower the recall, as their
persons are never retrieved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names, _progress
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import (
    Protocol,
    ProtocolOptions,
    RankedSamples,
    Ranking,
    RetrievalResults,
    Setup,
    find_protocol,
)
from reid_torchmetrics.functional.retrieval.ranking import ranks_of_hits
from reid_torchmetrics.functional.retrieval.relevance import number_names
from reid_torchmetrics.functional.world import results_made

from .lists import ranking_of_lists, summarize_lists
from .places import Grouping

_SCORES_AT_A_TIME = 1 << 22


@with_typed_options(ProtocolOptions)
@torch.no_grad()
def person_search(
    query_embeddings: Float[Tensor, "queries dim"] | _checks.Array,
    embeddings: Float[Tensor, "boxes dim"] | _checks.Array,
    boxes: Float[Tensor, "boxes 4"] | _checks.Array,
    *,
    images: Real[Tensor, " boxes"] | _checks.Integers,
    query_images: Real[Tensor, " queries"] | _checks.Integers,
    query_identities: Real[Tensor, " queries"] | _checks.IntegersOrNames,
    true_boxes: Float[Tensor, "persons 4"] | _checks.Array,
    true_images: Real[Tensor, " persons"] | _checks.Integers,
    true_identities: Real[Tensor, " persons"] | _checks.IntegersOrNames,
    galleries: Sequence[Any] | None = None,
    query_cameras: Real[Tensor, " queries"] | _checks.Integers | None = None,
    image_cameras: Real[Tensor, " images"] | _checks.Integers | None = None,
    listed_twice: bool = False,
    similarity: _names.SimilarityName = "cosine",
    protocol: _names.ProtocolName | Protocol = "cuhk_sysu",
    max_rank: int = 50,
    **options: Unpack[ProtocolOptions],
) -> RetrievalResults:
    """Evaluate person search (CUHK-SYSU, PRW).

    A box is right if it overlaps the person's true box, of width w and height h, by an IoU of at least
    min(0.5, wh / ((w + 10)(h + 10))), and is the most similar one of its image that does. Every other box is wrong. The
    query's own image is never searched. Average precision is divided by all images that hold the person; equal
    similarities count against the right box. Give the boxes that the detector is sure of: SeqNet's have scores of 0.5
    and more.

    Args:
        query_embeddings: embeddings of the queries.
        embeddings: embeddings of the detected boxes.
        boxes: the detected boxes x1 y1 x2 y2.
        images: the image of each detected box, by its number.
        query_images: the image of each query.
        query_identities: the person of each query; integers, or names here and in `true_identities`.
        true_boxes: the true boxes x1 y1 x2 y2. Of one person in one image the first counts.
        true_images: the image of each true box.
        true_identities: the person in each true box.
        galleries: for every query the images that are searched (CUHK-SYSU); None for all images (PRW).
        query_cameras: cameras of the queries, for `same_camera="all"`.
        image_cameras: cameras of the images by their number.
        listed_twice: search all images in addition to `galleries`, and count all their boxes as wrong: right boxes
            count a second time, as wrong. SeqNet and its copies do so for CUHK-SYSU's full set, `gallery_size=-1`.
        similarity: "cosine" or "dot".
        protocol: "cuhk_sysu", "prw" or another one. Its `same_camera` may be "keep" or "all", which searches images of
            other cameras only.
        max_rank: length of the CMC curve and of the lists of `nearest`.
        options: fields of the protocol to change.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, lengths or options that do not fit, boxes that are not finite or of negative size, cameras
            that are missing.
    """
    changed_protocol = find_protocol(protocol).with_options(options)
    _checks.one_of("similarity", similarity, ("cosine", "dot"))
    _checks.one_of("same_camera", changed_protocol.same_camera, ("keep", "all"))
    _checks.positive_int("max_rank", max_rank)
    if listed_twice and galleries is None:
        raise ValueError("`listed_twice` must come with `galleries`; got none.")

    # Everything is checked, and moved to one device.
    query, embeddings = _comparable(query_embeddings, embeddings, similarity)
    device = embeddings.device
    boxes = _checked_boxes("boxes", boxes, device)
    true_boxes = _checked_boxes("true_boxes", true_boxes, device)
    _checks.length("boxes", len(boxes), len(embeddings))
    true_images = _checked_labels("true_images", true_images, device, len(true_boxes))
    images = _checked_labels("images", images, device, len(boxes))
    galleries = _checked_galleries(galleries, len(query), device)
    cameras = None
    if changed_protocol.same_camera == "all":
        query_cameras = _checked_labels("query_cameras", query_cameras, device, len(query))
        image_cameras = _checked_labels("image_cameras", image_cameras, device)
        _checks.in_range("images", torch.cat([images, true_images]), 0, len(image_cameras))
        cameras = (query_cameras, image_cameras)
    query_images = _checked_labels("query_images", query_images, device, len(query))
    identities = {"query_identities": query_identities, "true_identities": true_identities}
    identities = number_names(identities, {}, sides=("query", "true")).values
    query_identities = _checked_labels("query_identities", identities["query_identities"], device, len(query))
    true_identities = _checked_labels("true_identities", identities["true_identities"], device, len(true_boxes))

    # Only the first true box of a person in an image counts.
    appearances = torch.stack([true_identities, true_images], dim=1)
    first = Grouping.of(appearances.unique(dim=0, return_inverse=True)[1]).first
    person, box = _overlapping(boxes, images, true_boxes[first], true_images[first])
    scene = _Scene(
        query=query,
        embeddings=embeddings,
        query_images=query_images,
        query_identities=query_identities,
        images=images,
        true_images=true_images[first],
        true_identities=true_identities[first],
        person=person,
        box=box,
        galleries=galleries,
        cameras=cameras,
        twice=listed_twice,
    )
    results = _evaluate(scene, changed_protocol, Setup("pessimistic", similarity, lists=True, cut=True), max_rank)
    labels = ("identities",) if cameras is None else ("identities", "cameras")
    ranking = Ranking(results.ranks, results.counts, results.query_index, results.query_identities, labels=labels)
    corners = {"boxes": boxes, "true_boxes": true_boxes[first]}
    results_made(ranking, RankedSamples(changed_protocol, protocol, num_gallery=len(boxes), boxes=corners))
    return results


def _comparable(query: object, embeddings: object, similarity: str) -> tuple[Tensor, Tensor]:
    """Return embeddings of queries and boxes with the similarity of their products, on the device of the boxes."""
    embeddings = _checks.embeddings("embeddings", embeddings)
    query = _checks.embeddings("query_embeddings", query)
    dtype = torch.promote_types(query.dtype, embeddings.dtype)
    query = query.to(embeddings.device, dtype)
    embeddings = embeddings.to(dtype)
    _checks.same_dimension("query_embeddings", query.shape[1], "embeddings", embeddings.shape[1])
    if similarity == "cosine":
        query = torch.nn.functional.normalize(query, dim=1)
        embeddings = torch.nn.functional.normalize(embeddings, dim=1)
    return query, embeddings


def _checked_labels(argument: str, values: Any, device: torch.device, length: int | None = None) -> Tensor:
    """Raise unless labels are whole numbers."""
    return _checks.whole_labels(argument, values, length, may_be_names=True).long().to(device)


def _checked_galleries(galleries: Any, num_queries: int, device: torch.device) -> list[Tensor] | None:
    """Raise unless there is a list of images for each query, or None."""
    if galleries is None:
        return None
    _checks.length("galleries", len(galleries), num_queries)
    return [_checked_labels(f"galleries[{place}]", gallery, device) for place, gallery in enumerate(galleries)]


def _checked_boxes(argument: str, boxes: object, device: torch.device) -> Float[Tensor, "boxes 4"]:
    """Raise unless boxes are finite corners."""
    boxes = _checks.floating_matrix(argument, boxes, 4).double().to(device)
    _checks.finite(argument, (~boxes.isfinite()).any(1).nonzero()[:, 0])
    sizes = boxes[:, 2:] - boxes[:, :2]
    wrong = (sizes < 0).any(1).nonzero()[:, 0]
    if len(wrong):
        got = f"{len(wrong)} others of {len(boxes)}, the first {boxes[wrong[0]].tolist()} in row {int(wrong[0])}"
        raise ValueError(f"`{argument}` must be x1 y1 x2 y2, with x2 at least x1 and y2 at least y1; got {got}.")
    return boxes


class _SearchResult(NamedTuple):
    """Result of the search for one query: the ranks of the right boxes, ascending, and a list of boxes."""

    num_persons: int
    num_boxes: int
    rank: Int[Tensor, " right"]
    boxes: Int[Tensor, " listed"]
    """the first ones, and behind them the first right one, if it is not among them"""
    scores: Float[Tensor, " listed"]
    is_right: Bool[Tensor, " listed"]


class _Scene(NamedTuple):
    """Images with their detected boxes and persons, and the queries."""

    query: Float[Tensor, "queries dim"]
    embeddings: Float[Tensor, "boxes dim"]
    query_images: Int[Tensor, " queries"]
    query_identities: Int[Tensor, " queries"]
    images: Int[Tensor, " boxes"]
    true_images: Int[Tensor, " persons"]
    true_identities: Int[Tensor, " persons"]
    person: Int[Tensor, " pairs"]
    """the true box of each pair of a true and a detected box that overlap enough"""
    box: Int[Tensor, " pairs"]
    """the detected box of each pair"""
    galleries: Sequence[Tensor] | None
    cameras: tuple[Tensor, Tensor] | None
    """the cameras of queries and of images"""
    twice: bool
    """whether all boxes are searched a second time, as wrong ones"""

    def is_searched(self, query: int, images: Int[Tensor, " any"]) -> Bool[Tensor, " any"]:
        """Return a mask of the images that are searched for a query."""
        searched = images != self.query_images[query]
        if self.galleries is not None:
            searched &= torch.isin(images, self.galleries[query])
        if self.cameras is not None:
            query_cameras, image_cameras = self.cameras
            searched &= image_cameras[images] != query_cameras[query]
        return searched

    def search(self, query: int, scores: Float[Tensor, " boxes"], k: int) -> _SearchResult:
        """Rank the boxes for a query, and list the first k."""
        # The right box of each true box is the most similar one that overlaps it enough; of equal boxes the last.
        is_person = (self.true_identities == self.query_identities[query]) & self.is_searched(query, self.true_images)
        pairs = is_person[self.person].nonzero()[:, 0].flip(0)
        pairs = pairs[scores[self.box[pairs]].argsort(descending=True, stable=True)]
        right = self.box[pairs[Grouping.of(self.person[pairs]).first]].sort().values

        # All other boxes that are searched are wrong; a second time all boxes are.
        is_wrong = self.is_searched(query, self.images)
        is_wrong[right] = False
        wrong = is_wrong.nonzero()[:, 0]
        if self.twice:
            boxes_of_other_images = (self.images != self.query_images[query]).nonzero()[:, 0]
            wrong = torch.cat([wrong, boxes_of_other_images])

        # Of equal scores wrong boxes come first.
        boxes = torch.cat([wrong, right])
        order = scores[boxes].argsort(descending=True, stable=True)
        is_right = order >= len(wrong)
        right_places = is_right.nonzero()[:, 0]
        first_places = torch.arange(min(k, len(boxes)), device=order.device)
        listed_places = torch.cat([first_places, right_places[right_places >= k][:1]])
        listed_boxes = boxes[order[listed_places]]
        return _SearchResult(
            num_persons=int(is_person.sum()),
            num_boxes=len(boxes),
            rank=right_places + 1,
            boxes=listed_boxes,
            scores=scores[listed_boxes],
            is_right=is_right[listed_places],
        )


def _evaluate(scene: _Scene, protocol: Protocol, setup: Setup, max_rank: int) -> RetrievalResults:
    """Search query by query, from scores of a few at a time."""
    query = scene.query
    searches: list[_SearchResult] = []
    num_queries = min(max(1, len(query)), max(1, _SCORES_AT_A_TIME // max(1, len(scene.embeddings))))
    blocks = segments.ranges(len(query), num_queries)
    for rows in _progress.steps(blocks, "Person search", parts=num_queries):
        scores = query[rows] @ scene.embeddings.T
        _checks.no_nan("embeddings", scores)
        for position, scores_of_query in enumerate(scores, rows.start):
            searches.append(scene.search(position, scores_of_query, max_rank))
            _progress.part_done()

    index = torch.arange(len(query), device=query.device)
    sizes = [(len(search.rank), search.num_persons, search.num_boxes) for search in searches]
    columns = torch.tensor(sizes, dtype=torch.int64, device=index.device).view(-1, 3)
    num_right, num_persons, num_boxes = columns.unbind(1)
    rank = torch.cat([index[:0], *(search.rank for search in searches)])
    ranks = ranks_of_hits(rank, num_right, num_persons, num_boxes)
    results = summarize_lists(
        ranking_of_lists(ranks, index, query_identities=scene.query_identities),
        items=_stack_lists([search.boxes for search in searches], max_rank, -1, index.device),
        hits=_stack_lists([search.is_right for search in searches], max_rank, 0, index.device).bool(),
        protocol=protocol,
        setup=setup,
        max_rank=max_rank,
        scores=_stack_lists([search.scores for search in searches], max_rank, 0.0, index.device),
    )
    return replace(results, rank_lists=results.nearest(max_rank))


def _stack_lists(rows: list[Tensor], max_rank: int, padding: Any, device: torch.device) -> Tensor:
    """Return lists as a matrix of `max_rank` + 1 columns."""
    longest = torch.full((max_rank + 1,), padding, device=device)  # a last row, which sets the width
    return torch.nn.utils.rnn.pad_sequence([*rows, longest], batch_first=True, padding_value=padding)[:-1]


def _overlapping(boxes: Tensor, images: Tensor, true_boxes: Tensor, true_images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pairs of a true box and a detected box of one image that overlap enough, as two columns."""
    # The boxes of an image lie together once they are sorted: one run for each true box.
    sorted_images, order = images.sort(stable=True)
    start = torch.searchsorted(sorted_images, true_images)
    stop = torch.searchsorted(sorted_images, true_images, right=True)
    person, place = segments.runs(start, stop - start)
    box = order[place]

    true_corners = true_boxes[person]
    corners = boxes[box]
    top_left = true_corners[:, :2].maximum(corners[:, :2])
    bottom_right = true_corners[:, 2:].minimum(corners[:, 2:])
    intersection = (bottom_right - top_left).clamp(min=0).prod(1)
    true_size = true_corners[:, 2:] - true_corners[:, :2]
    true_area = true_size.prod(1)
    area = (corners[:, 2:] - corners[:, :2]).prod(1)
    iou = intersection / (true_area + area - intersection)
    least_iou = (true_area / (true_size + 10).prod(1)).clamp(max=0.5)
    is_enough = iou >= least_iou
    return person[is_enough], box[is_enough]
