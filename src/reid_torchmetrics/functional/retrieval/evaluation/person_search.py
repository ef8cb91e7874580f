"""Person search: queries are sought among the boxes that a detector found in whole images.

Per query, of each image that holds the person the most similar box that overlaps the person's true box is right, and
every other box of every searched image is wrong. Images without such a box lower the recall: their persons are never
retrieved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks, _names, _progress
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.advice import RetrievalEvidence, advise_on_retrieval
from reid_torchmetrics.functional.retrieval.ranking import ranks_of_hits
from reid_torchmetrics.functional.retrieval.relevance import number_names
from reid_torchmetrics.functional.world import ALONE

from .groups import Grouping
from .lists import summarize_lists
from .protocol import Protocol
from .protocols import find_protocol
from .ranking_options import Setup
from .results import RetrievalResults

_SCORES_AT_A_TIME = 1 << 22


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
    **options: Any,
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
        listed_twice: search all images besides `galleries`, and take all their boxes for wrong ones: right boxes count
            a second time, as wrong. It is what SeqNet and its copies do for CUHK-SYSU's full set, `gallery_size=-1`.
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
    chosen = find_protocol(protocol).changed(options)
    _checks.one_of("similarity", similarity, ("cosine", "dot"))
    _checks.one_of("same_camera", chosen.same_camera, ("keep", "all"))
    _checks.positive_int("max_rank", max_rank)
    if listed_twice and galleries is None:
        raise ValueError("`listed_twice` must come with `galleries`; got none.")
    # Everything is checked, and goes to one device.
    query, embeddings = _comparable(query_embeddings, embeddings, similarity)
    device = embeddings.device
    boxes, true_boxes = _checked_boxes("boxes", boxes, device), _checked_boxes("true_boxes", true_boxes, device)
    _checks.length("boxes", len(boxes), len(embeddings))

    def labels(argument: str, values: Any, length: int | None = None) -> Tensor:
        return _checks.whole_labels(argument, values, length).long().to(device)

    true_images = labels("true_images", true_images, len(true_boxes))
    images = labels("images", images, len(boxes))
    if galleries is not None:
        _checks.length("galleries", len(galleries), len(query))
        galleries = [labels(f"galleries[{place}]", each) for place, each in enumerate(galleries)]
    identities = {"query_identities": query_identities, "true_identities": true_identities}
    identities = number_names(identities, {}, sides=("query", "true")).values
    cameras = None
    if chosen.same_camera == "all":
        cameras = labels("query_cameras", query_cameras, len(query)), labels("image_cameras", image_cameras)
        _checks.in_range("images", torch.cat([images, true_images]), 0, len(cameras[1]))
    query_images = labels("query_images", query_images, len(query))
    query_identities = labels("query_identities", identities["query_identities"], len(query))
    true_identities = labels("true_identities", identities["true_identities"], len(true_boxes))
    # Of one person in one image the first box counts.
    _, appearance = torch.stack([true_identities, true_images], dim=1).unique(dim=0, return_inverse=True)
    first = Grouping.of(appearance).first
    true_boxes, true_images, true_identities = true_boxes[first], true_images[first], true_identities[first]
    pairs = _overlapping(boxes, images, true_boxes, true_images)
    sides = query, embeddings, query_images, query_identities, images, true_images, true_identities
    scene = _Scene(*sides, *pairs, galleries, cameras, listed_twice)
    results = _evaluate(scene, chosen, Setup("pessimistic", similarity, lists=True, cut=True), max_rank)
    advise_on_retrieval(RetrievalEvidence(boxes={"boxes": boxes, "true_boxes": true_boxes}), ALONE)
    return results


def _comparable(query: object, embeddings: object, similarity: str) -> tuple[Tensor, Tensor]:
    """Embeddings of queries and boxes with the similarity of their products, on the device of the boxes."""
    embeddings = _checks.embeddings("embeddings", embeddings)
    query = _checks.embeddings("query_embeddings", query)
    dtype = torch.promote_types(query.dtype, embeddings.dtype)
    query, embeddings = query.to(embeddings.device, dtype), embeddings.to(dtype)
    _checks.same_dimension("query_embeddings", query.shape[1], "embeddings", embeddings.shape[1])
    if similarity == "cosine":
        query, embeddings = (torch.nn.functional.normalize(each, dim=1) for each in (query, embeddings))
    return query, embeddings


def _checked_boxes(argument: str, boxes: object, device: torch.device) -> Float[Tensor, "boxes 4"]:
    """Raise unless boxes are finite corners."""
    boxes = _checks.floating_matrix(argument, boxes, 4).double().to(device)
    _checks.finite(argument, (~boxes.isfinite()).any(1).nonzero()[:, 0])
    sides = boxes[:, 2:] - boxes[:, :2]
    if len(wrong := (sides < 0).any(1).nonzero()[:, 0]):
        came = f"{len(wrong)} others of {len(boxes)}, the first {boxes[wrong[0]].tolist()} in row {int(wrong[0])}"
        raise ValueError(f"`{argument}` must be x1 y1 x2 y2, with x2 at least x1 and y2 at least y1; got {came}.")
    return boxes


class _Found(NamedTuple):
    """What the search for one query found: the ranks of the right boxes, ascending, and a list of boxes."""

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
    galleries: Sequence[Tensor] | None
    cameras: tuple[Tensor, Tensor] | None
    """the cameras of queries and of images"""
    twice: bool
    """whether all boxes are searched a second time, as wrong ones"""

    def is_searched(self, query: int, images: Int[Tensor, " any"]) -> Bool[Tensor, " any"]:
        """Whether images are searched for a query."""
        searched = images != self.query_images[query]
        if self.galleries is not None:
            searched &= torch.isin(images, self.galleries[query])
        if self.cameras is not None:
            searched &= self.cameras[1][images] != self.cameras[0][query]
        return searched

    def search(self, query: int, scores: Float[Tensor, " boxes"], k: int) -> _Found:
        """Rank the boxes for a query, and list the first k."""
        # The true boxes of the person, and of each the most similar box that overlaps it enough; of equals the last.
        is_person = (self.true_identities == self.query_identities[query]) & self.is_searched(query, self.true_images)
        pairs = is_person[self.person].nonzero()[:, 0].flip(0)
        pairs = pairs[scores[self.box[pairs]].argsort(descending=True, stable=True)]
        right = self.box[pairs[Grouping.of(self.person[pairs]).first]].sort().values
        # All other boxes that are searched are wrong; a second time all boxes are.
        is_wrong = self.is_searched(query, self.images)
        is_wrong[right] = False
        wrong = is_wrong.nonzero()[:, 0]
        if self.twice:
            wrong = torch.cat([wrong, (self.images != self.query_images[query]).nonzero()[:, 0]])
        # Of equal scores wrong boxes come first.
        boxes = torch.cat([wrong, right])
        order = scores[boxes].argsort(descending=True, stable=True)
        is_right = order >= len(wrong)
        place = is_right.nonzero()[:, 0]
        listed = torch.cat([torch.arange(min(k, len(boxes)), device=place.device), place[place >= k][:1]])
        shown = boxes[order[listed]]
        return _Found(int(is_person.sum()), len(boxes), place + 1, shown, scores[shown], is_right[listed])


def _evaluate(scene: _Scene, protocol: Protocol, setup: Setup, max_rank: int) -> RetrievalResults:
    """Search query by query, from scores of a few at a time."""
    query, embeddings, found = scene.query, scene.embeddings, list[_Found]()
    blocks = segments.ranges(len(query), max(1, _SCORES_AT_A_TIME // max(1, len(embeddings))))
    for rows in _progress.steps(blocks, "Person search"):
        scores = query[rows] @ embeddings.T
        _checks.no_nan("embeddings", scores)
        found += [scene.search(rows.start + row, each, max_rank) for row, each in enumerate(scores)]
    index = torch.arange(len(query), device=query.device)

    def stacked(name: str, padding: float) -> Tensor:
        rows = [getattr(each, name) for each in found]
        longest = torch.full((max_rank + 1,), padding, device=index.device)  # a row of its own, to be as wide
        return torch.nn.utils.rnn.pad_sequence([*rows, longest], batch_first=True, padding_value=padding)[:-1]

    numbers = [(len(each.rank), each.num_persons, each.num_boxes) for each in found]
    num_right, persons, boxes = torch.tensor(numbers, dtype=torch.int64, device=index.device).view(-1, 3).unbind(1)
    ranks = ranks_of_hits(torch.cat([index[:0], *(each.rank for each in found)]), num_right, persons, boxes)
    known = {"query_index": index, "query_identities": scene.query_identities, "scores": stacked("scores", 0.0)}
    items, hits = stacked("boxes", -1), stacked("is_right", 0).bool()
    results = summarize_lists(ranks, items, hits, protocol, setup, max_rank=max_rank, identities=None, **known)
    return replace(results, rank_lists=results.nearest(max_rank))


def _overlapping(boxes: Tensor, images: Tensor, true_boxes: Tensor, true_images: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs of a true box and a detected box of one image that overlap enough, as two columns."""
    # The boxes of an image lie together once they are sorted: one run for each true box.
    ordered, order = images.sort(stable=True)
    first, last = (torch.searchsorted(ordered, true_images, right=right) for right in (False, True))
    person, place = segments.runs(first, last - first)
    one, other = true_boxes[person], boxes[order[place]]
    inside = (one[:, 2:].minimum(other[:, 2:]) - one[:, :2].maximum(other[:, :2])).clamp(min=0).prod(1)
    sides = one[:, 2:] - one[:, :2]
    overlap = inside / (sides.prod(1) + (other[:, 2:] - other[:, :2]).prod(1) - inside)
    enough = overlap >= (sides.prod(1) / (sides + 10).prod(1)).clamp(max=0.5)
    return person[enough], order[place][enough]
