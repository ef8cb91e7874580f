"""Hashing, sketches, ANMRR and kNN of features."""

from typing import Any

import pytest

from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from tests.fields.comparisons import assert_equal
from tests.golden.field_cases import FieldCase, load_field

LEFT_OUT = {
    ("deephash", "*_ties"): "equal distances in the order of an unstable sort; ties='expected' is the mean over orders",
    ("cross_modal", "*"): "equal distances in the order of an unstable sort; and k cuts the positives",
    ("sem_pcyc", "*_ties/*0"): "equal scores in the order of an unstable sort: its cutoffs take any of them",
    ("shrec22", "*_ties/anmrr"): "equal scores in the order of an unstable sort",
    ("shrec22", "ndcg_10"): "its ideal list has 10 hits, also where there are fewer positives",
    ("dino_knn_[25]*", "top5"): "fills up with labels that no item voted for, in the order of an unstable sort",
    ("anmrr_ranks", "anmrr"): "counts ranks from 0, so that a perfect list is below 0",
}


def hashing(case: FieldCase) -> dict[tuple[str, str], Any]:
    lists = [{"ok": row.nonzero()[0]} for row in case.inputs["relevant"]]
    found = {}
    for output in case.outputs["deephash"]:
        k = int(output.removeprefix("map_"))
        results = evaluate_scores(case.inputs["similarity"], ground_truth=lists, protocol="hashing", k=k)
        found["deephash", output] = results["map"]
    return found


def sketch(case: FieldCase) -> dict[tuple[str, str], Any]:
    scores, *labels = (case.inputs[name] for name in ("similarity", "query_ids", "gallery_ids"))
    cutoffs = {name: int(name.partition("_")[2]) for name in case.outputs["sem_pcyc"] if name != "ap_all"}
    # Theirs divides by the length of a list that is shorter than k.
    depths = {name: min(k, scores.shape[1]) for name, k in cutoffs.items()}
    found: dict[tuple[str, str], Any] = {}
    for name, k in depths.items():
        kind = name.partition("_")[0]
        report = {"ap": "map", "prec": f"precision_{k}", "rec": f"recall_{k}"}[kind]
        results = evaluate_scores(scores, *labels, protocol="sketchy", k=k, reports=(report,))
        found["sem_pcyc", name] = results.per_query["map"].nan_to_num() if kind == "ap" else results[report]
    reports = ("map", "anmrr_shrec22")
    whole = evaluate_scores(scores, *labels, protocol="sketchy", k=None, ties="grouped", reports=reports)
    found["sem_pcyc", "ap_all"] = whole.per_query["map"].nan_to_num()
    return found | {("shrec22", "anmrr"): whole["anmrr_shrec22"]}


def knn(case: FieldCase) -> dict[tuple[str, str], Any]:
    arrays = [case.inputs[name] for name in ("query", "gallery", "query_labels", "gallery_labels")]
    lists = evaluate(*arrays, same_camera="keep", junk_identities=()).nearest(20)
    found = {}
    for evaluator, options in case.options_of.items():
        k, temperature = options["k"], options["T"]
        for top in (1, 5):
            right = lists.first(k).knn_accuracy(temperature=temperature, top_k=min(top, k))
            found[evaluator, f"top{top}"] = 100 * right.mean()
    return found


CALLS = {"hash": hashing, "sketch": sketch, "knn": knn}


@pytest.mark.parametrize("case", load_field("other"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    kind = case.name.partition("_")[2].removesuffix("_ties")
    assert_equal(case, CALLS[kind](case), LEFT_OUT)
