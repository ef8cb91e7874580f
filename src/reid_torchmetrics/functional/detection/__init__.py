"""Detection: from boxes to matches, and from matches to precision, recall and average precision.

The modules are used in this order: `images`, `boxes` and `shapes` hold the input, and `ordering` sorts it. `pairs`
finds the pairs that overlap. `assignment` matches them, with `deferred_acceptance` where detections compete, and
`matching` returns `Matches`, from which all numbers are computed. `precision_recall` and `average_precision` lead to
the numbers of `coco` on its `grid`. `MatchPart` is the base of what tasks compute of the same objects.

Many rows are selected by `index_select`: on a CPU it takes a half (numbers) to a quarter (boxes) of the time of `[...]`
with a tensor.
"""

from reid_torchmetrics import _signatures

from .evaluation import DetectionResults, evaluate_boxes, evaluate_images
from .inputs import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_RECALL_THRESHOLDS,
    Detections,
    GroundTruths,
    RunLengths,
    mask_iou,
    object_keypoint_similarity,
    pairwise_iou,
)

__all__ = [
    "COCO_AREA_RANGES",
    "COCO_IOU_THRESHOLDS",
    "COCO_RECALL_THRESHOLDS",
    "DetectionResults",
    "Detections",
    "GroundTruths",
    "RunLengths",
    "evaluate_boxes",
    "evaluate_images",
    "mask_iou",
    "object_keypoint_similarity",
    "pairwise_iou",
]

# Names that moved to tasks can be imported from here as before; to type checkers they do not exist.
_signatures.tell_hints(globals())
