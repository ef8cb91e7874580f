"""Stateful metrics of the tasks: the only part of them that knows TorchMetrics and process groups."""
# mypy: implicit-reexport

from . import duplicates
from .embedding_quality import EmbeddingQuality
from .evaluator_metric import LvisMAP, VocMAP, YoloMAP
from .open_set import ReIDOpenSet
from .pair_verification import PAIR_METRICS, PairVerification
