"""Bad input: the error names the argument, the rule and what came."""

import inspect
import json
import pickle
import re

import numpy as np
import pytest
import torch

from reid_torchmetrics import (
    DetectionMAP,
    DetectionMetrics,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
)
from reid_torchmetrics.functional.retrieval import (
    PROTOCOLS,
    PositiveRanks,
    Protocol,
    average_precision,
    cmc_at,
    cmc_curve,
    evaluate,
    evaluate_scores,
    find_relevance,
    mean_over_queries,
    rank_positives,
    rank_positives_from_scores,
    score_embeddings,
    scores_from_matrix,
)
from reid_torchmetrics.functional.retrieval.measures import all_patterns
from reid_torchmetrics.functional.retrieval.ranking import TiedGroups

pytestmark = pytest.mark.usefixtures("unannotated")

X, ID, CAM = torch.eye(3), torch.tensor([1, 2, 1]), torch.tensor([0, 0, 1])
LABELED = find_relevance(ID, ID)
LISTED_MEASURES = ", ".join(map(repr, all_patterns()[:10])) + f" and {len(all_patterns()) - 10} more"
RANKS = PositiveRanks(torch.tensor([1]), torch.tensor([1]), torch.tensor([3]))
ZERO, ONE, HITS = torch.tensor([0]), torch.tensor([1]), [1, 0, 1, 0, 0, 1]
NAN, INF = float("nan"), float("inf")


class WorstRank(ReIDMeanAP):
    """A class of a user's own."""


def fed(metric):
    """The metric with three queries and three gallery items."""
    for is_query in (True, False):
        metric.update(X, ID, is_query=is_query)
    return metric


