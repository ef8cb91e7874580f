"""Questions about retrieval, on a few items whose numbers can be worked out by hand."""

import math

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics, evaluate_scores
from reid_torchmetrics.tasks import evaluate_lists
from tests.coming_from.questions import Section, message_of

RETRIEVAL = Section("Retrieval")


@RETRIEVAL.asks(
    "cvangysel/pytrec_eval#56",
    question="All scores in a run are equal, and the item that I listed last is ranked first. Why?",
    answer="As in trec_eval, items with equal scores are ordered by name, descending. Among d1, d2 and d3, the"
    " positive d3 has the reciprocal rank **1**. A list without scores keeps its order; then it is **1/3**.",
)
def runs_of_one_score():
    run, positives = {"q": {"d1": 1.0, "d2": 1.0, "d3": 1.0}}, {"q": ["d3"]}
    as_list = evaluate_lists({"q": ["d1", "d2", "d3"]}, positives, reports=("mrr",))
    return [evaluate_lists(run, positives, reports=("mrr",))["mrr"], as_list["mrr"]]


@RETRIEVAL.asks(
    "usnistgov/trec_eval#22",
    question="Why does nDCG depend on the names of items?",
    answer="The name decides between equal scores. If the positive b ties with a, it comes first, and nDCG is"
    " **1**. If it ties with c, it comes second, and nDCG is 1 / log2(3) = **0.6309**.",
)
def names_that_decide():
    runs = [{"q": dict.fromkeys(("b", other), 0.5)} for other in ("a", "c")]
    return [evaluate_lists(run, {"q": ["b"]}, reports=("ndcg_2",))["ndcg_2"] for run in runs]


@RETRIEVAL.asks(
    "AmenRa/ranx#27",
    "joaopalotti/trectools#24",
    question="What happens if a query is in the run but not in the ground truth?",
    answer="An error names the query: **`retrieved` must have no query that `positives` lacks; got 'b' where these are"
    " 'a'.** With"
    ' `unknown_queries="skip"` the mean is over the other queries: **1**.',
)
def queries_in_the_run_alone():
    sides = {"a": ["x"], "b": ["x"]}, {"a": ["x"]}
    return [message_of(lambda: evaluate_lists(*sides)), evaluate_lists(*sides, unknown_queries="skip")["map"]]


@RETRIEVAL.asks(
    "AmenRa/ranx#51",
    question="Are items with a score of 0 retrieved?",
    answer="Yes. With two positives that have a score of 0, recall is **1**.",
)
def scores_of_0():
    run = {"q": {"a": 0.0, "b": 0.0}}
    return [evaluate_lists(run, {"q": ["a", "b"]}, reports=("recall_2",))["recall_2"]]


@RETRIEVAL.asks(
    "AmenRa/ranx#19",
    "msight-tech/research-ms-loss#21",
    "CompVis/metric-learning-divide-and-conquer#10",
    "PkuRainBow/HDC.caffe#14",
    question='Is "recall@1" in papers the share of positives that are found?',
    answer="In most papers it is the share of queries with a hit. If the first item is one of three positives,"
    " `recall_1` is **1/3**, and `hit_rate_1` is **1**. See"
    ' ["recall at k"](../conventions.md#recall-at-k-and-other-measures).',
)
def recall_or_hit_rate():
    means = evaluate_lists([[1, 9]], [[1, 2, 3]], reports=("recall_1", "hit_rate_1")).means
    return [means["recall_1"], means["hit_rate_1"]]


@RETRIEVAL.asks(
    "facebookresearch/faiss#447",
    question="What are 1-recall@4 and 4-recall@4 here?",
    answer="The first is `hit_rate_4` with the nearest item as the only positive. The second is `recall_4` with the"
    " four nearest items as positives. If a list of four has the nearest item last, and contains three of the"
    " four nearest, they are **1** and **3/4**.",
)
def recalls_of_an_index():
    retrieved, nearest = [[9, 2, 3, 1]], [1, 2, 3, 4]
    one = evaluate_lists(retrieved, [nearest[:1]], reports=("hit_rate_4",))["hit_rate_4"]
    return [one, evaluate_lists(retrieved, [nearest], reports=("recall_4",))["recall_4"]]


