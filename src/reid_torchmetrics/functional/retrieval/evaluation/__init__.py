"""Protocols, the one call, and its results."""
# mypy: implicit-reexport

from .evaluate import POOLED_QUERIES, EvaluatedProblem, Files, are_files, check_own_places, evaluate, evaluate_scores
from .ground_truth import LIST_READERS, ListedItems, read_numbers
from .groups import GROUPED_GALLERIES, Grouping
from .problem import Embeddings, Labels, Matrix, RetrievalProblem
from .protocol import PROTOCOL_FIELDS, GalleryDraw, Protocol, ProtocolOptions, RelevanceOptions
from .protocols import DEFAULT_PROTOCOL, PROTOCOLS, camera_rules_of, find_protocol, take_protocol
from .query_statistics import Breakdown, LeftOutQueries, mean_by, sums_of_groups
from .rank_lists import LIST_METHODS, RankLists
from .ranked import NO_RANKING, CameraPairs, ListCounts, RankedSamples, Ranking, Updates
from .ranking import EXPECTATIONS, list_samples, problem_of_process, rank_problem, rank_samples, share_defined
from .ranking_options import RankingOptions, Setup, describe, names_of_labels
from .results import RETRIEVAL_METHODS, RetrievalResults, rankings_of, summarize
