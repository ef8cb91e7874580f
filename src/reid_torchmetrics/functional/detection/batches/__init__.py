"""Batches of images: what users give, checked, read and packed into the states that a metric holds."""

from .checks import sides_of
from .images import STATES, ImageNumbering, Images, NumberedImages
from .packing import Batch, pack, pack_shapes, text_of_many
from .shape_batches import ShapeBatch, table_states
from .shape_types import ShapeType, checked_iou_type, defaults_of, shape_types
from .unsound import INVALID, text_of_warning
