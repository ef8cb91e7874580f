"""Results of retrieval as the fields of a file, and the checks of such fields before numbers are computed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import (
    Protocol,
    RankLists,
    RetrievalResults,
    rankings_of,
    summarize,
)
from reid_torchmetrics.functional.retrieval.measures import DrawnResults, first_rank, is_known
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import NAMED_LABELS

_MOST = 1 << 63
_ROUNDING = 1e-9


def fields_of_retrieval(results: RetrievalResults, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the saved fields of results by name, given all fields that are not computed."""
    fields["max_rank"] = len(results.cmc)
    # A report shows ten candidates of a query and pairs of cameras. They are computed while there are embeddings,
    # and left out where they cannot be computed. The names of labels are stored once, in the results.
    with suppress(ValueError):
        fields["rank_lists"] = replace(results.rank_lists or results.nearest(10), label_names=None)
    with suppress(ValueError):
        if not results.camera_pairs:
            pairs = replace(results.by_camera_pair(), camera_names=None)
            first, *_ = results.averaged
            fields["camera_pairs"] = {first: pairs}
    return fields


def retrieval_of_fields(saved: dict[str, Any]) -> RetrievalResults:
    """Compute results from the fields of a file: the inverse of `fields_of_retrieval`."""
    _check_stored(saved)
    ranking, cmc_ranking = rankings_of(saved)
    drawn = saved["drawn"]
    if drawn is not None:  # the positives of the CMC may be others
        cmc_ranking = replace(cmc_ranking, drawn=drawn)
        ranking = replace(ranking, drawn=replace(drawn, num_positives=ranking.ranks.num_positives))
    results = summarize(
        ranking, saved["protocol"], saved["setup"], max_rank=saved.pop("max_rank"), cmc_ranking=cmc_ranking
    )
    return replace(results, **saved)


def _check_stored(saved: Mapping[str, Any]) -> None:
    """Raise unless there are rankings of all numbers, items exist, and values are NaN where they are undefined."""
    ranks = saved["ranks"]
    counts = saved["counts"]
    num_invalid = counts.junk, counts.not_in_gallery, counts.same_camera_only, counts.not_ranked
    is_sum = sum(num_invalid) + counts.valid == counts.total == ranks.num_queries
    if min(num_invalid) < 0 or not is_sum or counts.valid != int((ranks.num_positives > 0).sum()):
        raise ValueError(f"`counts` must be those of the ranks; got {counts}.")
    if saved["query_names"] is not None:
        _checks.length("query_names", len(saved["query_names"]), ranks.num_queries)
    for label, label_names in (saved["label_names"] or {}).items():
        _checks.one_of("label_names", label, NAMED_LABELS)
        for number in label_names:
            _checks.integer(f"label_names[{label!r}]", number)
    _check_rankings(saved["protocol"], saved["drawn"], saved["ranks_for_cmc"], has_valid=counts.valid > 0)
    if saved["drawn"] is not None:
        _check_drawn(saved["drawn"], ranks, saved["max_rank"])
    if saved["rank_lists"] is not None:
        items = saved["gallery_names"]
        _check_rank_lists(saved["rank_lists"], ranks, _MOST if items is None else len(items))
    for name, pairs in (saved["camera_pairs"] or {}).items():
        _checks.in_range(f"camera_pairs.{name}.num_valid", pairs.num_valid.flatten(), 0, counts.total + 1)
        _check_defined(f"camera_pairs.{name}.mean", pairs.mean, pairs.num_valid > 0)


def _check_rankings(
    protocol: Protocol, drawn: DrawnResults | None, ranks_for_cmc: PositiveRanks | None, *, has_valid: bool
) -> None:
    """Raise unless there are the rankings that the protocol needs for its numbers, and no others."""
    is_drawn = drawn is not None
    if is_drawn != (protocol.gallery_draw is not None) and (is_drawn or has_valid):
        got = "some" if is_drawn else "none"
        raise ValueError(f"`drawn` must be there if the protocol draws galleries, and only then; got {got}.")
    needs_ranks_for_cmc = protocol.cmc_same_camera is not None and not is_drawn
    if needs_ranks_for_cmc != (ranks_for_cmc is not None):
        got = "none" if needs_ranks_for_cmc else "some"
        raise ValueError(f"`ranks_for_cmc` must be there if the CMC has a camera rule of its own; got {got}.")


def _check_drawn(drawn: DrawnResults, ranks: PositiveRanks, max_rank: int) -> None:
    """Raise unless expectations are shares of 1, and undefined for queries without positives only.

    The positives of the CMC may differ from those of `ranks`, as it may have a camera rule of its own.
    """
    if drawn.cmc.shape[1] < max_rank:
        raise ValueError(f"`drawn.cmc` must have at least {max_rank} ranks; got {drawn.cmc.shape[1]}.")
    has_positive = drawn.num_positives > 0
    _check_defined("drawn.cmc", drawn.cmc, has_positive[:, None].expand_as(drawn.cmc))
    _check_defined("drawn.weight", drawn.weight, torch.ones_like(has_positive))
    for name in ("average_precision", "inverse_negative_penalty"):
        values = getattr(drawn, name)
        is_computed = not bool(values.isnan().all())
        _check_defined(f"drawn.{name}", values, (ranks.num_positives > 0) & is_computed)
    for name in ("cmc", "average_precision", "inverse_negative_penalty", "weight"):
        values = getattr(drawn, name)
        if bool(((values < -_ROUNDING) | (values > 1 + _ROUNDING)).any()):
            raise ValueError(f"`drawn.{name}` must lie in [0, 1]; got other values.")


def _check_rank_lists(lists: RankLists, ranks: PositiveRanks, num_items: int) -> None:
    """Raise unless all queries have lists, and all fields mark padding, and queries without a right answer, alike."""
    is_padding = lists.index == -1
    has_right = first_rank(ranks).isfinite()
    fits = {
        "query": torch.equal(lists.query, torch.arange(ranks.num_queries, device="cpu")),
        "scores": torch.equal(lists.scores.isnan(), is_padding),
        "is_positive": not bool((lists.is_positive & is_padding).any()),
        "first_positive_rank": torch.equal(lists.first_positive_rank > 0, has_right),
        "first_positive_index": torch.equal(lists.first_positive_index != -1, has_right),
        "first_positive_score": torch.equal(~lists.first_positive_score.isnan(), has_right),
    }
    for name, is_fitting in fits.items():
        if not is_fitting:
            raise ValueError(f"`rank_lists.{name}` must fit the results; got other values.")
    _checks.in_range("rank_lists.index", lists.index.flatten(), -1, num_items)
    _checks.in_range("rank_lists.first_positive_index", lists.first_positive_index, -1, num_items)
    _checks.in_range("rank_lists.first_positive_rank", lists.first_positive_rank, 0, _MOST)


def _check_defined(name: str, values: Tensor, is_defined: Tensor) -> None:
    """Raise unless values are NaN where they are undefined, and nowhere else."""
    if not torch.equal(~values.isnan(), is_defined):
        raise ValueError(f"`{name}` must be NaN where it is undefined, and nowhere else; got other values.")


def find_lacking(fields: Mapping[str, Any]) -> str:
    """Return a text about a file with a measure that `MEASURES` lacks, as a user's own may be; "" for other files."""
    protocol = fields.get("protocol")
    if protocol is None:  # detections
        return ""
    for name in protocol["$Protocol"]["reports"]["$tuple"]:
        if isinstance(name, str) and name.isidentifier() and not is_known(name):
            return f"with a measure that `MEASURES` lacks: add yours, `MEASURES[{name!r}] = Measure(...)`"
    return ""