FUNCTIONAL = [
    (lambda: rank_positives([[1.0], []], X, ID, ID), TypeError, "`query` must be a tensor, an array or a list of numbers; got list."),
    (lambda: rank_positives(np.array([[1.0]], dtype=object), X, ID, ID), TypeError, "`query` must be a tensor, an array or a list of numbers; got an array of object."),
    (lambda: rank_positives(X.long(), X, ID, ID), TypeError, "`query` must have a floating point dtype of 16 to 64 bits; got torch.int64."),
    (lambda: rank_positives(X[0], X, ID, ID), ValueError, "`query` must have shape [N, D]; got [3]."),
    (lambda: rank_positives(X, X[:, :0], ID, ID), ValueError, "`gallery` must have at least one dimension per sample; got [3, 0]."),
    (lambda: rank_positives(X, X[:, :2], ID, ID), ValueError, "`query` and `gallery` must have the same embedding dimension; got 3 and 2."),
    (lambda: rank_positives(X, X.to("meta"), ID, ID), ValueError, "`query` and `gallery` must be on the same device; got cpu and meta."),
    (lambda: score_embeddings(X, X, LABELED.to("meta")), ValueError, "`gallery` and `relevance` must be on the same device; got cpu and meta."),
    (lambda: scores_from_matrix(X, LABELED.to("meta")), ValueError, "`scores` and `relevance` must be on the same device; got cpu and meta."),
    (lambda: rank_positives(X * NAN, X, ID, ID), ValueError, "`query` must be finite; got 3 rows with NaN or infinity, first [0, 1, 2]."),
    (lambda: rank_positives(X, X + torch.tensor([[0], [INF], [0]]), ID, ID), ValueError, "`gallery` must be finite; got 1 rows with NaN or infinity, first [1]."),
    (lambda: rank_positives(X, X, ID[:2], ID), ValueError, "`query_identities` must have shape [3]; got [2]."),
    (lambda: rank_positives(X, X, ID, ID[:, None]), ValueError, "`gallery_identities` must have shape [3] for one identity of each sample, or bools for a single label; got torch.int64 of shape [3, 1], so write `[:, 0]` or `== 1` behind it."),
    (lambda: rank_positives(X, X, ID / 2, ID), ValueError, "`query_identities` must hold integers, or whole numbers below 2**24 in torch.float32; got 0.5."),
    (lambda: rank_positives(X, X, ID == 1, ID), TypeError, "`query_identities` must have an integer dtype; got torch.bool."),
    (lambda: rank_positives(X, X, None, ID), TypeError, "`query_identities` must be a tensor, an array or a list of numbers; got NoneType."),
    (lambda: rank_positives(X, X, ID, ID, CAM), ValueError, "`query_cameras` and `gallery_cameras` must be given together; got `query_cameras` without `gallery_cameras`."),
    (lambda: rank_positives(X, X, ID, ID, CAM, CAM[:2]), ValueError, "`gallery_cameras` must have shape [3]; got [2]."),
    (lambda: rank_positives(X, X, ID, ID, similarity="l2"), ValueError, "`similarity` must be one of 'cosine', 'euclidean', 'dot', 'hamming'; got 'l2'."),
    (lambda: rank_positives(X, X[:2], ID, ID[:2], similarity=lambda q, g: q), ValueError, "`similarity` must return scores of shape [3, 2]; got [3, 3]."),
    (lambda: rank_positives(X, X, ID, ID, similarity=lambda q, g: (q @ g.T).long()), TypeError, "`similarity` must return a floating point tensor; got torch.int64."),
    (lambda: rank_positives(X, X[:2], ID, ID[:2], similarity=torch.nn.functional.cosine_similarity), RuntimeError, "`similarity` must return scores of shape [3, 2] for queries [3, 3] and gallery items [2, 3]; got RuntimeError: The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0"),
    (lambda: rank_positives(X, X, ID, ID, similarity=torch.nn.functional.cosine_similarity), ValueError, "`similarity` must return scores of shape [3, 3]; got [3]."),
    (lambda: rank_positives(X, X, ID, ID, similarity=lambda q, g: q @ g.T * NAN), ValueError, "`similarity` must give scores that can be ordered; got NaN."),
    (lambda: rank_positives(X, X, ID, ID, same_camera="drop"), ValueError, "`same_camera` must be one of 'same_identity', 'all', 'only', 'keep'; got 'drop'."),
    (lambda: rank_positives(X, X, ID, ID, ties="random"), ValueError, "`ties` must be one of 'pessimistic', 'optimistic', 'stable', 'grouped', 'expected'; got 'random'."),
    (lambda: rank_positives(X, X, ID, ID, junk_identities=-1), TypeError, "`junk_identities` must be a collection of ints or names; got int."),
    (lambda: rank_positives(X, X, ID, ID, junk_identities=iter([-1])), TypeError, "`junk_identities` must be a collection of ints or names; got list_iterator."),
    (lambda: rank_positives(X, X, ID, ID, junk_identities={2**63}), ValueError, "`junk_identities` must hold ints that fit int64; got 9223372036854775808."),
    (lambda: rank_positives(X.to(torch.float8_e4m3fn), X, ID, ID), TypeError, "`query` must have a floating point dtype of 16 to 64 bits; got torch.float8_e4m3fn."),
    (lambda: rank_positives(X, X.to_sparse(), ID, ID), TypeError, "`gallery` must be a dense tensor; got torch.sparse_coo."),
    (lambda: rank_positives(X, X, ID, ID, junk_identities=(0.5,)), TypeError, "`junk_identities` must hold ints or names only; got 0.5."),
    (lambda: rank_positives(X, X, ID, ID, max_bytes=0), ValueError, "`max_bytes` must be at least 1; got 0."),
    (lambda: rank_positives(X, X, ID, ID, max_bytes=1e9), TypeError, "`max_bytes` must be an int; got float."),
    (lambda: rank_positives(X, X, ID, ID, self_index=torch.tensor([0, 1, 3])), ValueError, "`self_index` must lie in [-1, 3); got values from 0 to 3."),
    (lambda: rank_positives(X, X, ID, ID, self_index=torch.tensor([1, 1, 2])), ValueError, "`self_index` must point at gallery items with the labels of the query; got item 1 for query 0, of another identity."),
    (lambda: rank_positives(X, X, ID, ID, CAM, CAM, self_index=torch.tensor([2, 1, 2])), ValueError, "`self_index` must point at gallery items with the labels of the query; got item 2 for query 0, of another camera."),
    (lambda: rank_positives_from_scores(X * NAN, ID, ID), ValueError, "`scores` must give scores that can be ordered; got NaN."),
    (lambda: rank_positives_from_scores(X * NAN, ID, ID, ties="stable"), ValueError, "`scores` must give scores that can be ordered; got NaN."),
    (lambda: rank_positives_from_scores(X, ID, ID[:2]), ValueError, "`gallery_identities` must have shape [3]; got [2]."),
    (lambda: rank_positives_from_scores(X[0], ID, ID), ValueError, "`scores` must have shape [N, G]; got [3]."),
    (lambda: PositiveRanks(torch.tensor([1, 2]), torch.tensor([1]), torch.tensor([3])), ValueError, "`rank` must have shape [1]; got [2]."),
    (lambda: average_precision(RANKS, rule="rect"), ValueError, "`rule` must be one of 'rectangle', 'trapezoid', 'interpolated_11', 'interpolated_101'; got 'rect'."),
    (lambda: cmc_at(RANKS, 0), ValueError, "`k` must be at least 1; got 0."),
    (lambda: cmc_curve(RANKS, 2.0), TypeError, "`max_rank` must be an int; got float."),
    (lambda: mean_over_queries(X[0].double(), empty_target_action="zero"), ValueError, "`empty_target_action` must be one of 'skip', 'neg', 'pos', 'error'; got 'zero'."),
]  # fmt: skip

