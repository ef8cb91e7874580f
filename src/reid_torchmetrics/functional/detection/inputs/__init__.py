"""Objects of images, as boxes or other shapes, with thresholds and the orders of an evaluation."""
# mypy: implicit-reexport

from .boxes import (
    BOX_FORMATS,
    Sides,
    box_areas,
    check_finite,
    check_image_numbers,
    check_scores,
    check_sizes,
    checked_boxes,
    common_areas,
    from_xywh,
    iou_of_areas,
    pairwise_iou,
    to_xywh,
    to_xyxy,
)
from .counted_masks import RunMasks
from .grid import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
    THRESHOLDS,
    AreaRange,
    CocoGrid,
    check_area_ranges,
    nearest_threshold,
)
from .image_names import name_images, number_names, pack_names, plain_id, unpack_names
from .images import Detections, GroundTruths
from .keypoints import COCO_SIGMAS, KeypointType, keypoint_boxes, object_keypoint_similarity, paired_similarity
from .masks import checked_masks, iou_of_images, mask_iou
from .ordering import (
    OrderedDetections,
    OrderedGroundTruths,
    distinct_labels,
    order_boxes,
    order_by_class_and_score,
    place_of_labels,
)
from .run_lengths import RunLengths, decompressed, flips_between, lengths_between, lengths_of
from .shape_types import SHAPE_TYPES, SHAPES_IN_WORDS, checked_iou_type, defaults_of, shape_types
from .shapes import BoxShapes, ObjectColumns, Shapes, ShapeType, TableShapes
