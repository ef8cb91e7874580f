"""Hashing: binary codes, whose scores are whole numbers, and samples with several labels."""
# mypy: implicit-reexport

from . import several_labels, whole_scores
from .codes import read_block
