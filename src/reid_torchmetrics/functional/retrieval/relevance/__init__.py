"""Relevance: the positives, negatives and junk of each query."""

from .from_labels import SAME_CAMERA_RULES, check_camera_map, check_listed_once, find_listed_relevance, find_relevance
from .relevance import JunkPairs, QueryCounts, Relevance, TileRelevance
