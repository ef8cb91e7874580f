"""The registry of causes of wrong numbers of detection; to add one, write a `Cause` in its list."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Cause

from .case import DetectionCase
from .reading_row import OTHER_READING

_ROWS: list[Cause[DetectionCase]] = [OTHER_READING]

DETECTION_CAUSES = {row.name: row for row in _ROWS}
"""rows by name, in the order in which they are asked"""
