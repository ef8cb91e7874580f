"""Relevance: the positives, negatives and junk of each query."""

from .from_labels import CLOTHES_RULES, SAME_CAMERA_RULES, check_camera_map, find_near, find_relevance
from .from_lists import check_listed_once, find_listed_relevance
from .labels import (
    DECIDING,
    LABELS,
    NO_GROUP,
    SIDES,
    BatchLabels,
    Integers,
    LabelValues,
    SideLabels,
    at,
    check_needed,
    deciding,
    deciding_of,
    length_of,
    packed,
    unpacked,
    width_of,
)
from .relevance import JunkPairs, QueryCounts, Relevance, TileRelevance
