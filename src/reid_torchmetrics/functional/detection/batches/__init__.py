"""Batches of images: the input of users, checked, read and packed into the states of a metric."""
# mypy: implicit-reexport

from .coco_rows import areas_and_boxes, image_dict, parsed, read_coco, read_frequencies, run_lengths, write_coco
from .image_ids import check_kind
from .images import ImageNumbering, Images, empty_states
from .packing import Batch, pack_images, text_of_many
from .shape_batches import KEPT_STATES, ShapeBatch
from .unsound import sides_of, text_of_warning
