"""Protocols, the one call, and its results."""

from .bootstrap import Interval, bootstrap_interval
from .breakdown import Breakdown, CameraPairs, mean_by
from .comparison import Comparison, Difference, compare
from .evaluate import evaluate, evaluate_scores
from .pooling import PooledQueries, pool_queries
from .protocol import PROTOCOL_FIELDS, PROTOCOLS, Protocol, find_protocol
from .rank_lists import RankLists
from .ranking import Ranking
from .ranking_options import RankingOptions
from .results import RetrievalResults
from .sample_ranking import NO_SAMPLE, find_camera_pairs, list_samples, rank_samples
from .summary import summarize
