"""Comparisons of models on the same data."""
# mypy: implicit-reexport

from .comparison import Comparison, Difference, compare
