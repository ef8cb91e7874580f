"""Causes of odd numbers of detection; to add one, decorate its trial with `cause`."""
# mypy: implicit-reexport

from . import pairings, values
from .case import DETECTION_CAUSES, DetectionCase
from .given_images import note_images
from .matched_images import MatchedImages

REGISTRIES = {MatchedImages: (DetectionCase, DETECTION_CAUSES)}