RANKED = [
    (lambda: PositiveRanks(torch.tensor([3, 1]), torch.tensor([2]), torch.tensor([5])), ValueError, "`rank` must ascend within a query, each rank once; got 3, 1 for query 0."),
    (lambda: PositiveRanks(torch.tensor([1, 2, 2]), torch.tensor([1, 2]), torch.tensor([5, 5])), ValueError, "`rank` must ascend within a query, each rank once; got 2, 2 for query 1."),
    (lambda: PositiveRanks(torch.tensor([0, 2]), torch.tensor([2]), torch.tensor([5])), ValueError, "`rank` must count from 1; got 0 for query 0."),
    (lambda: PositiveRanks(torch.tensor([1, 6]), torch.tensor([1, 1]), torch.tensor([6, 5])), ValueError, "`rank` must be at most `num_candidates`; got 6 of 5 for query 1."),
    (lambda: PositiveRanks(torch.tensor([1, 2]), torch.tensor([2]), torch.tensor([1])), ValueError, "`num_positives` must be at most `num_candidates`; got 2 of 1 for query 0."),
    (lambda: PositiveRanks(torch.tensor([], dtype=torch.int64), torch.tensor([1, -1]), torch.tensor([3, 3])), ValueError, "`num_positives` must be at least 0; got -1 for query 1."),
    (lambda: PositiveRanks(torch.tensor([2]), torch.tensor([1]), torch.tensor([2]), TiedGroups("stable", ONE, ONE, ONE)), ValueError, "`tied` must have the policy 'grouped' or 'expected'; got 'stable'."),
    (lambda: PositiveRanks(torch.tensor([2]), torch.tensor([1]), torch.tensor([2]), TiedGroups("grouped", ID[:2], ONE, ONE)), ValueError, "`tied.num_groups` must have shape [1]; got [2]."),
    (lambda: PositiveRanks(torch.tensor([1]), torch.tensor([1]), torch.tensor([2]), TiedGroups("grouped", ONE, ONE, ONE)), ValueError, "`tied` must describe groups that hold their positives at pessimistic ranks; got another for positive 0."),
    (lambda: PositiveRanks.from_hits(HITS), TypeError, "`hits` must hold one list for each query; got int, so write [hits]."),
    (lambda: PositiveRanks.from_hits(torch.tensor(HITS)), ValueError, "`hits` must have shape [queries, candidates]; got [6]."),
    (lambda: PositiveRanks.from_hits("101"), TypeError, "`hits` must be a tensor, an array or a list of lists; got str."),
    (lambda: PositiveRanks.from_hits([[1, 3]]), ValueError, "`hits[0]` must hold hits, True or 1, and misses, False or 0; got 1 to 3."),
    (lambda: PositiveRanks.from_hits(torch.rand(1, 3)), TypeError, "`hits` must hold bools, or the integers 0 and 1; got torch.float32."),
    (lambda: PositiveRanks.from_hits([HITS], num_positives=[2]), ValueError, "`num_positives` must count the hits, too; got 2 for query 0, which has 3 hits."),
    (lambda: PositiveRanks.from_hits([HITS], num_positives=[3, 3]), ValueError, "`num_positives` must have shape [1]; got [2]."),
    (lambda: PositiveRanks.from_hits([HITS], num_positives=3), TypeError, "`num_positives` must be a tensor, an array or a list of numbers; got int."),
]  # fmt: skip

