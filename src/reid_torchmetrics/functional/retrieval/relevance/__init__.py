"""Relevance: the positives, negatives and junk of each query."""
# mypy: implicit-reexport

from .from_labels import LABEL_OPTIONS, SAME_CAMERA_RULES, check_camera_map, find_near, find_relevance, in_one_spelling
from .labels import (
    DECIDING,
    LABEL_RULES,
    LABELS,
    NO_GROUP,
    SIDES,
    BatchLabels,
    Integers,
    LabelValues,
    SideLabels,
    StreamLabels,
    at,
    check_needed,
    deciding,
    needed_by_options,
    num_labels_of,
    number_names,
    one_number_each,
    packed,
    unpacked,
    why_needed,
    width_of,
)
from .relevance import (
    GivenJunkPairs,
    JunkPairs,
    QueryCounts,
    Relevance,
    TileRelevance,
    check_listed_once,
    find_listed_relevance,
    junk_pairs_of,
)
from .several_labels import check_alike
