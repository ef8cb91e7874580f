"""What all metrics of the package share: growing states and the processes of a group."""
# mypy: implicit-reexport

from .arguments import (
    MetricOptions,
    arguments_of,
    naming_arguments,
    python_bool,
    show_arguments,
    spelled_as,
    spelled_out,
)
from .growing_states import GrowingStates, shared_copy
from .process_group import DistributedWorld
