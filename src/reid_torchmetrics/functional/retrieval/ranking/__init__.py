"""Ranks of positives from scores and relevance; all measures are computed from `PositiveRanks`."""
# mypy: implicit-reexport

from .counting import are_above, cells_of_true, count_true, negatives_above, places_of_true, sort_rows
from .counts import Counts, GalleryStatistics, StreamSample
from .nearest import Nearest, nearest
from .positive_ranks import (
    UNRETRIEVED,
    Judgments,
    PositiveRanks,
    TiedGroups,
    block_of,
    check_ranks,
    cut_after,
    in_float,
    ranks_of_hits,
)
from .rank_counter import RankCounter
from .ranks import count_ranks, count_sharded_ranks, rank_positives, rank_positives_from_scores
from .tie_policies import DRAWN_TIES, TIE_POLICIES, TiePolicy, in_order, sort_with_places
from .tiles import GalleryPart
from .top_k import stable_top_k
