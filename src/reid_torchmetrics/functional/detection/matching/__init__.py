"""Matching of detections to ground truths: from boxes to `Matches`."""
# mypy: implicit-reexport

from .matches import Matches, merge_matches
from .matching import AreaRanges, match_on_grid
from .pairs import DEFAULT_MAX_BYTES, OverlappingPairs, best_pairs, find_pairs, overlapping_pairs, select
