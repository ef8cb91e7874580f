"""What all metrics of the package share: growing states and the processes of a group."""

from reid_torchmetrics.metrics.base.arguments import arguments_of, show_arguments
from reid_torchmetrics.metrics.base.growing_states import GrowingStates, own_shared
from reid_torchmetrics.metrics.base.messages import DistributedMetricError
from reid_torchmetrics.metrics.base.process_group import Group, differing
from reid_torchmetrics.metrics.base.settings import Settings, meet

__all__ = [
    "DistributedMetricError",
    "Group",
    "GrowingStates",
    "Settings",
    "arguments_of",
    "differing",
    "meet",
    "own_shared",
    "show_arguments",
]
