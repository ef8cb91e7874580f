"""What all metrics of the package share: growing states and the processes of a group."""

from .arguments import arguments_of, naming_arguments, python_bool, python_ints, python_numbers, show_arguments
from .growing_states import GrowingStates, shared_copy
from .process_group import DistributedWorld
