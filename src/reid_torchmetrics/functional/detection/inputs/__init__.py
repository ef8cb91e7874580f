"""Objects of images, as boxes or other shapes, thresholds, and the orders in which an evaluation looks at them."""

from .boxes import BOX_FORMATS, Sides, box_areas, check_scores, pairwise_iou, to_xywh
from .grid import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
    AreaRange,
    CocoGrid,
    check_area_ranges,
    check_recalls,
)
from .image_names import (
    NAME_BYTES,
    NAME_LENGTHS,
    as_words,
    check_kind,
    check_same_ids,
    joined_ids,
    name_images,
    num_words,
    number_names,
    pack_names,
    unpack_names,
)
from .images import Detections, GroundTruths
from .keypoints import (
    COCO_SIGMAS,
    check_sigmas,
    checked_keypoints,
    keypoint_boxes,
    object_keypoint_similarity,
    similarity,
)
from .masks import CountedMasks, checked_masks, counted_iou, mask_iou
from .ordering import (
    OrderedDetections,
    OrderedGroundTruths,
    distinct_labels,
    order_boxes,
    order_by_class_and_score,
    place_of_labels,
)
from .rotated_boxes import checked_rotated_boxes, pairwise_rotated_iou, rotated_areas, rotated_corners, rotated_iou
from .run_lengths import RunLengths
from .shapes import BoxShapes, Reach, Shapes, TableShapes
from .suppression import non_maximum_suppression
