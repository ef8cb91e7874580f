"""Near duplicates among all pairs."""
# mypy: implicit-reexport

from .duplicates import AllPairs, Duplicates, check_threshold, find_duplicates, find_pairs
