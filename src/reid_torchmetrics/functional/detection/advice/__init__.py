"""Advice on detection: guesses that the input is not what the user meant; see `functional.advice`."""
# mypy: implicit-reexport

from .evidence import BoxSample, DetectionEvidence, sample_boxes
from .notes import BatchNotes
from .registry import DETECTION_ADVICE, advise_on_detections
from .repetitions import NO_REPETITIONS, Repetitions, count_other_detections, find_repetitions
