"""Causes that lists of a vector index show beside the embeddings: the opposite order, and shifted positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.tasks import IndexRecall
from reid_torchmetrics.tasks.vector_indexes import SearchedLists, search_lists

from .causes import Causes, NotHeldError, Values, is_beyond_chance
from .lists import different_queries

_SUSPECT = 0.25  # of the steps from item to item; fewer that rise raise no suspicion
_OPPOSITE = 0.75
_GAIN = 0.2  # of recall


class IndexCase:
    """The recall of an index, and a sample of its lists."""

    def __init__(self, results: tuple[IndexRecall, Float[Tensor, "queries longest"]], samples: SearchedLists) -> None:
        """Take the recall and the exact scores of items, and the lists."""
        self.recall, scores = results
        self.samples = samples
        self.queries = different_queries(samples.items).to(scores.device)
        """some queries, see `different_queries`"""
        steps = scores[self.queries].diff(dim=1)
        steps = steps[steps.isfinite() & (steps != 0)]
        self.num_steps, self.num_rising = len(steps), int((steps > 0).sum())
        """steps from one item of a list to the next, and those to a higher exact score"""


INDEX_CAUSES: Causes[IndexCase] = Causes()
"""rows by name, in the order in which they are tried"""
cause = INDEX_CAUSES.add


def _fit_badly(case: IndexCase) -> bool:
    return case.num_rising >= _SUSPECT * case.num_steps  # also for lists of one item


@cause(
    message="Lists have their items in the opposite order of exact scores, which rise in {num} of {steps} from one"
    " item to the next. They must be best first, and `similarity` must be that of the index, higher for closer"
    " items.",
    suspect=_fit_badly,
)
def opposite_lists(case: IndexCase) -> Values | None:
    """Look for lists of an index that are worst first, or by another similarity.

    From item to item of at most 256 lists a share of {_OPPOSITE} of the exact scores rise, and more than by luck.
    """
    num_steps, num_rising = case.num_steps, case.num_rising
    if num_rising < _OPPOSITE * num_steps or not is_beyond_chance(num_rising, num_steps, 0.5):
        return None
    return {"num": f"{num_rising:,}", "steps": counted(num_steps, "step")}


@cause(
    message="The lists do not fit the embeddings: recall is {recall}, and {better} where 1 is {change} each"
    " position. Positions count from 0, in the order of `gallery`.",
    suspect=_fit_badly,
    explained_by=("opposite_lists",),
)
def shifted_positions(case: IndexCase) -> Values | None:
    """Look for positions of an index that count from 1.

    From item to item a share of {_SUSPECT} of the exact scores rise, the gallery can be read again, and the recall of
    at most 256 queries rises by {_GAIN} or more, and by more than luck explains, where 1 is subtracted from all
    positions, or added, and by less than half of it in the other direction.
    """
    num_queries, num_gallery, gallery = len(case.queries), case.recall.num_gallery, case.samples.gallery
    if not isinstance(gallery, Sequence) and not hasattr(gallery, "shape"):
        raise NotHeldError("gallery that can be read again")
    if not num_queries:
        return None
    items, query = case.samples.items[case.queries], case.samples.query[case.queries]
    shifted = torch.cat([items - 1, items + 1]).masked_fill(torch.cat([items, items]) < 0, -1)
    lists = replace(case.samples, items=shifted.where(shifted < num_gallery, -1), query=torch.cat([query, query]))
    better, _ = search_lists(lists)
    recall = float(case.recall.per_query[case.queries].mean())
    gains = dict(zip((1, -1), (better.per_query.view(2, -1).mean(1) - recall).tolist(), strict=True))
    # Lists of neighboring frames without the query itself are better in both directions.
    offset = max(gains, key=gains.__getitem__)
    by_luck = max(recall, min(1.0, case.recall.k / num_gallery))
    is_better = is_beyond_chance((recall + gains[offset]) * num_queries, num_queries, by_luck)
    if gains[offset] < max(_GAIN, 2 * gains[-offset]) or not is_better:
        return None
    return {
        "recall": f"{recall:.4f}",
        "better": f"{recall + gains[offset]:.4f}",
        "change": "subtracted from" if offset == 1 else "added to",
    }