EVALUATED = [
    (lambda: evaluate(X, X, ID, ID, protocol="cub200"), ValueError, "`gallery` must be left out under protocol 'cub200', which searches every query among the others, so that all samples are given once, as `query`; got a gallery."),
    (lambda: evaluate_scores(X, ID, ID, protocol="cub200", self_index=3), TypeError, "`self_index` must be a tensor, an array or a list of numbers; got int."),
    (lambda: evaluate_scores(X, ID, ID, protocol="cub200"), ValueError, "`self_index` must hold every query's own place in the gallery, or `leave_one_out=False` be given, under protocol 'cub200', which searches every query among the others; got 3 queries without."),
    (lambda: evaluate(X, X, ID, ID, multi_query=1), TypeError, "`multi_query` must be True or False; got int."),
    (lambda: evaluate(X, X, ID, ID, reports="map"), TypeError, "`reports` must be a tuple or list of names; got 'map', so write ('map',)."),
    (lambda: evaluate(X, X, ID, ID, reports=5), TypeError, "`reports` must be a tuple or list of names; got int."),
    (lambda: evaluate(X, X, ID, ID, reports=("map", 5)), TypeError, "`reports` must hold names only; got 5."),
    (lambda: evaluate(X, X, ID, ID, reports=("precision_9223372036854775808",)), ValueError, "`reports` must have a k that fits int64; got 'precision_9223372036854775808'."),
    (lambda: evaluate(X, X, ground_truth=[{"ok": [1]}] * 3, positive_lists="ok"), TypeError, "`positive_lists` must be a tuple or list of names; got 'ok', so write ('ok',)."),
    (lambda: evaluate(X, X, ground_truth={"ok": [1]}), TypeError, "`ground_truth` must be a bool matrix [queries, gallery], or a sequence with a list of gallery positions, or a mapping of names to lists, for each query; got dict."),
    (lambda: evaluate(X, X, ground_truth=[{"ok": [1]}, {"ok": [1]}, 1]), TypeError, "`ground_truth[2]['ok']` must be a tensor, an array or a list; got int."),
    (lambda: evaluate(X, X, ID, ID).by_camera_pair(), ValueError, "`by_camera_pair` must come with cameras; got no `gallery_cameras`."),
    (lambda: evaluate(X, X, ["anna", "ben", "anna"], ID), TypeError, "`query_identities` and `gallery_identities` must both hold names, or both integers; got 'anna' first in `query_identities` and 1 in `gallery_identities`."),
    (lambda: evaluate(X, X, ["anna", "ben", "anna"], [[None]]), TypeError, "`query_identities` and `gallery_identities` must both hold names, or both integers; got 'anna' first in `query_identities` and None in `gallery_identities`."),
    (lambda: evaluate(X, X, ID, np.array(["anna", "ben", "anna"])), TypeError, "`gallery_identities` and `query_identities` must both hold names, or both integers; got 'anna' first in `gallery_identities` and 1 in `query_identities`."),
    (lambda: evaluate(X, X, ID, np.array(["anna", "ben", "anna"], dtype=object)), TypeError, "`gallery_identities` and `query_identities` must both hold names, or both integers; got 'anna' first in `gallery_identities` and 1 in `query_identities`."),
    (lambda: evaluate(X, X, ID, [1, None, 1]), ValueError, "`gallery_identities` must hold no missing value; got None for sample 1. Pass `missing_identities='junk'` where such samples have no identity."),
    (lambda: evaluate(X, X, ID, [1.0, 2.5, 1.0]), ValueError, "`gallery_identities` must hold integers, or whole numbers below 2**53 in torch.float64; got 2.5."),
    (lambda: evaluate(X, X, ID, ID, CAM, CAM.half() + 2**11), ValueError, "`gallery_cameras` must hold integers, or whole numbers below 2**11 in torch.float16; got 2048.0."),
    (lambda: evaluate(X, X, ["a", None, "b"], ["a", "b", "c"]), ValueError, "`query_identities` must hold no missing value; got None for sample 1. Pass `missing_identities='junk'` where such samples have no identity."),
    (lambda: evaluate(X, X, ["a", "c", "b"], ["a", 2, "c"]), TypeError, "`gallery_identities` must hold integers only, or names only; got 2 and names."),
    (lambda: evaluate(X, X, [None] * 3, [None] * 3), ValueError, "`query_identities` must hold no missing value; got None for sample 0. Pass `missing_identities='junk'` where such samples have no identity."),
    (lambda: evaluate(X, X, ID, ID, ["a", "c", ""], ["a", "b", "c"]), ValueError, "`query_cameras` must hold no missing value; got '' for sample 2."),
    (lambda: evaluate(X, X, [*"abc"], [*"abc"], junk_identities=(0, -1)), ValueError, "`junk_identities` must list names, or -1, where identities are names; got (0, -1)."),
    (lambda: rank_positives(X, X, [*"abc"], [*"abc"], junk_identities=[1]), ValueError, "`junk_identities` must list names, or -1, where identities are names; got [1]."),
    (lambda: evaluate(X, X, ID, ID, [*"abc"], [*"abc"], search_cameras=(1,)), ValueError, "`search_cameras` must list names, or -1, where cameras are names; got (1,)."),
    (lambda: evaluate(X, X, query_positions=[*"abc"], gallery_positions=[*"abc"], radius=1.0), TypeError, "`query_positions` must be a tensor, an array or a list of numbers; got list."),
    (lambda: evaluate(X, X, np.array("a", dtype=object), ID), TypeError, "`query_identities` must be a tensor, an array or a list of numbers; got an array of object."),
    (lambda: evaluate(X, X, ID, ID, [*"abc"], [*"abc"], camera_map={-1: 1}), ValueError, "`camera_map` must list names, or -1, where cameras are names; got {-1: 1}."),
]  # fmt: skip

