"""Further evaluations, built on `functional` and `metrics`, which know nothing of them; `tasks.metrics` has metrics."""

from .identification import Identification

__all__ = ["Identification"]
