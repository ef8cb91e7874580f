"""Stateful metrics of the tasks: the only part of them that knows TorchMetrics and process groups."""
# mypy: implicit-reexport

from reid_torchmetrics.metrics.reid import METRIC_METHODS
from reid_torchmetrics.tasks.camera_pairs import find_camera_pairs

from . import duplicates
from .embedding_quality import EmbeddingQuality
from .evaluator_metric import LvisMAP, VocMAP, YoloMAP
from .open_set import ReIDOpenSet
from .pair_verification import PAIR_METRICS, PairVerification

METRIC_METHODS["camera_pairs"] = find_camera_pairs