MISTAKEN = [
    (lambda: evaluate(X, X, ID, ID, metric="l2"), "`metric`, which may be `similarity`; `evaluate` takes query, gallery, "),
    (lambda: evaluate(X, X, ID, ID, topk=5), "`topk`, which may be `k`; `evaluate` takes query, gallery, "),
    (lambda: evaluate(X, X, q_pids=ID, g_pids=ID), "`q_pids`, which may be `query_identities`; `evaluate` takes query, gallery, "),
    (lambda: evaluate_scores(X, ID, ID, tie="stable"), "`tie`, which may be `ties`; `evaluate_scores` takes scores, query_identities, "),
    (lambda: ReIDMetrics(topk=5), "`topk`, which may be `ranks`; `ReIDMetrics` takes ranks, prefix, postfix, directions, protocol, ground_truth, "),
    (lambda: ReIDMetrics(metric="cosine"), "`metric`, which may be `similarity`; `ReIDMetrics` takes ranks, prefix, postfix, directions, protocol, ground_truth, "),
]  # fmt: skip

METRICS = [
    (lambda: ReIDMeanAP(rule="rect"), ValueError, "`rule` must be one of 'rectangle', 'trapezoid', 'interpolated_11', 'interpolated_101'; got 'rect'."),
    (lambda: ReIDMeanAP(similarity="l2"), ValueError, "`similarity` must be one of 'cosine', 'euclidean', 'dot', 'hamming'; got 'l2'."),
    (lambda: ReIDMeanAP(same_camera="drop"), ValueError, "`same_camera` must be one of 'same_identity', 'all', 'only', 'keep'; got 'drop'."),
    (lambda: ReIDMeanAP(ties="random"), ValueError, "`ties` must be one of 'pessimistic', 'optimistic', 'stable', 'grouped', 'expected'; got 'random'."),
    (lambda: ReIDMeanAP(empty_target_action="zero"), ValueError, "`empty_target_action` must be one of 'skip', 'neg', 'pos', 'error'; got 'zero'."),
    (lambda: ReIDMeanAP(junk_identities="-1"), TypeError, "`junk_identities` must be a collection of ints or names; got str."),
    (lambda: ReIDMeanAP(max_bytes=-5), ValueError, "`max_bytes` must be at least 1; got -5."),
    (lambda: ReIDCMC(top_k=0), ValueError, "`top_k` must be at least 1; got 0."),
    (lambda: ReIDCMC(top_k=True), TypeError, "`top_k` must be an int; got bool."),
    (lambda: ReIDCMCCurve(max_rank=0), ValueError, "`max_rank` must be at least 1; got 0."),
    (lambda: ReIDMetrics(ranks=()), ValueError, "`ranks` must hold at least one int and none twice; got ()."),
    (lambda: ReIDMetrics(ranks=(1, 1)), ValueError, "`ranks` must hold at least one int and none twice; got (1, 1)."),
    (lambda: ReIDMetrics(ranks=5), TypeError, "`ranks` must be a tuple or list of ints; got int."),
    (lambda: ReIDMeanAP(tie="x"), ValueError, "Unexpected keyword arguments: `tie`, which may be `ties`; `ReIDMeanAP` takes rule, k, normalizer, protocol, ground_truth, similarity, packed, ties, rerank, max_bytes and 18 more."),
    (lambda: ReIDMeanAP(metric="cosine"), ValueError, "Unexpected keyword arguments: `metric`, which may be `similarity`; `ReIDMeanAP` takes rule, k, normalizer, protocol, ground_truth, similarity, packed, ties, rerank, max_bytes and 18 more."),
    (lambda: ReIDMINP(dist_metric="l2"), ValueError, "Unexpected keyword arguments: `dist_metric`, which may be `similarity`; `ReIDMINP` takes protocol, ground_truth, similarity, packed, ties, rerank, max_bytes, same_camera, camera_map, search_cameras and 15 more."),
    (lambda: ReIDCMC(rule="trapezoid"), ValueError, "Unexpected keyword arguments: `rule`, which is a field of `Protocol`; `ReIDCMC` takes top_k, mode, protocol, ground_truth, similarity, packed, ties, rerank, max_bytes, same_camera and 17 more."),
    (lambda: ReIDCMC(topk=5), ValueError, "Unexpected keyword arguments: `topk`, which may be `top_k`; `ReIDCMC` takes top_k, mode, protocol, ground_truth, similarity, packed, ties, rerank, max_bytes, same_camera and 17 more."),
    (lambda: ReIDCMC(k=5), ValueError, "Unexpected keyword arguments: `k`, which may be `top_k`; `ReIDCMC` takes top_k, mode, protocol, ground_truth, similarity, packed, ties, rerank, max_bytes, same_camera and 17 more."),
    (lambda: ReIDCMCCurve(topk=5), ValueError, "Unexpected keyword arguments: `topk`, which may be `max_rank`; `ReIDCMCCurve` takes max_rank, mode, protocol, ground_truth, similarity, packed, ties, rerank, max_bytes, same_camera and 17 more."),
    (lambda: ReIDMeasure("mrr", color=5), ValueError, "Unexpected keyword arguments: `color`; `ReIDMeasure` takes metric, protocol, ground_truth, similarity, packed, ties, rerank, max_bytes, same_camera, camera_map and 16 more."),
    (lambda: ReIDMeanAP(compute_on_cpu=1), ValueError, "Expected keyword argument `compute_on_cpu` to be an `bool` but got 1"),
    (lambda: ReIDCMC(top_k=2**63), ValueError, "`top_k` must fit int64; got 9223372036854775808."),
    (lambda: ReIDMeanAP(k=2**63), ValueError, "`k` must fit int64; got 9223372036854775808."),
    (lambda: ReIDMeasure("precision"), ValueError, "`metric` must be of a measure of `MEASURES`; got 'precision', which needs its k, as in 'precision_10'."),
    (lambda: ReIDMeasure("rank1"), ValueError, "`metric` must be of a measure of `MEASURES`; got 'rank1', which may be 'rank_1'."),
    (lambda: ReIDMeasure("mAP"), ValueError, "`metric` must be of a measure of `MEASURES`; got 'mAP', which may be 'map'."),
    (lambda: ReIDMeasure("precision@5"), ValueError, "`metric` must be of a measure of `MEASURES`; got 'precision@5', which may be 'precision_5'."),
    (lambda: ReIDMeasure("accuracy"), ValueError, "`metric` must be of a measure of `MEASURES`; got 'accuracy', which may be 'rank_<k>'."),
    (lambda: ReIDMeasure(5), ValueError, f"`metric` must be of {LISTED_MEASURES}; got 5."),
    (lambda: ReIDMeasure("precision_9223372036854775808"), ValueError, "`metric` must have a k that fits int64; got 'precision_9223372036854775808'."),
    (lambda: ReIDMetrics(reports="map"), TypeError, "`reports` must be a tuple or list of names; got 'map', so write ('map',)."),
    (lambda: fed(ReIDMeanAP()).results().nearest(2), ValueError, "`nearest` must come from results that hold it; got results of a metric or of a file, which hold no embeddings: write `metric.nearest(2)` or `metric.results(nearest=2)`."),
    (lambda: fed(ReIDMeanAP()).results().by_camera_pair(), ValueError, "`by_camera_pair` must come from results that hold it; got results of a metric or of a file, which hold no embeddings: write `metric.results(camera_pairs=True)`."),
    (lambda: fed(ReIDMetrics(protocol="vehicleid")).compute(), ValueError, "`is_query` must be left out under a leave-one-out protocol, as every sample is a query and, for all others, a gallery item; got 3 samples that are queries only."),
]  # fmt: skip

