"""Protocols, the one call, and its results."""
# mypy: implicit-reexport

from .conventions import describe
from .evaluate import POOLED_QUERIES, EvaluatedProblem, Files, are_files, check_own_places, evaluate, evaluate_scores
from .problem import (
    GROUPED_GALLERIES,
    LIST_READERS,
    Embeddings,
    Labels,
    ListedItems,
    Matrix,
    RetrievalProblem,
    read_numbers,
)
from .protocol import PROTOCOL_FIELDS, GalleryDraw, Protocol, ProtocolOptions, RankingOptions, RelevanceOptions, Setup
from .protocols import DEFAULT_PROTOCOL, PROTOCOLS, find_protocol, take_protocol
from .query_statistics import Breakdown, LeftOutQueries, mean_by, sums_of_groups
from .rank_lists import LIST_METHODS, RankLists
from .ranked import NO_RANKING, CameraPairs, ListCounts, RankedSamples, Ranking, Updates
from .ranking import (
    EXPECTATIONS,
    list_samples,
    problem_of_process,
    rank_problem,
    rank_samples,
    share_defined,
    summarize,
)
from .results import RETRIEVAL_METHODS, RetrievalResults, rankings_of
