"""Protocols, the one call, and its results."""

from reid_torchmetrics.functional.retrieval.evaluation.bootstrap import Interval, bootstrap_interval
from reid_torchmetrics.functional.retrieval.evaluation.breakdown import Breakdown, mean_by
from reid_torchmetrics.functional.retrieval.evaluation.camera_pairs import CameraPairs
from reid_torchmetrics.functional.retrieval.evaluation.comparison import Comparison, Difference, compare
from reid_torchmetrics.functional.retrieval.evaluation.evaluate import evaluate, evaluate_scores
from reid_torchmetrics.functional.retrieval.evaluation.pooling import PooledQueries, pool_queries
from reid_torchmetrics.functional.retrieval.evaluation.protocol import PROTOCOL_FIELDS, Protocol
from reid_torchmetrics.functional.retrieval.evaluation.protocols import PROTOCOLS, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation.rank_lists import RankLists
from reid_torchmetrics.functional.retrieval.evaluation.ranking import Ranking
from reid_torchmetrics.functional.retrieval.evaluation.ranking_options import RankingOptions
from reid_torchmetrics.functional.retrieval.evaluation.results import RetrievalResults
from reid_torchmetrics.functional.retrieval.evaluation.sample_ranking import (
    NO_SAMPLE,
    find_camera_pairs,
    list_samples,
    rank_samples,
)
from reid_torchmetrics.functional.retrieval.evaluation.summary import summarize
