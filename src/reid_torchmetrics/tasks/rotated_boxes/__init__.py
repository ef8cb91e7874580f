"""Rotated boxes as a shape of objects: five numbers, or four corners."""
# mypy: implicit-reexport

from .polygons import crossing_edges, paired_rotated_iou, rotated_corners
from .rotated_type import CORNER_ORDER, RotatedType, rotated_iou
