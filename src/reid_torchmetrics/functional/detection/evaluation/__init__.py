"""The road of detection: from the images of all processes to `DetectionResults`."""
# mypy: implicit-reexport

from .evaluate import evaluate_boxes, evaluate_images, match_shards, shard_images
from .image_matches import MATCH_PARTS, ImageMatches, MatchPart, MatchRequest, Overlaps, check_fractions
from .result_text import CLASS_COLUMNS, name_of, named_classes, title_of
from .results import (
    CORNERS_KEY,
    DETECTION_KEYS,
    GROUND_TRUTH_KEYS,
    RESULT_METHODS,
    DetectionResults,
    ImageBoxes,
    ImageDicts,
    ImageIds,
)
from .sharded_images import EvaluatedImages, EvaluatedObjects, ShardedImages, ShownColumns, ShownImages, number_images
from .values import MORE_VALUES, NamedValue, SingleValue, chosen_value, coco_names, names_of_values, prefix
