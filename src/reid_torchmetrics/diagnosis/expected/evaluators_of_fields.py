"""The known evaluators of places, lists, texts, hashing and other fields near re-identification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.measures import Measure, average_precision, normalized_dcg, precision_at
from reid_torchmetrics.functional.retrieval.ranking import UNRETRIEVED, PositiveRanks

from .evaluators_of_identities import ALL_RANKS, EVERYTHING, MARKET, own_measure
from .rows import KnownEvaluator

_RELATIVE_PRECISION = own_measure(
    "relative_P", "hits / min(5, positives)", lambda ranks: precision_at(ranks, 5, divisor="attainable")
)
_AT_CUTOFFS = {
    "rule": "rectangle",
    "k": None,
    "normalizer": "attainable",
    "precision_divisor": "k",
    "gain": "linear",
    "empty_target_action": "skip",
}
_REPORTS_OF_LISTS = (
    "map",
    "map_{k}",
    "mrr",
    "mrr_{k}",
    "precision_{k}",
    "recall_{k}",
    "hit_rate_{k}",
    "ndcg_{k}",
    f"ndcg_{EVERYTHING}",
    "r_precision",
)


def _of_lists(  # noqa: PLR0917 - a row
    name: str, version: str, source: str, words: str, proofs: tuple[str, ...], names: str, options: Any
) -> KnownEvaluator:
    """Return an evaluator of ranked lists with its names for `_REPORTS_OF_LISTS`, "-" where it has none."""
    pairs = zip(names.split(), _REPORTS_OF_LISTS, strict=True)
    measures: dict[str, Any] = {title: report for title, report in pairs if title != "-"}
    if name == "trec_eval":
        measures |= {"bpref": "bpref", "set_recall": f"recall_{EVERYTHING}", "relative_P_5": _RELATIVE_PRECISION}
    elif name == "ir_measures":
        measures["Bpref"] = "bpref"
    else:
        measures["recall"] = f"recall_{EVERYTHING}"
    options = {**ALL_RANKS, "precision_divisor": "k", "gain": "linear", "empty_target_action": "neg", **options}
    return KnownEvaluator(name, version, source, words, proofs, measures, options)


def _found(ranks: PositiveRanks) -> PositiveRanks:
    """Return the ranks without positives that were not retrieved."""
    is_found = ranks.rank <= UNRETRIEVED
    counts = segments.reduce(is_found.double(), "sum", ranks.num_positives).long()
    return PositiveRanks(ranks.rank[is_found], counts, ranks.num_candidates)


def _jaccard(ranks: PositiveRanks) -> Tensor:
    num_found = _found(ranks).num_positives
    return num_found / (ranks.num_positives + ranks.num_candidates - num_found)


def _of_duplicates(name: str, words: str, values: Callable[[PositiveRanks], Tensor]) -> Measure:
    """Return a measure with 1 for an empty list of a query without a positive, in the mean over all queries.

    Such a query has no value of its own: the others share the sum of these ones.
    """

    def counted(ranks: PositiveRanks) -> Tensor:
        is_due = ranks.num_positives > 0
        num_empty = (~is_due & (ranks.num_candidates == 0)).sum()
        return values(ranks).double().nan_to_num() + num_empty / is_due.sum()

    return own_measure(name, f"{words}, or 1 of an empty list of a file without duplicates", counted)


FIELD_EVALUATORS = (
    KnownEvaluator(
        "VPR benchmarks",
        "gmberton/VPR-methods-evaluation adbb6e2, deep-visual-geo-localization-benchmark e974667, gsv-cities 77ffffc",
        "main.py; test.py; utils/validation.py: get_validation_recalls",
        "recall is the share of all queries with a positive among the first k",
        ("vpr/*/vme/recalls", "vpr/*/dvg/recalls", "vpr/*/gsv/recalls"),
        {"R@{k}": "hit_rate_{k}"},
        {"empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "OpenIBL",
        "yxgeee/OpenIBL f3ef4fb",
        "ibl/evaluators.py: evaluate_all",
        "as the VPR benchmarks; with nms=True of each place its best image",
        ("vpr/*/openibl/recalls", "vpr/*/openibl_nms/recalls"),
        {"Recall@{k}": "hit_rate_{k}"},
        {"empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "MSLS",
        "mapillary/mapillary_sls b6c4e43",
        "mapillary_sls/utils/eval.py: eval",
        "recall is the hit rate, average precision at k is divided by min(k, positives); no query lacks a positive",
        ("vpr/*/msls/recall", "vpr/*/msls/map"),
        {"recall@{k}": "hit_rate_{k}", "map@{k}": "map_{k}"},
        {"rule": "rectangle", "k": None, "normalizer": "attainable", "empty_target_action": "skip"},
    ),
    _of_lists(
        "trec_eval",
        "9, pytrec_eval-terrier 0.5.11",
        "RelevanceEvaluator.evaluate",
        "queries without a list are left out",
        ("lists/*/trec_eval/map", "lists/*/trec_eval/ndcg_cut_5"),
        "map map_cut_{k} recip_rank - P_{k} recall_{k} success_{k} ndcg_cut_{k} ndcg Rprec",
        {"missing_queries": "skip"},
    ),
    _of_lists(
        "ranx",
        "0.3.21",
        "ranx.evaluate",
        "queries without a list are left out",
        ("lists/*/ranx/map", "lists/*/ranx/ndcg@5"),
        "map map@{k} mrr mrr@{k} precision@{k} recall@{k} hit_rate@{k} ndcg@{k} ndcg r-precision",
        {"missing_queries": "skip"},
    ),
    _of_lists(
        "ranx",
        "0.3.21",
        "ranx.evaluate",
        "the gain of ndcg_burges is 2^grade - 1",
        ("lists/*/ranx/ndcg_burges@5",),
        "- - - - - - - ndcg_burges@{k} ndcg_burges -",
        {"missing_queries": "skip", "gain": "exponential"},
    ),
    _of_lists(
        "ir_measures",
        "0.4.3",
        "ir_measures.iter_calc",
        "queries without a list count 0",
        ("lists/*/ir_measures/AP", "lists/*/ir_measures/nDCG@5"),
        "AP AP@{k} RR RR@{k} P@{k} R@{k} Success@{k} nDCG@{k} nDCG Rprec",
        {},
    ),
    _of_lists(
        "ir_measures",
        "0.4.3",
        "ir_measures.iter_calc",
        "the gain of nDCG(dcg='exp-log2') is 2^grade - 1",
        ("lists/*/ir_measures/nDCG(exp)@5",),
        "- - - - - - - nDCG(dcg='exp-log2')@{k} - -",
        {"gain": "exponential"},
    ),
    KnownEvaluator(
        "GUIE",
        "google-research/google-research 1d4d2f1",
        "universal_embedding_challenge/metrics.py: CalibratedPrecision",
        "precision of the first min(k, positives)",
        ("lists/*/guie/mp_5",),
        {"mP@{k}": "precision_{k}"},
        {"precision_divisor": "calibrated", "empty_target_action": "skip"},
    ),
    KnownEvaluator(
        "Kaggle's MAP@k",
        "benhamner/Metrics 9a637ae",
        "ml_metrics/average_precision.py: apk",
        "average precision at k is divided by min(k, positives), and a query without a positive counts 0",
        ("lists/*/ml_metrics/ap_5",),
        {"mapk at {k}": "map_{k}"},
        {"rule": "rectangle", "k": None, "normalizer": "attainable", "empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "Hotels-50K",
        "GWUvision/Hotels-50K 3614e4a",
        "evaluate/retrieval.py",
        "the share of queries with their hotel among the first k",
        ("lists/*/hotels/instance",),
        {"top-{k}": "hit_rate_{k}"},
        {"empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "IRRA",
        "anosorae/IRRA cfc2378",
        "utils/metrics.py: rank",
        "no cameras; rectangles",
        ("text_image/*/irra_t2i/map", "text_image/*/irra_i2t/minp"),
        {"R{k}": "rank_{k}", "mAP": "map", "mINP": "minp"},
        {**MARKET, "same_camera": "keep", "empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "BLIP and CLIP_benchmark",
        "salesforce/BLIP 056a169, LAION-AI/CLIP_benchmark 48de38c, fartashf/vsepp abe382f",
        "train_retrieval.py: itm_eval; zeroshot_retrieval.py: recall_at_k > 0; evaluation.py: i2t, t2i",
        "recall is the share of queries with a positive among the first k; medians differ by their rule",
        tuple(
            f"text_image/*/{name}"
            for name in (
                "blip/txt_r1",
                "blip_video/vid_mdR",
                "clip_benchmark/image_retrieval_recall@5",
                "clip_benchmark_recall/text_5",
                "vsepp/i2t",
            )
        ),
        {
            "R@{k}": "rank_{k}",
            "recall_at_k({k})": "recall_{k}",
            "medr": "median_rank_floor",
            "mdR": "median_rank",
            "meanr": "mean_rank",
        },
        {"mode": "first_match", "empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "CLIP4Clip",
        "ArrowLuo/CLIP4Clip 508ffa3",
        "metrics.py: compute_metrics, tensor_text_to_video_metrics",
        "with several captions the median is the lower of the two middle ranks",
        ("text_image/*/clip4clip/MedianR", "text_image/*/clip4clip_multi/MeanR"),
        {
            "R{k}": "rank_{k}",
            "MedianR": "median_rank",
            "MedianR of several captions": "median_rank_lower",
            "MeanR": "mean_rank",
        },
        {"mode": "first_match", "empty_target_action": "skip"},
    ),
    KnownEvaluator(
        "ECCV Caption",
        "naver-ai/eccv-caption b51f56c",
        "eccv_caption/_metrics.py: compute_eccv_metrics",
        "average precision of the first R items, R the number of positives",
        ("text_image/*/eccv/eccv_map_at_r",),
        {"eccv_map_at_r": "map_at_r", "eccv_rprecision": "r_precision", "R@{k}": "hit_rate_{k}"},
        {"empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "SeqNet",
        "serend1p1ty/SeqNet edec285",
        "eval_func.py: eval_search_cuhk, eval_search_prw",
        "average precision of scikit-learn times the share of images that are found; 0 if none is",
        ("person_search/*/cuhk/map", "person_search/*/prw/map", "person_search/*/prw_cross_camera/map"),
        {"mAP": "map", "top-{k}": "rank_{k}"},
        {**ALL_RANKS, "mode": "first_match", "empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "DeepHash-pytorch",
        "swuxyj/DeepHash-pytorch ab14068",
        "utils/tools.py: CalcTopMap",
        "average precision is divided by the hits among the first k",
        ("other/*/deephash/*",),
        {"mAP": "map", "mAP@{k}": "map_{k}"},
        {"rule": "rectangle", "k": None, "normalizer": "hits", "empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "sem-pcyc",
        "AnjanDutta/sem-pcyc 2e083fa",
        "src/utils.py: apsak, precak",
        "average precision of scikit-learn of the first k items, which is divided by the hits among them",
        ("other/*/sem_pcyc/ap_200", "other/*/sem_pcyc/ap_all"),
        {"ap": "map", "ap@{k}": "map_{k}", "prec@{k}": "precision_{k}", "rec@{k}": "recall_{k}"},
        {"rule": "rectangle", "k": None, "normalizer": "hits", "precision_divisor": "k", "empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "sentence-transformers",
        "6.2.0",
        "InformationRetrievalEvaluator",
        "average precision at k is divided by min(k, positives); of equal scores the smaller text of an id is first",
        ("lists/*/sentence-transformers/map@5", "lists/*/sentence-transformers/ndcg@5"),
        {
            "accuracy@{k}": "hit_rate_{k}",
            "precision@{k}": "precision_{k}",
            "recall@{k}": "recall_{k}",
            "ndcg@{k}": "ndcg_{k}",
            "mrr@{k}": "mrr_{k}",
            "map@{k}": "map_{k}",
        },
        _AT_CUTOFFS,
    ),
    KnownEvaluator(
        "PyTorch Geometric",
        "2.8.1",
        "torch_geometric.metrics",
        "average precision at k is divided by min(k, positives), and a query without a positive is left out",
        ("lists/*/torch_geometric/LinkPredMAP(5)", "lists/*/torch_geometric/LinkPredNDCG(5)"),
        {
            "LinkPredHitRatio({k})": "hit_rate_{k}",
            "LinkPredPrecision({k})": "precision_{k}",
            "LinkPredRecall({k})": "recall_{k}",
            "LinkPredNDCG({k})": "ndcg_{k}",
            "LinkPredMRR({k})": "mrr_{k}",
            "LinkPredMAP({k})": "map_{k}",
        },
        _AT_CUTOFFS,
    ),
    KnownEvaluator(
        "imagededup",
        "0.3.3.post2",
        "imagededup.evaluation.evaluate",
        "a file without duplicates counts 1 if its list is empty, else 0; the ideal list of nDCG has those found alone",
        ("duplicates/*/imagededup/map", "duplicates/*/imagededup/ndcg", "duplicates/*/imagededup/jaccard"),
        {
            "map": _of_duplicates("mAP", "average precision", average_precision),
            "ndcg": _of_duplicates("nDCG", "nDCG of the positives found", lambda ranks: normalized_dcg(_found(ranks))),
            "jaccard": _of_duplicates("Jaccard index", "positives found / union of list and positives", _jaccard),
        },
        {"empty_target_action": "neg"},
    ),
    KnownEvaluator(
        "copairs",
        "0.5.5",
        "copairs.map.average_precision",
        "a sample without a pair of positives is left out",
        ("labels/*/copairs/average_precision",),
        {"mean of average_precision": "map"},
        {**ALL_RANKS, "empty_target_action": "skip"},
    ),
    KnownEvaluator(
        "SHREC'22",
        "yifanfeng97, commit unknown",
        "anmrr_score",
        "the normalized rank looks at the first positives alone",
        ("other/*/shrec22/anmrr",),
        {"ANMRR": "anmrr_shrec22"},
        {"empty_target_action": "skip"},
    ),
)
"""the registry of these fields"""
