"""Protocols, the one call, and its results."""
# mypy: implicit-reexport

from .evaluate import evaluate, evaluate_scores
from .evaluated import EvaluatedProblem
from .ground_truth import LIST_READERS, ListedItems, read_numbers
from .groups import GROUPED_GALLERIES, Grouping
from .opened_files import Files, are_files
from .problem import Embeddings, Labels, Matrix, RetrievalProblem
from .protocol import PROTOCOL_FIELDS, GalleryDraw, Protocol, ProtocolOptions, RelevanceOptions
from .protocols import DEFAULT_PROTOCOL, PROTOCOLS, camera_rules_of, find_protocol, take_protocol
from .queries import PooledQueries, check_own_places, pool_queries
from .query_statistics import Breakdown, LeftOutQueries, mean_by, sums_of_groups
from .rank_lists import LIST_METHODS, RankLists
from .ranked import NO_RANKING, CameraPairs, Ranking
from .ranked_samples import ListCounts, RankedSamples, Updates
from .ranking import EXPECTATIONS
from .ranking_options import RankingOptions, Setup, describe, names_of_labels
from .result_checks import find_lacking
from .results import RETRIEVAL_METHODS, RetrievalResults, summarize
from .sample_rankings import find_camera_pairs, list_samples, problem_of_process, rank_samples, share_defined
