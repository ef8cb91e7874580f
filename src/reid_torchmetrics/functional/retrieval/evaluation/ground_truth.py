"""Ground truth as lists of positives and junk in the place of labels; a task reads the lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics._registries import Registry

GroundTruth: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
"""For every query its gallery positions as a tensor, an array or a list, or several by name, as the revisited Oxford
and Paris come; or a bool matrix [queries, gallery]"""

LIST_READERS: Registry[Callable[..., Any]] = Registry("LIST_READERS", {})
"""functions of the argument `ground_truth` and a protocol:
"positions" returns the positives and the junk of every query of an evaluation;
"numbers" returns the lists of a whole data set, which a metric keeps. Equal lists are equal, and their method `at`
returns the lists of some queries as positions of the gallery items of this process, and `ListedItems`"""


class ListedItems(NamedTuple):
    """Numbers of queries, of entries in their lists, and of entries that are items of the gallery."""

    num_queries: int
    num_listed: int
    num_found: int


def read_numbers(ground_truth: object, protocol: object) -> Any:
    """Return the lists of a data set, see `LIST_READERS`; None stands for labels."""
    return None if ground_truth is None else LIST_READERS["numbers"](ground_truth, protocol)
