"""From ranks to one value per query, and to means."""

from reid_torchmetrics.functional.retrieval.measures.average_precision import (
    AP_NORMALIZERS,
    AP_RULES,
    average_precision,
    average_precision_at_r,
)
from reid_torchmetrics.functional.retrieval.measures.cmc import CMC_MODES, cmc_at, cmc_curve
from reid_torchmetrics.functional.retrieval.measures.cutoffs import (
    PRECISION_DIVISORS,
    hit_rate_at,
    normalized_dcg,
    precision_at,
    r_precision,
    recall_at,
    reciprocal_rank,
)
from reid_torchmetrics.functional.retrieval.measures.first_and_last import first_rank, inverse_negative_penalty
from reid_torchmetrics.functional.retrieval.measures.means import (
    EMPTY_TARGET_ACTIONS,
    mean_over_identities,
    mean_over_queries,
    median_over_queries,
)
from reid_torchmetrics.functional.retrieval.measures.precision_recall import (
    mean_precision_recall_curve,
    precision_recall_curve,
)
from reid_torchmetrics.functional.retrieval.measures.registry import (
    MEASURES,
    DrawnValues,
    Measure,
    MeasureOptions,
    measure,
    measure_drawn,
    parse_report,
)
