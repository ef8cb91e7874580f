"""Bad input: the error names the argument, the rule and what came."""

import re

import pytest
import torch

from reid_torchmetrics import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import (
    PositiveRanks,
    TiedGroups,
    average_precision,
    cmc_at,
    cmc_curve,
    mean_over_queries,
    rank_positives,
    rank_positives_from_scores,
)

pytestmark = pytest.mark.usefixtures("unannotated")

X, ID, CAM = torch.eye(3), torch.tensor([1, 2, 1]), torch.tensor([0, 0, 1])
RANKS = PositiveRanks(torch.tensor([1]), torch.tensor([1]), torch.tensor([3]))
ZERO, ONE, HITS = torch.tensor([0]), torch.tensor([1]), [1, 0, 1, 0, 0, 1]
NAN, INF = float("nan"), float("inf")

FUNCTIONAL = [
    (lambda: rank_positives([1.0], X, ID, ID), TypeError, "`query` must be a tensor; got list."),
    (lambda: rank_positives(X.long(), X, ID, ID), TypeError, "`query` must have a floating point dtype of 16 to 64 bits; got torch.int64."),
    (lambda: rank_positives(X[0], X, ID, ID), ValueError, "`query` must have shape [N, D]; got [3]."),
    (lambda: rank_positives(X, X[:, :0], ID, ID), ValueError, "`gallery` must have at least one dimension per sample; got [3, 0]."),
    (lambda: rank_positives(X, X[:, :2], ID, ID), ValueError, "`query` and `gallery` must have the same embedding dimension; got 3 and 2."),
    (lambda: rank_positives(X, X.to("meta"), ID, ID), ValueError, "`query` and `gallery` must be on the same device; got cpu and meta."),
    (lambda: rank_positives(X * NAN, X, ID, ID), ValueError, "`query` must be finite; got 3 rows with NaN or infinity, first [0, 1, 2]."),
    (lambda: rank_positives(X, X + torch.tensor([[0], [INF], [0]]), ID, ID), ValueError, "`gallery` must be finite; got 1 rows with NaN or infinity, first [1]."),
    (lambda: rank_positives(X, X, ID[:2], ID), ValueError, "`query_identities` must have shape [3]; got [2]."),
    (lambda: rank_positives(X, X, ID, ID[:, None]), ValueError, "`gallery_identities` must have shape [3]; got [3, 1]."),
    (lambda: rank_positives(X, X, ID.float(), ID), TypeError, "`query_identities` must have an integer dtype; got torch.float32."),
    (lambda: rank_positives(X, X, None, ID), TypeError, "`query_identities` must be a tensor; got NoneType."),
    (lambda: rank_positives(X, X, ID, ID, CAM), ValueError, "`query_cameras` and `gallery_cameras` must be given together; got `query_cameras` without `gallery_cameras`."),
    (lambda: rank_positives(X, X, ID, ID, CAM, CAM[:2]), ValueError, "`gallery_cameras` must have shape [3]; got [2]."),
    (lambda: rank_positives(X, X, ID, ID, similarity="l2"), ValueError, "`similarity` must be one of 'cosine', 'euclidean', 'dot'; got 'l2'."),
    (lambda: rank_positives(X, X[:2], ID, ID[:2], similarity=lambda q, g: q), ValueError, "`similarity` must return scores of shape [3, 2]; got [3, 3]."),
    (lambda: rank_positives(X, X, ID, ID, similarity=lambda q, g: (q @ g.T).long()), TypeError, "`similarity` must return a floating point tensor; got torch.int64."),
    (lambda: rank_positives(X, X, ID, ID, similarity=lambda q, g: q @ g.T * NAN), ValueError, "`similarity` must give scores that can be ordered; got NaN."),
    (lambda: rank_positives(X, X, ID, ID, same_camera="drop"), ValueError, "`same_camera` must be one of 'same_identity', 'all', 'keep'; got 'drop'."),
    (lambda: rank_positives(X, X, ID, ID, ties="random"), ValueError, "`ties` must be one of 'pessimistic', 'optimistic', 'stable', 'grouped', 'expected'; got 'random'."),
    (lambda: rank_positives(X, X, ID, ID, junk_identities=-1), TypeError, "`junk_identities` must be a collection of ints; got int."),
    (lambda: rank_positives(X, X, ID, ID, junk_identities=iter([-1])), TypeError, "`junk_identities` must be a collection of ints; got list_iterator."),
    (lambda: rank_positives(X, X, ID, ID, junk_identities={2**63}), ValueError, "`junk_identities` must hold ints that fit int64; got 9223372036854775808."),
    (lambda: rank_positives(X.to(torch.float8_e4m3fn), X, ID, ID), TypeError, "`query` must have a floating point dtype of 16 to 64 bits; got torch.float8_e4m3fn."),
    (lambda: rank_positives(X, X.to_sparse(), ID, ID), TypeError, "`gallery` must be a dense tensor; got torch.sparse_coo."),
    (lambda: rank_positives(X, X, ID, ID, junk_identities=(0.5,)), TypeError, "`junk_identities` must hold ints only; got 0.5."),
    (lambda: rank_positives(X, X, ID, ID, max_bytes=0), ValueError, "`max_bytes` must be at least 1; got 0."),
    (lambda: rank_positives(X, X, ID, ID, max_bytes=1e9), TypeError, "`max_bytes` must be an int; got float."),
    (lambda: rank_positives(X, X, ID, ID, self_index=torch.tensor([0, 1, 3])), ValueError, "`self_index` must lie in [-1, 3); got values from 0 to 3."),
    (lambda: rank_positives(X, X, ID, ID, self_index=torch.tensor([1, 1, 2])), ValueError, "`self_index` must point at gallery items with the query's identity and camera; got one that differs."),
    (lambda: rank_positives(X, X, ID, ID, CAM, CAM, self_index=torch.tensor([2, 1, 2])), ValueError, "`self_index` must point at gallery items with the query's identity and camera; got one that differs."),
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
    (lambda: PositiveRanks(torch.tensor([2]), torch.tensor([1]), torch.tensor([2]), TiedGroups("stable", ZERO, ONE, ONE)), ValueError, "`tied` must have the policy 'grouped' or 'expected'; got 'stable'."),
    (lambda: PositiveRanks(torch.tensor([2]), torch.tensor([1]), torch.tensor([2]), TiedGroups("grouped", ID[:2], ONE, ONE)), ValueError, "`tied` must have one group for each of 1 positives; got [2, 1, 1]."),
    (lambda: PositiveRanks(torch.tensor([1]), torch.tensor([1]), torch.tensor([2]), TiedGroups("grouped", ZERO, ONE, ONE)), ValueError, "`tied` must describe groups that hold their positives at pessimistic ranks; got another for positive 0."),
    (lambda: PositiveRanks.from_hits(HITS), TypeError, "`hits` must hold one list for each query; got int, so write [hits]."),
    (lambda: PositiveRanks.from_hits(torch.tensor(HITS)), ValueError, "`hits` must have shape [queries, candidates]; got [6]."),
    (lambda: PositiveRanks.from_hits("101"), TypeError, "`hits` must be a tensor, an array or a list of lists; got str."),
    (lambda: PositiveRanks.from_hits([[1, 3]]), ValueError, "`hits[0]` must hold hits, True or 1, and misses, False or 0; got 1 to 3."),
    (lambda: PositiveRanks.from_hits(torch.rand(1, 3)), TypeError, "`hits[0]` must hold bools, or the integers 0 and 1; got torch.float32."),
    (lambda: PositiveRanks.from_hits([HITS], num_positives=[2]), ValueError, "`num_positives` must count the hits, too; got 2 for query 0, which has 3 hits."),
    (lambda: PositiveRanks.from_hits([HITS], num_positives=[3, 3]), ValueError, "`num_positives` must have shape [1]; got [2]."),
    (lambda: PositiveRanks.from_hits([HITS], num_positives=3), TypeError, "`num_positives` must be a tensor, an array or a list; got int."),
]  # fmt: skip

