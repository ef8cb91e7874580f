"""The keyword arguments of a metric class, for those who misspell one."""

from __future__ import annotations

import inspect
from itertools import takewhile

from torchmetrics import Metric, MetricCollection

_OF_ALL_METRICS = (
    "compute_on_cpu",
    "dist_sync_on_step",
    "process_group",
    "dist_sync_fn",
    "distributed_available_fn",
    "sync_on_compute",
    "compute_with_cache",
)
"""keyword arguments of `torchmetrics.Metric`, which takes them by any name"""


def arguments_of(kind: type, *others: str) -> list[str]:
    """The arguments that a class takes, its own first, then `others`, then those of all metrics."""
    found: dict[str, None] = {}
    for one in takewhile(lambda one: one not in (Metric, MetricCollection), kind.__mro__):
        parameters = inspect.signature(vars(one)["__init__"]).parameters.values() if "__init__" in vars(one) else ()
        found |= {each.name: None for each in parameters if each.kind is not each.VAR_KEYWORD}
    return [name for name in dict.fromkeys((*found, *others, *_OF_ALL_METRICS)) if name != "self"]
