"""Files of detections and ground truths in COCO's format, and files of results."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from reid_torchmetrics import _signatures

if TYPE_CHECKING:
    from .access import (
        Allowance,
        decoded_json,
        has_json_lines,
        natural_order,
        read_json,
        read_keys,
        readable,
        write_whole,
    )
    from .array_layouts import ArrayLayout
    from .coco_columns import (
        ANNOTATIONS,
        CATEGORIES,
        IMAGES,
        TABLES,
        Column,
        RowList,
        check_kind_of_ids,
        counts_although_ignored,
        is_image_id,
        is_missing,
        repeated_id,
        shortened,
        similar_key,
        unknown_id,
    )
    from .coco_masks import are_of_other_sizes, compressed, fill_boxes_and_areas, masks_of_annotations, num_without_mask
    from .coco_metrics import read_images, write_images
    from .coco_names import are_results, find_images
    from .coco_rows import CocoReading, parsed, row_list
    from .coco_tables import check_category_names, check_flags, check_keys, on_images, read_coco, with_ids_of_images
    from .file_names import ImagesByName, bare_name, check_apart
    from .foreign_annotations import remedy_of_json
    from .json_blocks import UnreadRowsError
    from .object_tables import ANNOTATION_COLUMNS, ObjectTable, read_data_set, read_results, sizes_by_id, sizes_of
    from .opened_files import read_sides
    from .polygons import flips_of_objects
    from .result_files import FORMAT, StoredArray, load_results, save_results
    from .saved_detections import detections_of_fields, fields_of_detections
    from .saved_retrieval import fields_of_retrieval, retrieval_of_fields

_NAMES = {
    "access": "Allowance decoded_json has_json_lines natural_order read_json read_keys readable write_whole",
    "array_layouts": "ArrayLayout",
    "coco_columns": "ANNOTATIONS CATEGORIES IMAGES TABLES Column RowList check_kind_of_ids counts_although_ignored"
    " is_image_id is_missing repeated_id shortened similar_key unknown_id",
    "coco_masks": "are_of_other_sizes compressed fill_boxes_and_areas masks_of_annotations num_without_mask",
    "coco_metrics": "read_images write_images",
    "coco_names": "are_results find_images",
    "coco_rows": "CocoReading parsed row_list",
    "coco_tables": "check_category_names check_flags check_keys on_images read_coco with_ids_of_images",
    "file_names": "ImagesByName bare_name check_apart",
    "foreign_annotations": "remedy_of_json",
    "json_blocks": "UnreadRowsError",
    "object_tables": "ANNOTATION_COLUMNS ObjectTable read_data_set read_results sizes_by_id sizes_of",
    "opened_files": "read_sides",
    "polygons": "flips_of_objects",
    "result_files": "FORMAT StoredArray load_results save_results",
    "saved_detections": "detections_of_fields fields_of_detections",
    "saved_retrieval": "fields_of_retrieval retrieval_of_fields",
}
"""the names of each module, which is imported with the first of them that is used"""

_signatures.import_when_used(globals(), _NAMES)
