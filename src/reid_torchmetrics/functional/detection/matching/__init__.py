"""From boxes to matches: which detection takes which ground truth."""

from reid_torchmetrics.functional.detection.matching.matches import Matches, merge_matches
from reid_torchmetrics.functional.detection.matching.matching import match_images, match_on_grid
from reid_torchmetrics.functional.detection.matching.pairs import DEFAULT_MAX_BYTES, Pairs, find_pairs, overlapping
