"""From boxes to matches: which detection takes which ground truth."""

from .best_of_all import CLAIMS, match_best_of_all, with_edges
from .matches import Matches, merge_matches
from .matching import match_images, match_on_grid
from .pairs import DEFAULT_MAX_BYTES, Pairs, find_pairs, overlapping
