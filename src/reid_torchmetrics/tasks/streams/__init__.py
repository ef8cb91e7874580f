"""A gallery that comes in blocks, here or on other machines."""
# mypy: implicit-reexport

from .counts import Counts, GalleryStatistics
from .evaluate import evaluate_stream
from .rank_counter import RankCounter
