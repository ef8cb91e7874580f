"""The known evaluators of re-identification and metric learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from reid_torchmetrics.functional.retrieval.measures import (
    Measure,
    average_precision,
    average_precision_at_r,
    hit_rate_at,
    normalized_dcg,
    r_precision,
    recall_at,
    reciprocal_rank,
)
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks

from .rows import KnownEvaluator

ALL_RANKS = {"rule": "rectangle", "k": None, "normalizer": "positives"}
MARKET: dict[str, Any] = {
    **ALL_RANKS,
    "mode": "first_match",
    "empty_target_action": "skip",
    "same_camera": "same_identity",
    "junk_identities": (),
    "gallery_draw": None,
}
_OFFICIAL = {**MARKET, "rule": "trapezoid", "empty_target_action": "neg", "junk_identities": (-1,)}
_RANKS = {"mAP": "map", "Rank-{k}": "rank_{k}"}
_METRIC = Measure(
    "metric",
    lambda ranks, *_: (average_precision(ranks) + hit_rate_at(ranks, 1)) / 2,
    "the mean of mAP and Rank-1",
    is_cmc=True,
)
EVERYTHING = 1 << 40
"""a cutoff beyond all lists"""


def own_measure(name: str, words: str, values: Callable[[PositiveRanks], Tensor]) -> Measure:
    """Return a measure that no option gives."""
    return Measure(name, lambda ranks, *_: values(ranks), words)


_OF_WHOLE_LISTS = {
    "RetrievalPrecision": own_measure(
        "precision", "positives / candidates", lambda ranks: ranks.num_positives / ranks.num_candidates
    ),
    "RetrievalRecall": own_measure("recall", "1 if all is retrieved", lambda ranks: recall_at(ranks, EVERYTHING)),
    "RetrievalHitRate": own_measure("hit rate", "1 if all is retrieved", lambda ranks: hit_rate_at(ranks, EVERYTHING)),
    "RetrievalNormalizedDCG": own_measure(
        "nDCG", "nDCG of the whole list", lambda ranks: normalized_dcg(ranks, k=EVERYTHING)
    ),
}


def _most(ranks: PositiveRanks) -> int:
    return int(ranks.num_positives.max())


_OF_METRIC_LEARNING = {
    "mean_average_precision": average_precision,
    "mean_average_precision_at_r": average_precision_at_r,
    "mean_reciprocal_rank": reciprocal_rank,
    "r_precision": r_precision,
}


def _of_metric_learning(k: int | str) -> dict[str, Any]:
    """Return the measures of pytorch-metric-learning where it retrieves k items."""
    rows: dict[str, Any] = {}
    for name, function in _OF_METRIC_LEARNING.items():

        def values(ranks: PositiveRanks, function: Any = function) -> Tensor:
            result: Tensor = function(ranks, k=_most(ranks) if isinstance(k, str) else k)
            return result

        rows[f"{name}, k={k}"] = own_measure(name, f"of the first {k} items", values)
    return rows


_NO_JUNK = "the rule of Market-1501 with rectangles; identity -1 is a negative unless it was dropped before"

IDENTITY_EVALUATORS = (
    KnownEvaluator(
        "torchreid",
        "KaiyangZhou/deep-person-reid f8cd150",
        "torchreid/metrics/rank.py: eval_market1501",
        _NO_JUNK,
        ("retrieval/*/torchreid/mAP", "retrieval/*/torchreid_cy/mAP"),
        _RANKS,
        MARKET,
    ),
    KnownEvaluator(
        "fast-reid",
        "JDAI-CV/fast-reid c9bc3ce",
        "fastreid/evaluation/rank.py: eval_market1501",
        _NO_JUNK,
        ("retrieval/*/fastreid/AP_valid_queries", "retrieval/*/fastreid_cy/AP_valid_queries"),
        {**_RANKS, "mINP": "minp", "metric": _METRIC},
        MARKET,
    ),
    KnownEvaluator(
        "AGW",
        "mangye16/ReID-Survey 38f5912",
        "data/datasets/eval_reid.py: eval_func",
        _NO_JUNK,
        ("retrieval/*/agw/mINP",),
        {**_RANKS, "mINP": "minp"},
        MARKET,
    ),
    KnownEvaluator(
        "TransReID",
        "damo-cv/TransReID dec5504",
        "utils/metrics.py: eval_func",
        _NO_JUNK,
        ("retrieval/*/transreid/mAP",),
        _RANKS,
        MARKET,
    ),
    KnownEvaluator(
        "open-reid",
        "Cysu/open-reid 3293ca7, cluster-contrast 57b62e9",
        "evaluation_metrics/ranking.py: mean_ap",
        "average precision of scikit-learn, where equal scores are one step of the curve",
        ("ties/*/openreid/mAP", "ties/*/cc/mAP"),
        {"mAP": "map"},
        {**MARKET, "ties": "grouped"},
    ),
    KnownEvaluator(
        "open-reid",
        "Cysu/open-reid 3293ca7, cluster-contrast 57b62e9",
        "evaluation_metrics/ranking.py: cmc with first_match_break",
        "the CMC of Market-1501",
        ("retrieval/*/openreid/cmc_market1501", "retrieval/*/cc/cmc_market1501"),
        {"CMC at {k}": "rank_{k}"},
        MARKET,
    ),
    KnownEvaluator(
        "open-reid",
        "Cysu/open-reid 3293ca7",
        "evaluation_metrics/ranking.py: cmc, all flags False",
        "the CMC is the mean over all positives of a query, each without the others before it",
        ("retrieval/*/openreid/cmc_allshots",),
        {"CMC at {k}": "rank_{k}"},
        {**MARKET, "mode": "all_shots"},
    ),
    KnownEvaluator(
        "open-reid",
        "Cysu/open-reid 3293ca7",
        "evaluation_metrics/ranking.py: cmc with separate_camera_set and first_match_break",
        "all items of the query's camera are dropped",
        ("retrieval/*/openreid/cmc_separate_cams_market",),
        {"CMC at {k}": "rank_{k}"},
        {**MARKET, "same_camera": "all"},
    ),
    KnownEvaluator(
        "open-reid",
        "Cysu/open-reid 3293ca7",
        "evaluation_metrics/ranking.py: cmc with separate_camera_set",
        "all items of the query's camera are dropped, and the CMC is the mean over all positives of a query",
        ("retrieval/*/openreid/cmc_separate_cams_allshots",),
        {"CMC at {k}": "rank_{k}"},
        {**MARKET, "same_camera": "all", "mode": "all_shots"},
    ),
    KnownEvaluator(
        "layumi",
        "layumi/Person_reID_baseline_pytorch 82ff40f",
        "evaluate_gpu.py: evaluate, compute_mAP",
        "as the official script of Market-1501: trapezoids, and a query without a positive counts 0",
        ("retrieval/*/layumi/mAP",),
        {"mAP": "map", "Rank@{k}": "rank_{k}"},
        _OFFICIAL,
    ),
    KnownEvaluator(
        "revisitop",
        "filipradenovic/revisitop be39832",
        "python/evaluate.py: compute_map",
        "trapezoids; the precision is divided by min(k, rank of the last positive)",
        ("retrieval/*/revisitop/mAP", "retrieval/*/oxford_cpp/AP_per_query"),
        {"mAP": "map", "mP@{k}": "precision_{k}"},
        {
            **ALL_RANKS,
            "rule": "trapezoid",
            "empty_target_action": "skip",
            "precision_divisor": "last_positive",
        },
    ),
    *(
        KnownEvaluator(
            "torchmetrics.retrieval",
            "1.9.0",
            f"torchmetrics.retrieval with empty_target_action={action!r}",
            "RetrievalMAP(top_k=k) is divided by the hits among the first k",
            (f"cutoffs/*/torchmetrics/MAP_k5_{action}",),
            {
                "RetrievalMAP": "map",
                "RetrievalMAP(top_k={k})": "map_{k}",
                "RetrievalMRR": "mrr",
                "RetrievalMRR(top_k={k})": "mrr_{k}",
                "RetrievalPrecision(top_k={k})": "precision_{k}",
                "RetrievalRecall(top_k={k})": "recall_{k}",
                "RetrievalHitRate(top_k={k})": "hit_rate_{k}",
                "RetrievalNormalizedDCG(top_k={k})": "ndcg_{k}",
                "RetrievalRPrecision": "r_precision",
                **_OF_WHOLE_LISTS,
            },
            {
                "rule": "rectangle",
                "k": None,
                "normalizer": "hits",
                "precision_divisor": "k",
                "gain": "linear",
                "empty_target_action": action,
            },
        )
        for action in ("neg", "skip")
    ),
    KnownEvaluator(
        "open-metric-learning",
        "OML-Team/open-metric-learning 6be182e",
        "oml/functional/metrics.py: calc_retrieval_metrics",
        "map@k is divided by the hits among the first k, precision@k by min(k, positives)",
        ("embeddings/*/oml/map_at_*_per_query",),
        {"cmc@{k}": "hit_rate_{k}", "precision@{k}": "precision_{k}", "map@{k}": "map_{k}", "map": "map"},
        {
            "rule": "rectangle",
            "k": None,
            "normalizer": "hits",
            "precision_divisor": "attainable",
            "empty_target_action": "neg",
            "same_camera": "keep",
            "junk_identities": (),
        },
    ),
    *(
        KnownEvaluator(
            "pytorch-metric-learning",
            "KevinMusgrave/pytorch-metric-learning 216a792",
            f"utils/accuracy_calculator.py: get_accuracy{words}",
            "average precision is divided by all positives, also where only k items are retrieved",
            (f"embeddings/*/pml/mean_average_precision_k5{key}",),
            {
                "mean_average_precision": "map",
                "mean_average_precision_at_r": "map_at_r",
                "mean_reciprocal_rank": "mrr",
                "precision_at_1": "precision_1",
                "r_precision": "r_precision",
                "mean_average_precision, k={k}": "map_{k}",
                "mean_reciprocal_rank, k={k}": "mrr_{k}",
                **_of_metric_learning(5),
                **_of_metric_learning("max_bin_count"),
            },
            {**ALL_RANKS, "precision_divisor": "k", "empty_target_action": "skip", **options},
        )
        for words, key, options in (
            ("", "", {}),
            (" with avg_of_avgs", "_avg_of_avgs", {"average": "identities"}),
        )
    ),
    KnownEvaluator(
        "Google Landmarks",
        "tensorflow/models e4009b2",
        "google_landmarks_dataset/metrics.py: MeanAveragePrecision",
        "average precision at k is divided by min(k, positives)",
        ("embeddings/*/gld/mAP_at_100",),
        {"mAP@{k}": "map_{k}", "mean precision@{k}": "precision_{k}"},
        {
            "rule": "rectangle",
            "k": None,
            "normalizer": "attainable",
            "precision_divisor": "k",
            "empty_target_action": "skip",
        },
    ),
    KnownEvaluator(
        "Market-1501, MARS and VeRi-776",
        "zhunzhong07/person-re-ranking 278f2c7, liangzheng06/MARS-evaluation 3a91bbc, JDAI-CV/VeRidataset 09ccfce",
        "the authors' MATLAB: evaluation.m, evaluation_mars.m, baseline_evaluation_FACT_776.m",
        "trapezoids, and a query without a positive counts 0; for MARS and VeRi-776 the mAP is NaN then",
        ("tracks/*/market_official/map", "tracks/*/mars_official/map", "tracks/*/veri_official/map"),
        {"mAP": "map", "CMC at {k}": "rank_{k}"},
        _OFFICIAL,
    ),
    KnownEvaluator(
        "AI City Challenge",
        "Xiangyu-CAS/AICity2020-VOC-ReID 7c2bf04",
        "tools/aicity20/eval_by_distmat.py",
        "average precision of the first 100 items, divided by all positives, without cameras",
        ("tracks/*/aicity_map100/map",),
        {"mAP@{k}": "map_{k}", "Rank-{k}": "rank_{k}"},
        {**MARKET, "same_camera": "keep"},
    ),
    KnownEvaluator(
        "Simple-CCReID",
        "guxinqian/Simple-CCReID f773d01, QizaoWang/FIRe-CCReID 00ffdec",
        "tools/eval_metrics.py: evaluate; metrics_for_cc.py: evaluate_ltcc",
        "the rule of Market-1501 with rectangles",
        ("clothes/*/simple_ccreid/map", "clothes/*/fire_ltcc/map"),
        _RANKS,
        MARKET,
    ),
    *(
        KnownEvaluator(
            "Simple-CCReID",
            "guxinqian/Simple-CCReID f773d01, QizaoWang/FIRe-CCReID 00ffdec",
            f"tools/eval_metrics.py: evaluate_with_clothes(mode={mode!r})",
            f"items of the query's identity in {words} clothes are dropped as well",
            proofs,
            _RANKS,
            {**MARKET, "clothes": clothes},
        )
        for mode, words, clothes, proofs in (
            ("CC", "the same", "drop_same", ("clothes/*/simple_ccreid_cc/map", "clothes/*/fire_ltcc_cc/map")),
            ("SC", "other", "drop_other", ("clothes/*/simple_ccreid_sc/map",)),
        )
    ),
    KnownEvaluator(
        "SYSU-MM01, RegDB and LLCM",
        "ZYK100/LLCM 886e27c, wuancong/SYSU-MM01 0499112",
        "AGW/eval_metrics.py: eval_sysu, eval_regdb, eval_llcm; get_cmc_multi_cam.m",
        "the camera rule is the data set's; the CMC of SYSU-MM01 and LLCM counts identities",
        (
            "infrared/*/eval_llcm/map",
            "infrared/*/eval_sysu/cmc",
            "infrared/*/eval_regdb/map",
            "infrared/*/sysu_official/map",
        ),
        {**_RANKS, "mINP": "minp"},
        {**ALL_RANKS, "mode": "first_match", "empty_target_action": "skip"},
    ),
)
"""the registry"""
