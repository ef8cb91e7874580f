"""From scores and relevance to the ranks of positives, the waist of the evaluation."""

from reid_torchmetrics.functional.retrieval.ranking.counting import negatives_above, sort_rows
from reid_torchmetrics.functional.retrieval.ranking.nearest import Nearest, nearest
from reid_torchmetrics.functional.retrieval.ranking.positive_ranks import (
    UNRETRIEVED,
    PositiveRanks,
    TiedGroups,
    check_ranks,
    in_float,
    unchecked_ranks,
)
from reid_torchmetrics.functional.retrieval.ranking.ranks import (
    count_ranks,
    rank_positives,
    rank_positives_from_scores,
    ranks_of_entries,
)
from reid_torchmetrics.functional.retrieval.ranking.tie_policies import TIE_POLICIES, Positives, TiePolicy, best_first
from reid_torchmetrics.functional.retrieval.ranking.tiles import Tiles, is_positive, positive_entries, queries_per_tile
from reid_torchmetrics.functional.retrieval.ranking.top_k import stable_top_k

__all__ = [
    "TIE_POLICIES",
    "UNRETRIEVED",
    "Nearest",
    "PositiveRanks",
    "Positives",
    "TiePolicy",
    "TiedGroups",
    "Tiles",
    "best_first",
    "check_ranks",
    "count_ranks",
    "in_float",
    "is_positive",
    "nearest",
    "negatives_above",
    "positive_entries",
    "queries_per_tile",
    "rank_positives",
    "rank_positives_from_scores",
    "ranks_of_entries",
    "sort_rows",
    "stable_top_k",
    "unchecked_ranks",
]