@RETRIEVAL.asks(
    "joaopalotti/trectools#51",
    "thulab/DeepHash#30",
    question="How does a query without any retrieved positive count?",
    answer="Its average precision is **0**, its reciprocal rank **0** and its nDCG **0**. Only a query without"
    " positives in the ground truth is left out.",
)
def queries_without_a_hit():
    means = evaluate_lists([[7, 8]], [[1]], reports=("map", "mrr", "ndcg_2")).means
    return [means["map"], means["mrr"], means["ndcg_2"]]


@RETRIEVAL.asks(
    "swuxyj/DeepHash-pytorch#33",
    question="What is the divisor of average precision at 3?",
    answer='With `protocol="hashing"` it is the number of positives among the first three. The list right, wrong,'
    " right has (1/1 + 2/3)/2 = **5/6**, and right, wrong, wrong has **1**.",
)
def precision_of_the_first_three():
    scores = torch.tensor([[3.0, 2.0, 1.0]])
    galleries = [1, 2, 1], [1, 2, 2]
    return [evaluate_scores(scores, [1], gallery, protocol="hashing", k=3)["map"] for gallery in galleries]


@RETRIEVAL.asks(
    "castorini/anserini#92",
    question="Which gain does nDCG use?",
    answer='The grade, or with `gain="exponential"` 2^grade - 1. If items with grades 1, 0 and 2 are retrieved, and'
    " one with grade 1 is not, the exponential gain gives (1 + 3/2) / (3 + 1/log2(3) + 1/2) = **0.6052**.",
)
def exponential_gain():
    grades = {"a": 1, "b": 0, "c": 2, "d": 1}
    results = evaluate_lists([["a", "b", "c"]], [grades], reports=("ndcg_3",), gain="exponential")
    expected = (1 + 3 / 2) / (3 + 1 / math.log2(3) + 1 / 2)
    assert results["ndcg_3"] == pytest.approx(expected, abs=1e-12)
    return [results["ndcg_3"]]


@RETRIEVAL.asks(
    "beir-cellar/beir#37",
    "lightonai/pylate#198",
    question="A query is an item in its own list, as in ArguAna. How do I leave it out?",
    answer="Declare it as junk. If the query is ranked before the positive, the reciprocal rank is **1/2**. With"
    ' `{"ok": ["d"], "junk": ["q"]}` and `protocol="oxford5k"` it is **1**.',
)
def queries_in_their_own_list():
    run = {"q": ["q", "d"]}
    with_query = evaluate_lists(run, {"q": ["d"]}, reports=("mrr",))
    truth = {"q": {"ok": ["d"], "junk": ["q"]}}
    without_query = evaluate_lists(run, truth, protocol="oxford5k", reports=("mrr",))
    return [with_query["mrr"], without_query["mrr"]]


@RETRIEVAL.asks(
    "embeddings-benchmark/mteb#4626",
    question="The gallery contains a copy of the positive with another identity. Which of them is first?",
    answer='By default the wrong one is first, and average precision is **1/2**. With `ties="stable"` the item that'
    " comes first in the gallery is first, in this example the right one, which gives **1**. With"
    ' `ties="expected"` the number is the mean over both orders, **3/4**. See [ties](../concepts/ties.md).',
)
def copies_with_another_identity():
    sides = torch.tensor([[0.9, 0.9]]), [1], [1, 2]
    return [evaluate_scores(*sides, ties=ties)["map"] for ties in ("pessimistic", "stable", "expected")]


@RETRIEVAL.asks(
    "microsoft/XPretrain#13",
    question="The last batch is filled up with samples that were evaluated before. Does the number change?",
    answer="Not if you pass [`index`](../how_to/several_gpus.md#repeated-samples). If one of three queries is right"
    " and is repeated, rank-1 is **1/3**. Without `index` this query counts twice, and rank-1 is **1/2**.",
)
def samples_that_fill_a_batch():
    values = []
    for index in (torch.tensor([0, 1, 2, 0]), None):
        metrics = ReIDMetrics(reports=("rank_1",))
        queries = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
        metrics.update(queries, torch.tensor([1, 1, 1, 1]), is_query=True, index=index)
        numbers = None if index is None else torch.arange(2)
        metrics.update(torch.eye(2), torch.tensor([1, 2]), is_query=False, index=numbers)
        values.append(float(metrics.compute()["rank_1"]))
    return values


