"""The road of detection: from the images of all processes to `DetectionResults`."""
# mypy: implicit-reexport

from .evaluate import evaluate_boxes, evaluate_images, make_results, match_shards, shard_images
from .evaluated_images import EvaluatedImages, EvaluatedObjects, ShownColumns, ShownImages
from .image_boxes import CORNERS_KEY, DETECTION_KEYS, GROUND_TRUTH_KEYS, ImageBoxes, ImageDicts, ImageIds
from .image_matches import ImageMatches, MatchRequest, Overlaps
from .match_parts import MATCH_PARTS, SAVED_PARTS, MatchPart, check_fractions
from .result_text import CLASS_COLUMNS, name_of, named_classes, title_of
from .results import RESULT_METHODS, DetectionResults
from .sharded_images import ShardedImages, number_images
from .values import MORE_VALUES, NamedValue, SingleValue, chosen_value, coco_names, names_of_values, prefix
