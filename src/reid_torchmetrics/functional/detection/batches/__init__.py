"""Batches of images: the input of users, checked, read and packed into the states of a metric."""
# mypy: implicit-reexport

from .checks import checked_flags
from .image_columns import Dicts, ImageColumns, values_of
from .image_ids import check_kind
from .images import (
    EXTRAS,
    SMALLEST_AREA,
    ExtraColumns,
    ImageNumbering,
    Images,
    NumberedImages,
    empty_states,
    fingerprints,
    number_ids,
)
from .invalid_objects import are_valid_boxes, sides_of, text_of_warning
from .key_names import LISTS, are_similar, simplified
from .packing import Batch, GivenBatch, join_optional, pack_images, text_of_many
from .shape_batches import KEPT_STATES, ShapeBatch, overlaps_of_masks
