"""What all metrics of the package share: growing states and the processes of a group."""

from .arguments import arguments_of, naming_arguments, show_arguments
from .growing_states import GrowingStates, shared_copy
from .process_group import DistributedWorld
from .result_cache import ResultCache, drawn_number, number_of_all, version_of
from .settings import Settings, meet
