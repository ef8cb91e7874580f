"""Protocols, the one call, and its results."""
# mypy: implicit-reexport

from .comparison import Comparison, Difference, compare
from .evaluate import evaluate, evaluate_scores, evaluate_stream
from .ground_truth import ListedTruth
from .index_recall import IndexRecall, SearchedLists, index_recall, search_lists
from .list_forms import MISSING_QUERIES, Lists
from .list_ranks import ListedSamples
from .lists import evaluate_lists
from .person_search import person_search
from .problem import Embeddings, Matrix, RetrievalProblem
from .protocol import PROTOCOL_FIELDS, Protocol, ProtocolOptions, RelevanceOptions
from .protocols import DEFAULT_PROTOCOL, PROTOCOLS, camera_rules_of, find_protocol, protocol_of_lists, take_protocol
from .queries import PooledQueries, pool_queries
from .query_statistics import Breakdown, Interval, LeftOutQueries, bootstrap_interval, mean_by, seeded
from .rank_lists import RankLists
from .ranked_samples import RankedSamples, UpdateFacts
from .ranking import NO_RANKING, CameraPairs, Ranking
from .ranking_options import RankingOptions, Setup, describe
from .results import RETRIEVAL_METHODS, RetrievalResults, summarize
from .sample_rankings import find_camera_pairs, list_samples, problem_of_process, rank_samples, share_defined