METRICS = [
    (lambda: ReIDMeanAP(rule="rect"), ValueError, "`rule` must be one of 'rectangle', 'trapezoid', 'interpolated_11', 'interpolated_101'; got 'rect'."),
    (lambda: ReIDMeanAP(similarity="l2"), ValueError, "`similarity` must be one of 'cosine', 'euclidean', 'dot'; got 'l2'."),
    (lambda: ReIDMeanAP(same_camera="drop"), ValueError, "`same_camera` must be one of 'same_identity', 'all', 'keep'; got 'drop'."),
    (lambda: ReIDMeanAP(ties="random"), ValueError, "`ties` must be one of 'pessimistic', 'optimistic', 'stable', 'grouped', 'expected'; got 'random'."),
    (lambda: ReIDMeanAP(empty_target_action="zero"), ValueError, "`empty_target_action` must be one of 'skip', 'neg', 'pos', 'error'; got 'zero'."),
    (lambda: ReIDMeanAP(junk_identities="-1"), TypeError, "`junk_identities` must be a collection of ints; got str."),
    (lambda: ReIDMeanAP(max_bytes=-5), ValueError, "`max_bytes` must be at least 1; got -5."),
    (lambda: ReIDCMC(top_k=0), ValueError, "`top_k` must be at least 1; got 0."),
    (lambda: ReIDCMC(top_k=True), TypeError, "`top_k` must be an int; got bool."),
    (lambda: ReIDCMCCurve(max_rank=0), ValueError, "`max_rank` must be at least 1; got 0."),
    (lambda: ReIDMetrics(ranks=()), ValueError, "`ranks` must hold at least one int and none twice; got ()."),
    (lambda: ReIDMetrics(ranks=(1, 1)), ValueError, "`ranks` must hold at least one int and none twice; got (1, 1)."),
    (lambda: ReIDMetrics(ranks=5), TypeError, "`ranks` must be a tuple or list of ints; got int."),
    (lambda: ReIDMeanAP(tie="x"), ValueError, "Unexpected keyword arguments: `tie`"),
]  # fmt: skip