@RETRIEVAL.asks(
    "technicolor-research/dsve-loc#17",
    "albanie/collaborative-experts#11",
    "CASIA-IVA-Lab/VALOR#22",
    question="How do I evaluate several captions per image in both directions?",
    answer="Give each caption the number of [its image](../how_to/text_and_images.md). If three of four captions"
    " find their image first, rank-1 is **3/4**. In the other direction, if one of two images finds one of"
    " its captions first, rank-1 is **1/2**.",
)
def captions_in_both_directions():
    scores = torch.tensor([[0.9, 0.1], [0.4, 0.8], [0.2, 0.7], [0.3, 0.5]])
    captions, images = [0, 0, 1, 1], [0, 1]
    to_image = evaluate_scores(scores, captions, images, protocol="flickr30k")["rank_1"]
    return [to_image, evaluate_scores(scores.T, images, captions, protocol="flickr30k")["rank_1"]]


@RETRIEVAL.asks(
    "mlfoundations/open_clip#149",
    question="Does the mean rank begin at 0 or at 1?",
    answer="It begins at 1. If the first item is the positive, `mean_rank` is **1**. Tools that begin at 0 give a"
    " value that is lower by one.",
)
def ranks_from_1():
    return [evaluate_scores(torch.tensor([[3.0, 2.0]]), [1], [1, 2], reports=("mean_rank",))["mean_rank"]]


@RETRIEVAL.asks(
    "JDAI-CV/fast-reid#121",
    question="May cameras be numbered separately for queries and gallery?",
    answer="No. Pass names, which mean the same camera for queries and gallery. If the first item is from the"
    " query's camera, it is left out; if a wrong and a right item from another camera follow, average"
    " precision is **1/2**. If queries and gallery are numbered separately from 0, the right item is left out"
    " instead, and the value is **1**.",
)
def cameras_of_each_side():
    sides = torch.tensor([[0.9, 0.8, 0.7]]), [1], [1, 2, 1]
    by_name = evaluate_scores(*sides, ["c2"], ["c2", "c1", "c1"])["map"]
    return [by_name, evaluate_scores(*sides, [0], [1, 0, 0])["map"]]


@RETRIEVAL.asks(
    "tinyvision/SOLIDER-REID#12",
    question="All images are from one camera. Why is mAP undefined?",
    answer="Re-identification leaves out positives from the query's camera. mAP is **NaN**, and a warning gives the"
    ' number of queries that **lost every positive to rules of cameras**. With `same_camera="keep"` mAP is'
    " **1**.",
)
def one_camera():
    identities, cameras = torch.tensor([1, 2]), torch.tensor([0, 0])
    values = []
    for same_camera in ("same_identity", "keep"):
        metric = ReIDMeanAP(same_camera=same_camera)
        for is_query in (True, False):
            metric.update(torch.eye(2), identities, cameras, is_query=is_query)
        if same_camera == "keep":
            values.append(float(metric.compute()))
            continue
        with pytest.warns(UserWarning, match="No query can be evaluated") as caught:
            values.append(float(metric.compute()))
        values.append(str(caught[0].message))
    return values


@RETRIEVAL.asks(
    "Nanne/pytorch-NetVlad#3",
    question="24 gallery images show one place. Must all of them be found?",
    answer="No. All **24** are positives, and `hit_rate_1` is **1** if one of them comes first.",
)
def images_at_one_place():
    here, away = [3.0, 4.0], [900.0, 0.0]
    results = evaluate_scores(
        torch.tensor([[0.9] * 24 + [0.1]]),
        query_positions=[[0.0, 0.0]],
        gallery_positions=[here] * 24 + [away],
        protocol="pitts30k",
        reports=("hit_rate_1",),
    )
    return [int(results.num_positives), results["hit_rate_1"]]


@RETRIEVAL.asks(
    "Cysu/open-reid#22",
    question="What happens if the matrix has one row per gallery item?",
    answer="You get an error: **`scores` must have one row for each label; got 3 rows for 4 labels.** Only a square"
    " matrix cannot be distinguished from its transpose.",
)
def transposed_matrices():
    return [message_of(lambda: evaluate_scores(torch.zeros(3, 4), [1, 2, 3, 4], [1, 2, 3]))]
