"""Comparisons of models on the same data, and tables of their numbers."""
# mypy: implicit-reexport

from reid_torchmetrics.functional.model_tables import TABLE_FORMATS

from .comparison import Comparison, Difference, compare
from .model_tables import comma_separated, latex, markdown

TABLE_FORMATS["markdown"] = markdown
TABLE_FORMATS["latex"] = latex
TABLE_FORMATS["csv"] = comma_separated
