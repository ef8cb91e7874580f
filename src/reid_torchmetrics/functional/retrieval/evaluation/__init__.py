"""Protocols, the one call, and its results."""

from reid_torchmetrics.functional.retrieval.evaluation.bootstrap import Interval, bootstrap_interval
from reid_torchmetrics.functional.retrieval.evaluation.breakdown import Breakdown, mean_by
from reid_torchmetrics.functional.retrieval.evaluation.camera_pairs import CameraPairs
from reid_torchmetrics.functional.retrieval.evaluation.evaluate import evaluate, evaluate_scores
from reid_torchmetrics.functional.retrieval.evaluation.pooling import PooledQueries, pool_queries
from reid_torchmetrics.functional.retrieval.evaluation.problem import similarity_name
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.protocols import PROTOCOLS, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation.results import RetrievalResults
from reid_torchmetrics.functional.retrieval.evaluation.setup import Setup
from reid_torchmetrics.functional.retrieval.evaluation.summary import Ranked, summarize

__all__ = [
    "PROTOCOLS",
    "Breakdown",
    "CameraPairs",
    "Interval",
    "PooledQueries",
    "Protocol",
    "Ranked",
    "RetrievalResults",
    "Setup",
    "bootstrap_interval",
    "evaluate",
    "evaluate_scores",
    "find_protocol",
    "mean_by",
    "pool_queries",
    "similarity_name",
    "summarize",
]
