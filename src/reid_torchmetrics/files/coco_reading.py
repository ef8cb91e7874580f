"""Detections and ground truths read from COCO's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .coco_rows import CocoReading, read_rows
from .coco_tables import read_tables
from .json_blocks import UnreadRowsError


def read_coco(
    results_path: str, data_set_path: str, reading: CocoReading
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Read detections and ground truths of each image, in the order of the data set, for `DetectionMAP.update`.

    Files of boxes like those of COCO are read as columns, all others row by row; see `read_rows`, which also explains
    errors.
    """
    try:
        return read_tables(results_path, data_set_path, reading)
    except UnreadRowsError:
        return read_rows(results_path, data_set_path, reading)
