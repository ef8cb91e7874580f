"""Batches of images: the input of users, checked, read and packed into the states of a metric."""
# mypy: implicit-reexport

from .coco_areas import fill_boxes_and_areas
from .coco_columns import (
    ANNOTATIONS,
    CATEGORIES,
    IMAGES,
    RESULTS,
    Column,
    RowList,
    check_kind_of_ids,
    counts_although_ignored,
    is_missing,
    shortened,
    similar_key,
)
from .coco_images import find_images
from .coco_masks import areas_and_boxes, check_masks, num_without_mask, run_lengths
from .coco_rows import CocoReading, image_dict, parsed, read_coco, row_list, size_of
from .coco_writing import SMALLEST_AREA, write_coco
from .file_names import ImagesByName, bare_name
from .given_images import GivenBatch, GivenImages, ShownColumns, ShownImages
from .image_ids import check_kind
from .images import ImageNumbering, Images, empty_states, fingerprints, number_ids
from .invalid_objects import sides_of, text_of_warning
from .key_names import LISTS
from .packing import Batch, pack_images, text_of_many
from .shape_batches import KEPT_STATES, ShapeBatch
