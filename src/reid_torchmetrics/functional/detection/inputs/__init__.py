"""Objects of images, as boxes or other shapes, thresholds, and the orders in which an evaluation looks at them."""

from reid_torchmetrics.functional.detection.inputs.box_checks import check_scores
from reid_torchmetrics.functional.detection.inputs.boxes import (
    BOX_FORMATS,
    Sides,
    box_areas,
    pairwise_iou,
    to_xywh,
)
from reid_torchmetrics.functional.detection.inputs.grid import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
    AreaRange,
    CocoGrid,
    check_area_ranges,
    check_recalls,
)
from reid_torchmetrics.functional.detection.inputs.image_names import name_images
from reid_torchmetrics.functional.detection.inputs.images import Detections, GroundTruths
from reid_torchmetrics.functional.detection.inputs.keypoints import (
    COCO_SIGMAS,
    check_sigmas,
    checked_keypoints,
    keypoint_boxes,
    object_keypoint_similarity,
    similarity,
)
from reid_torchmetrics.functional.detection.inputs.masks import CountedMasks, checked_masks, counted_iou, mask_iou
from reid_torchmetrics.functional.detection.inputs.ordering import OrderedDetections, OrderedGroundTruths, order_boxes
from reid_torchmetrics.functional.detection.inputs.overlap_tables import TableShapes
from reid_torchmetrics.functional.detection.inputs.rotated_boxes import (
    checked_rotated_boxes,
    pairwise_rotated_iou,
    rotated_areas,
    rotated_corners,
    rotated_iou,
)
from reid_torchmetrics.functional.detection.inputs.run_lengths import RunLengths
from reid_torchmetrics.functional.detection.inputs.shapes import BoxShapes, Reach, Shapes
from reid_torchmetrics.functional.detection.inputs.sorting import (
    distinct_labels,
    order_by_class_and_score,
    place_of_labels,
)
from reid_torchmetrics.functional.detection.inputs.suppression import non_maximum_suppression
