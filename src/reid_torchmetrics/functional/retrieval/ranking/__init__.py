"""Ranks of positives from scores and relevance; all measures are computed from `PositiveRanks`."""
# mypy: implicit-reexport

from .counting import Positives, are_above, count_true, negatives_above, places_of_true, sort_rows
from .nearest import Nearest, nearest
from .positive_ranks import (
    UNRETRIEVED,
    Judgments,
    PositiveRanks,
    RankTable,
    TiedGroups,
    block_of,
    check_ranks,
    in_float,
    ranks_of_hits,
    unchecked_ranks,
)
from .ranks import RANKINGS_AT_ONCE, count_ranks, count_sharded_ranks, rank_positives, rank_positives_from_scores
from .tie_policies import DRAWN_TIES, TIE_POLICIES, TiePolicy, in_order
from .tiles import (
    FEWEST_ROWS,
    GalleryPart,
    Tiles,
    Walk,
    best_first,
    cells_of_positives,
    cut_in_panels,
    rows_with_gallery,
    sort_in_order,
)
from .top_k import stable_top_k