UPDATES = [
    ({"embeddings": "vectors"}, TypeError, "`embeddings` must be a tensor, an array or a list of numbers; got str."),
    ({"embeddings": [1.0]}, ValueError, "`embeddings` must have shape [N, D]; got [1]."),
    ({"embeddings": X.long()}, TypeError, "`embeddings` must have a floating point dtype of 16 to 64 bits; got torch.int64."),
    ({"embeddings": X[0]}, ValueError, "`embeddings` must have shape [N, D]; got [3]."),
    ({"embeddings": torch.ones(3, 5)}, ValueError, "`embeddings` and `embeddings of earlier batches` must have the same embedding dimension; got 5 and 3."),
    ({"identities": ID[:2]}, ValueError, "`identities` must have shape [3]; got [2]."),
    ({"identities": ID.cfloat()}, TypeError, "`identities` must have an integer dtype; got torch.complex64."),
    ({"identities": ID + 0.5}, ValueError, "`identities` must hold integers, or whole numbers below 2**24 in torch.float32; got 1.5."),
    ({"cameras": CAM * NAN}, ValueError, "`cameras` must hold integers, or whole numbers below 2**24 in torch.float32; got nan."),
    ({"cameras": CAM - 2.0**24}, ValueError, "`cameras` must hold integers, or whole numbers below 2**24 in torch.float32; got -16777216.0."),
    ({"cameras": CAM.double() + INF}, ValueError, "`cameras` must hold integers, or whole numbers below 2**53 in torch.float64; got inf."),
    ({"identities": ID.to("meta")}, ValueError, "`identities` must be on the device of its companions, cpu; got meta."),
    ({"cameras": CAM[:1]}, ValueError, "`cameras` must have shape [3]; got [1]."),
    ({"cameras": None}, ValueError, "`cameras` must be given in every batch or in none; got a batch without it after batches with it."),
    ({"positions": X * NAN}, ValueError, "`positions` must be finite; got 3 rows with NaN or infinity, first [0, 1, 2]."),
    ({"positions": torch.ones(3, 4)}, ValueError, "`positions` must have shape [3] or [3, 1 to 3]; got [3, 4]."),
    ({"positions": ID == 1}, TypeError, "`positions` must hold integers, or floats of 32 or 64 bits; got torch.bool."),
    ({"clothes": X[0] + 0.25}, ValueError, "`clothes` must hold integers, or whole numbers below 2**24 in torch.float32; got 1.25."),
    ({"identities": None}, ValueError, "`identities` must be given unless relevance is by `radius` or by lists; got none."),
    ({"cams": CAM}, TypeError, "update() got an unexpected keyword argument 'cams', which may be `cameras`."),
    ({"index": ID}, ValueError, "`index` must be given in every batch or in none; got a batch with it after batches without."),
    ({"is_query": ID}, TypeError, "`is_query` must be True, False, None or a bool tensor; got torch.int64."),
    ({"is_query": 1}, TypeError, "`is_query` must be True, False, None or a bool tensor; got int."),
    ({"index": ["anna", "ben", "anna"]}, TypeError, "`index` must hold integers; got strings, which `reid_torchmetrics.data.number_identities` numbers."),
    ({"is_query": [1, 0, 1]}, TypeError, "`is_query` must be True, False, None or a bool tensor; got torch.int64."),
    ({"is_query": CAM[:2] == 0}, ValueError, "`is_query` must have shape [3]; got [2]."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), FUNCTIONAL + RANKED + EVALUATED + METRICS)
