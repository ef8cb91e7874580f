"""Causes of odd numbers of detection."""
# mypy: implicit-reexport

from .case import DetectionCase
from .registry import DETECTION_CAUSES
