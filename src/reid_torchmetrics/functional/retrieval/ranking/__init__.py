"""From scores and relevance to the ranks of positives, the waist of the evaluation."""

from reid_torchmetrics.functional.retrieval.ranking.counting import are_above, count_true, negatives_above, sort_rows
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
)
from reid_torchmetrics.functional.retrieval.ranking.sharded_counting import count_sharded_ranks
from reid_torchmetrics.functional.retrieval.ranking.tie_policies import TIE_POLICIES, TiePolicy
from reid_torchmetrics.functional.retrieval.ranking.top_k import stable_top_k
