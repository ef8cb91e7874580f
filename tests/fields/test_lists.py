"""Ranked lists from elsewhere: the recorded numbers of trec_eval, ranx, ir_measures, Google, Kaggle and Hotels-50K."""

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate, reciprocal_rank
from reid_torchmetrics.tasks import evaluate_lists
from tests.fields.comparisons import assert_equal, compared
from tests.golden.field_cases import load_field

NO_MEASURE = "no measure here"
_LACKING = ("11pt_avg", "gm_map", "infAP", "iprec_at_recall_*", "set_F", "set_P", "ndcg_rel", "num_q")
LEFT_OUT = {
    **dict.fromkeys((("trec_eval", f"*/{name}") for name in _LACKING), NO_MEASURE),
    **dict.fromkeys((("ranx", f"*/{name}") for name in ("rbp.95", "f1@5", "hits@5", "precision")), NO_MEASURE),
    ("ranx", "*/bpref"): "not the definition: it differs from trec_eval and ir_measures",
    ("ranx", "*_ties/*"): "equal scores come in the order of an unstable sort",
    ("ir_measures", "*_ties/RR@5"): "equal scores in the order of the items, while all its other measures reverse it",
    ("faiss", "*/D"): "distances, no measure",
}
PRINTED = {"nDCG(exp)@5": 6e-6}  # with five digits
EVERYTHING = 1_000_000  # a cutoff beyond every list


def judged(case, least=1):
    """Grades of items by query; every third of the other items is judged, and wrong."""
    truth = {}
    for query, (items, grades) in enumerate(zip(case.lists("positives"), case.lists("grades"), strict=True)):
        of = dict(zip(items.tolist(), grades.tolist(), strict=True))
        wrong = [item for item in range(int(case.inputs["num_gallery"])) if (7 * item + query) % 3 == 0]
        of = dict.fromkeys(wrong, 0) | of
        truth[f"q{query}"] = {f"d{item:03}": grade * (grade >= least) for item, grade in of.items()}
    return truth


def run(case):
    """Scores of items by query, as trec_eval takes them; a query that retrieved nothing is not there."""
    scores = np.split(case.inputs["scores_flat"], np.cumsum(case.inputs["retrieved_len"])[:-1])
    pairs = zip(case.lists("retrieved"), scores, strict=True)
    return {
        f"q{query}": dict(zip([f"d{item:03}" for item in items], of.tolist(), strict=True))
        for query, (items, of) in enumerate(pairs)
        if len(items)
    }


def of_run(case, names, least=1, **options):
    """Values of a run, by the names of another evaluator; NaN for queries that it leaves out."""
    options = {"missing_queries": "skip"} | options
    results = evaluate_lists(run(case), judged(case, least), reports=[*{*names.values()}], **options)
    values = torch.full((len(names), len(case.inputs["positives_len"])), torch.nan, dtype=torch.float64)
    for row, report in zip(values, names.values(), strict=True):
        row[results.query_index] = results.per_query[report].nan_to_num()
    return dict(zip(names, values, strict=True))


def trec_eval(case, **options):
    names = {"Rprec": "r_precision", "bpref": "bpref", "map": "map", "recip_rank": "mrr"}
    names |= {"ndcg": f"ndcg_{EVERYTHING}", "set_recall": f"recall_{EVERYTHING}"}
    for k in (1, 3, 5, 10):
        names |= {f"P_{k}": f"precision_{k}", f"recall_{k}": f"recall_{k}", f"ndcg_cut_{k}": f"ndcg_{k}"}
        names |= {f"success_{k}": f"hit_rate_{k}"}
    values = of_run(case, names, **options)
    values |= {f"map_cut_{k}": of_run(case, {"map": "map"}, k=k, **options)["map"] for k in (1, 3, 5, 10)}
    return values | of_run(case, {"relative_P_5": "precision_5"}, precision_divisor="attainable")


def reciprocal_rank_at_5(case, **options):
    results = evaluate_lists(run(case), judged(case), **options)
    values = torch.full((len(case.inputs["positives_len"]),), torch.nan, dtype=torch.float64)
    values[results.query_index] = reciprocal_rank(results.ranks, k=5).nan_to_num()
    return values


def ranx(case):
    names = {"map": "map", "mrr": "mrr", "ndcg": f"ndcg_{EVERYTHING}", "ndcg@5": "ndcg_5", "precision@5": "precision_5"}
    names |= {"recall@5": "recall_5", "recall": f"recall_{EVERYTHING}", "hit_rate@5": "hit_rate_5"}
    values = of_run(case, names | {"r-precision": "r_precision"})
    values |= of_run(case, {"ndcg_burges": f"ndcg_{EVERYTHING}", "ndcg_burges@5": "ndcg_5"}, gain="exponential")
    values |= of_run(case, {"map@5": "map"}, k=5)
    return values | {"mrr@5": reciprocal_rank_at_5(case, missing_queries="skip")}


