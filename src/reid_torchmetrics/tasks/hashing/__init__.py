"""Hashing: binary codes with whole numbers as scores, and samples with several labels."""
# mypy: implicit-reexport

from . import several_labels, whole_scores
from .codes import read_block
