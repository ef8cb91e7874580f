"""Who is positive, negative or junk for a query."""

from reid_torchmetrics.functional.retrieval.relevance.from_labels import (
    SAME_CAMERA_RULES,
    find_listed_relevance,
    find_relevance,
)
from reid_torchmetrics.functional.retrieval.relevance.label_checks import check_camera_map, check_listed_once
from reid_torchmetrics.functional.retrieval.relevance.relevance import JunkPairs, QueryCounts, Relevance, TileRelevance
