"""Measures: from ranks to one value per query, and to means over queries."""
# mypy: implicit-reexport

from .average_precision import (
    AP_NORMALIZERS,
    AP_RULES,
    average_precision,
    average_precision_at_r,
    check_area,
    mean_precision_recall_curve,
    precision_recall_curve,
)
from .cutoffs import (
    CMC_MODES,
    GAINS,
    PRECISION_DIVISORS,
    binary_preference,
    cmc_at,
    cmc_curve,
    cumulative_gain_at,
    first_rank,
    hit_rate_at,
    inverse_negative_penalty,
    normalized_dcg,
    precision_at,
    r_precision,
    recall_at,
    reciprocal_rank,
    retrieval_rank,
)
from .means import EMPTY_TARGET_ACTIONS, mean_over_identities, mean_over_queries, median_over_queries
from .registry import (
    MEASURES,
    DrawnResults,
    Measure,
    OwnName,
    all_patterns,
    free_name,
    in_format,
    is_known,
    likely_name,
    means_among,
    measure,
    measure_drawn,
    name_of,
    parse_report,
    title_of,
    with_expectation,
)
