"""Batches of images: what users give, checked, read and packed into the states that a metric holds."""

from .checks import sides_of
from .images import ImageNumbering, Images, NumberedImages, empty_states
from .packing import Batch, pack_images, text_of_many
from .shape_batches import ShapeBatch
from .shape_types import ShapeType, checked_iou_type, defaults_of, shape_types
from .unsound import INVALID, text_of_warning
