"""Comparisons of models on the same data, and tables of their numbers."""
# mypy: implicit-reexport

from reid_torchmetrics.functional.model_tables import TABLE_FORMATS
from reid_torchmetrics.functional.retrieval.evaluation import RETRIEVAL_METHODS

from .comparison import Comparison, Difference, compare
from .model_tables import comma_separated, latex, markdown
from .resampling import Interval, bootstrap_interval, seeded

TABLE_FORMATS["markdown"] = markdown
TABLE_FORMATS["latex"] = latex
TABLE_FORMATS["csv"] = comma_separated
RETRIEVAL_METHODS["interval"] = bootstrap_interval