def test_a_bad_argument_is_named_with_the_rule_and_what_came(call, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize(("call", "message"), MISTAKEN)
def test_an_argument_that_does_not_exist_is_named_with_the_likely_one_and_ten_that_do(call, message):
    with pytest.raises(ValueError, match=f"^Unexpected keyword arguments: {re.escape(message)}") as raised:
        call()
    listed, _, num_more = str(raised.value).rpartition(" and ")
    assert listed.partition(" takes ")[2].count(",") == 9
    assert re.fullmatch(r"\d+ more\.", num_more)


def test_every_argument_that_a_collection_names_can_be_given():
    listed = inspect.signature(ReIDMetrics).parameters
    of_torchmetrics = dict.fromkeys(
        ("compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache"), False
    )
    given = of_torchmetrics | dict.fromkeys(
        ("process_group", "dist_sync_fn", "distributed_available_fn", "rerank", "ranks", "rule", "directions")
    )
    given |= {
        "protocol": "regdb",
        "prefix": "a",
        "postfix": "b",
        "similarity": "dot",
        "ties": "stable",
        "packed": False,
        "max_bytes": 5,
    }
    given |= {
        name: getattr(PROTOCOLS["regdb"], name)
        for name in listed
        if hasattr(PROTOCOLS["regdb"], name) and name not in given
    }
    given["ground_truth"] = None
    assert sorted(given) == sorted(listed)
    assert list(ReIDMetrics(**given)) == ["amapb", "aminpb", "arank_1b", "arank_5b", "arank_10b"]


@pytest.mark.parametrize("metric", [ReIDMeanAP, ReIDMetrics, WorstRank])
def test_a_call_that_does_not_fit_is_told_what_goes_by_name(metric):
    named = "`nearest=`, `camera_pairs=`" + ", `direction=`" * (metric is ReIDMetrics)
    further = ", `sequences=`, `clothes=`, `positions=`, `labels=`, `groups=`"
    labels = "`is_query=`, `index=`" + further * (metric is ReIDMetrics)
    for call, message in (
        (lambda: metric().results(10), f"results(): too many positional arguments; {named} go by name."),
        (lambda: metric().results(k=3), f"results(): got an unexpected keyword argument 'k'; {named} go by name."),
        (lambda: metric().update(X, ID, CAM, 1), f"update(): too many positional arguments; {labels} go by name."),
    ):
        with pytest.raises(TypeError, match=f"^{metric.__name__}.{re.escape(message)}$"):
            call()


@pytest.mark.parametrize("metric", [ReIDMINP, ReIDMetrics, WorstRank, DetectionMAP, DetectionMetrics])
def test_a_call_of_update_that_does_not_fit_names_the_class_that_a_user_made(metric):
    for call in (metric().update, metric().clone().update, metric(), pickle.loads(pickle.dumps(metric())).update):
        with pytest.raises(
            TypeError,
            match=rf"^{metric.__name__}\.(update|forward)\(\): missing a required argument: '(embeddings|preds)'",
        ):
            call()


def test_a_misspelled_argument_of_a_collection_is_not_taken_for_that_of_another_metric():
    message = "ReIDMetrics.update() got an unexpected argument 'is_querry', which may be `is_query`."
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        ReIDMetrics().update(X, ID, is_querry=True)
    with pytest.raises(TypeError, match=r"^ReIDMetrics\.update\(\) got an unexpected argument 'weight'\.$"):
        ReIDMetrics().update(embeddings=X, identities=ID, weight=2)


def test_a_type_error_from_inside_of_a_method_stays_as_it_is():
    with (
        pytest.raises(TypeError, match=r"^`nearest` must be an int; got str\.$"),
        pytest.warns(UserWarning, match="No"),
    ):
        ReIDMeanAP().results(nearest="10")


@pytest.mark.parametrize("method", ["update", "forward"])
@pytest.mark.parametrize(("change", "kind", "message"), UPDATES)
def test_a_bad_batch_is_refused_and_nothing_of_it_is_stored(method, change, kind, message):
    metric = ReIDMeanAP()
    batch = {"embeddings": X, "identities": ID, "cameras": CAM}
    metric.update(**batch)
    before = metric.compute()
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        getattr(metric, method)(**(batch | change))
    names = [name for name in metric._defaults if name != "_update_key"]
    assert [len(getattr(metric, name)) for name in names] == [1] * 4 + [0] * (len(names) - 4)
    metric.update(**batch)
    assert len(metric.embeddings) == 2
    metric.reset()
    metric.update(**batch)
    assert torch.equal(metric.compute(), before)


@pytest.mark.parametrize("value", [True, False])
def test_a_bool_of_numpy_is_a_bool(value):
    metric, same = ReIDMeanAP(), ReIDMeanAP()
    metric.update(X, ID, is_query=np.bool_(value))
    same.update(X, ID, is_query=value)
    assert torch.equal(metric.roles[0], same.roles[0])
    protocol = Protocol("own", "me", leave_one_out=np.bool_(value), k=np.int64(5))
    assert protocol == Protocol("own", "me", leave_one_out=value, k=5)
    assert json.loads(json.dumps(protocol.to_dict()))["leave_one_out"] is value
    pooled = evaluate(X, X, ID[:1].expand(3), ID, multi_query=np.bool_(value))
    assert len(pooled.num_positives) == (1 if value else 3)


MISSING = [
    ([], "of 0 queries against 0 gallery items, none has a positive, as no sample was given."),
    ([True], "of 3 queries against 0 gallery items, none has a positive; pass `is_query=False` for the gallery."),
    ([False], "of 0 queries against 3 gallery items, none has a positive; pass `is_query=True` for the queries."),
]


@pytest.mark.parametrize(("given", "reason"), MISSING)
def test_a_collection_that_lacks_samples_says_once_which(given, reason):
    metrics = ReIDMetrics()
    for is_query in given:
        metrics.update(X, ID, is_query=is_query)
    with pytest.warns(UserWarning) as said:  # noqa: PT030 - all of them are looked at
        values = metrics.compute()
    value = "NaN" if "of 0 queries" in reason else "NaN, or what `empty_target_action` counts"
    assert [str(one.message) for one in said] == [f"No query can be evaluated, so the result is {value}: {reason}"]
    assert list(values) == ["map", "minp", "rank_1", "rank_5", "rank_10"]
    assert all(value.isnan() for value in values.values())


def test_a_collection_without_samples_has_its_prefix_and_dtype_and_takes_samples_later():
    metrics = ReIDMetrics((1,), prefix="val/").set_dtype(torch.float64)
    with pytest.warns(UserWarning, match="no sample was given"):
        values = metrics.compute()
    assert {name: value.dtype for name, value in values.items()} == dict.fromkeys(metrics, torch.float64)
    assert list(fed(metrics).compute()) == ["val/map", "val/minp", "val/rank_1"]
    metrics.reset()
    with pytest.warns(UserWarning, match="no sample was given"):
        metrics.compute()


SHOWN = [
    (lambda: ReIDCMC(top_k=5), "ReIDCMC(top_k=5, protocol='market1501', similarity='cosine', ties='pessimistic')"),
    (lambda: ReIDCMCCurve(7, ties="stable"), "ReIDCMCCurve(max_rank=7, protocol='market1501', similarity='cosine', ties='stable')"),
    (lambda: ReIDMeasure("mrr"), "ReIDMeasure(metric='mrr', protocol='market1501', similarity='cosine', ties='pessimistic')"),
    (lambda: ReIDMeanAP(rule="trapezoid", max_bytes=9), "ReIDMeanAP(protocol=\"market1501 with rule='trapezoid'\", similarity='cosine', ties='pessimistic', max_bytes=9)"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), SHOWN)
def test_a_metric_shows_what_decides_its_value(make, text):
    assert repr(make()) == text
