"""Batches of images: the input of users, checked, read and packed into the states of a metric."""
# mypy: implicit-reexport

from .image_columns import ImageColumns
from .image_ids import check_kind
from .images import SMALLEST_AREA, ImageNumbering, Images, NumberedImages, empty_states, fingerprints, number_ids
from .invalid_objects import are_valid_boxes, sides_of, text_of_warning
from .key_names import LISTS, are_similar, simplified
from .packing import Batch, GivenBatch, pack_images, text_of_many
from .shape_batches import KEPT_STATES, ShapeBatch
