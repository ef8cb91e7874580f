"""What all metrics of the package share: growing states and the processes of a group."""

from reid_torchmetrics.metrics.base.arguments import arguments_of, naming_arguments, show_arguments
from reid_torchmetrics.metrics.base.growing_states import GrowingStates, shared_copy
from reid_torchmetrics.metrics.base.process_group import DistributedWorld
from reid_torchmetrics.metrics.base.result_cache import ResultCache, drawn_number, number_of_all, version_of
from reid_torchmetrics.metrics.base.settings import Settings, meet
