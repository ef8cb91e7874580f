"""Base of all metrics of the package: growing states and the processes of a group."""
# mypy: implicit-reexport

from .arguments import (
    MetricOptions,
    arguments_of,
    explain_bad_call,
    explicit_signature,
    python_bool,
    show_arguments,
    signature_of,
)
from .growing_states import GrowingStates, shared_copy
from .process_group import DistributedWorld
