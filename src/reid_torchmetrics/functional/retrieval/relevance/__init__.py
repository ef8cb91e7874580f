"""Relevance: the positives, negatives and junk of each query."""

from .from_labels import LABEL_OPTIONS, SAME_CAMERA_RULES, check_camera_map, find_near, find_relevance, in_one_spelling
from .from_lists import check_listed_once, find_listed_relevance
from .labels import (
    CLOTHES_RULES,
    DECIDING,
    LABEL_RULES,
    LABELS,
    NO_GROUP,
    SIDES,
    BatchLabels,
    Integers,
    IntegersOrNames,
    LabelValues,
    SideLabels,
    at,
    check_needed,
    deciding,
    deciding_of,
    length_of,
    packed,
    unpacked,
    why_needed,
    width_of,
)
from .names import number_names
from .relevance import JunkPairs, QueryCounts, Relevance, TileRelevance