def ir_measures(case):
    theirs = trec_eval(case, missing_queries="neg")
    names = {"AP": "map", "AP@5": "map_cut_5", "RR": "recip_rank", "nDCG": "ndcg", "nDCG@5": "ndcg_cut_5", "P@5": "P_5"}
    names |= {"R@5": "recall_5", "Success@5": "success_5", "Rprec": "Rprec", "Bpref": "bpref"}
    values = {name: theirs[other] for name, other in names.items()}
    values |= of_run(case, {"nDCG(exp)@5": "ndcg_5"}, gain="exponential", missing_queries="neg")
    values |= of_run(case, {"AP(rel=2)": "map"}, least=2, missing_queries="neg")
    return values | {"RR@5": reciprocal_rank_at_5(case)}


def given(case):
    return case.lists("retrieved"), case.lists("positives")


def gld(case):
    reports = [f"precision_{k}" for k in range(1, 11)]
    results = evaluate_lists(*given(case), protocol="gldv2", reports=reports)
    position = results.first_rank[results.num_positives > 0].clamp(max=11).numpy()
    maps = {f"map_{k}": evaluate_lists(*given(case), protocol="gldv2", k=k)["map"] for k in (5, 100)}
    return maps | {"precisions_10": [*results.means.values()], "position_10": [position.mean(), np.median(position)]}


def guie(case):
    options = {"precision_divisor": "calibrated", "empty_target_action": "skip"}
    return {"mp_5": evaluate_lists(*given(case), reports=["precision_5"], **options)["precision_5"]}


def ml_metrics(case):
    cutoffs = {k: evaluate_lists(*given(case), k=k, normalizer="attainable") for k in (1, 3, 5, 10)}
    return {f"ap_{k}": results.per_query["map"].nan_to_num() for k, results in cutoffs.items()}


def whale(case):
    def names(labels):
        return np.where(labels == case.options["new"], "new_whale", np.char.add("w_", labels.astype(str)))

    guesses, labels = names(case.inputs["guesses"]), names(case.inputs["labels"])
    return {"ap": evaluate_lists(guesses, labels[:, None], num_positives=1, k=5).per_query["map"]}


def hotels(case):
    hotel, chain_of = case.inputs["gallery_class"], case.inputs["chain_of_class"]
    query, retrieved = case.inputs["query_class"], case.inputs["retrieved"]
    known = chain_of[query] >= 0

    def means(rows, query_identities, gallery_identities, cutoffs):
        labels = {"query_identities": query_identities, "gallery_identities": gallery_identities}
        return [*evaluate_lists(retrieved[rows], **labels, reports=[f"hit_rate_{k}" for k in cutoffs]).means.values()]

    of_chain = means(known, chain_of[query[known]], chain_of[hotel], (1, 3, 5))
    return {"instance": means(slice(None), query, hotel, (1, 10, 100)), "chain": of_chain}


def faiss(case):
    lists = case.outputs["faiss"]["I"]
    return {"I": evaluate_lists(lists, [[0]] * len(lists)).nearest(lists.shape[1]).index}


CALLS = {each.__name__: each for each in (trec_eval, ranx, ir_measures, gld, guie, ml_metrics, whale, hotels, faiss)}


@pytest.mark.parametrize("case", load_field("lists"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    evaluators = {evaluator for evaluator, _ in compared(case, LEFT_OUT)}
    found = {(evaluator, name): value for evaluator in evaluators for name, value in CALLS[evaluator](case).items()}
    assert_equal(case, found, LEFT_OUT, PRINTED)


UNTIED = [
    case
    for case in load_field("lists")
    if "faiss" in case.outputs
    and (np.diff(case.outputs["faiss"]["D"], axis=1)[case.outputs["faiss"]["I"][:, 1:] >= 0]).all()
]


@pytest.mark.parametrize("case", UNTIED, ids=lambda case: case.name)
def test_lists_of_faiss_give_the_numbers_of_the_embeddings(case):
    lists = case.outputs["faiss"]["I"]
    labels = {
        "query_identities": np.arange(len(lists)) % 3,
        "gallery_identities": np.arange(len(case.inputs["gallery"])) % 3,
    }
    options = {"protocol": "trec", "reports": ("precision_5", "recall_5", "hit_rate_1", "ndcg_5")}
    similarity = "dot" if (np.diff(case.outputs["faiss"]["D"], axis=1)[lists[:, 1:] >= 0] <= 0).all() else "euclidean"
    ours = evaluate(case.inputs["query"], case.inputs["gallery"], **labels, similarity=similarity, **options)
    assert evaluate_lists(lists, **labels, **options).means == pytest.approx(ours.means, abs=1e-12)
