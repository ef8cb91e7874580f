"""Matching of detections to ground truths: from boxes to `Matches`."""
# mypy: implicit-reexport

from .best_of_all import CLAIMS, match_best_of_all, with_edges
from .federated import match_federated
from .matches import Matches, merge_matches
from .matching import match_on_grid
from .object_pairs import LEAST_OVERLAP, ObjectPairs, merge_object_pairs, pair_objects
from .pairs import OverlappingPairs, best_pairs, find_pairs, select