UPDATES = [
    ({"embeddings": [1.0]}, TypeError, "`embeddings` must be a tensor; got list."),
    ({"embeddings": X.long()}, TypeError, "`embeddings` must have a floating point dtype of 16 to 64 bits; got torch.int64."),
    ({"embeddings": X[0]}, ValueError, "`embeddings` must have shape [N, D]; got [3]."),
    ({"embeddings": torch.ones(3, 5)}, ValueError, "`embeddings` and `embeddings of earlier batches` must have the same embedding dimension; got 5 and 3."),
    ({"identities": ID[:2]}, ValueError, "`identities` must have shape [3]; got [2]."),
    ({"identities": ID.double()}, TypeError, "`identities` must have an integer dtype; got torch.float64."),
    ({"identities": ID.to("meta")}, ValueError, "`identities` must be on the device of its companions, cpu; got meta."),
    ({"cameras": CAM[:1]}, ValueError, "`cameras` must have shape [3]; got [1]."),
    ({"cameras": None}, ValueError, "`cameras` must be given in every batch or in none; got a batch without it after batches with it."),
    ({"index": ID}, ValueError, "`index` must be given in every batch or in none; got a batch with it after batches without."),
    ({"is_query": ID}, TypeError, "`is_query` must be True, False, None or a bool tensor; got torch.int64."),
    ({"is_query": 1}, TypeError, "`is_query` must be True, False, None or a bool tensor; got int."),
    ({"is_query": CAM[:2] == 0}, ValueError, "`is_query` must have shape [3]; got [2]."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), FUNCTIONAL + RANKED + METRICS)
def test_a_bad_argument_is_named_with_the_rule_and_what_came(call, kind, message):
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize("method", ["update", "forward"])
@pytest.mark.parametrize(("change", "kind", "message"), UPDATES)
def test_a_bad_batch_is_refused_and_nothing_of_it_is_stored(method, change, kind, message):
    metric = ReIDMeanAP()
    batch = {"embeddings": X, "identities": ID, "cameras": CAM}
    metric.update(**batch)
    before = metric.compute()
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        getattr(metric, method)(**(batch | change))
    assert [len(getattr(metric, name)) for name in metric._defaults] == [1, 1, 1, 1, 0]
    metric.update(**batch)
    assert len(metric.embeddings) == 2
    metric.reset()
    metric.update(**batch)
    assert torch.equal(metric.compute(), before)
