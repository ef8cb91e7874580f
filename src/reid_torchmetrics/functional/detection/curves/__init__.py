"""From matches to curves of precision and recall, and average precision."""
# mypy: implicit-reexport

from .average_precision import AP_RULES, Rule, average_precision, evenly_spaced, mean_at_recalls, recalls_on
from .precision_recall import Curves, curves_from_matches, precision_at_recall, running_counts
