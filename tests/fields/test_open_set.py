"""Open-set identification as PFE, OpenGait, insightface and wildlife-datasets evaluate it: each recorded array."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate_scores, mean_over_identities
from reid_torchmetrics.tasks import Identification
from tests.fields.comparisons import assert_equal, compared
from tests.golden.field_cases import FieldCase, load_field

FPIRS = [0.01, 0.05, 0.1, 0.25, 0.5]
UNSTABLE = "the mate's rank rests on an unstable argsort where scores tie"
LEFT_OUT = {
    ("insightface_ijb_1n", "*"): "known bug: the threshold is taken from the pairs of mated probes, #1373",
    ("pfe", "*_ties/dir"): UNSTABLE,
    ("opengait", "*_ties/dir"): UNSTABLE,
    ("insightface_1N", "*_ties/top_1_5_10"): UNSTABLE,
    **{
        ("wildlife_datasets", f"*_ties/{output}"): UNSTABLE
        for output in ("baks", "acc_known", "accuracy", "balanced", "normalized")
    },
    **{
        ("wildlife_datasets", output): "a report of predicted classes, not of identification"
        for output in ("f1", "precision", "recall", "class_average")
    },
    ("wildlife_tools", "k5"): "the most frequent label of five neighbors, a classifier",
    ("wildlife_tools", "score5"): "the score of that label",
    ("wildlife_tools", "*_ties"): "neighbors with equal scores are in the order of torch's `topk`",
    ("wildlife_tools", "*_multishot/topk"): "each label once; nearest items may share one",
    ("wildlife_tools", "*_multishot/ap_topk"): "of lists that hold each label once",
}


def labels(case: FieldCase) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(case.inputs[name]) for name in ("scores", "query_ids", "gallery_ids"))


def nearest(case: FieldCase, k: int) -> torch.Tensor:
    return evaluate_scores(*labels(case)).nearest(k).identities


def average_precision_of_labels(case: FieldCase) -> torch.Tensor:
    options = {"reports": ("map",), "k": 5, "empty_target_action": "neg"}
    return evaluate_scores(*labels(case), **options).per_query["map"].nan_to_num(0.0)


def right(case: FieldCase, found: Identification) -> torch.Tensor:
    return found.is_correct(float(case.inputs["threshold"])).double()


def balanced(case: FieldCase, found: Identification) -> torch.Tensor:
    """Mean over known identities and one for all that is new."""
    return mean_over_identities(right(case, found), found.query_identities.where(found.is_mated, -1))


def shares(case: FieldCase, found: Identification) -> list[float]:
    return [float(right(case, found)[side].mean()) for side in (found.is_mated, ~found.is_mated)]


def rule_calls(evaluator: str, rule: str) -> dict:
    return {
        (evaluator, "dir"): lambda _, found: torch.stack([found.tpir_at_fpir(FPIRS, rank, rule) for rank in (1, 5)], 1),
        (evaluator, "tpir"): lambda _, found: found.tpir_at_fpir(FPIRS, rule=rule),
        (evaluator, "thresholds"): lambda _, found: found.threshold_at_fpir(FPIRS, rule),
        (evaluator, "far"): lambda _, found: found.rates_at(found.threshold_at_fpir(FPIRS, rule)).false_positive_rate,
    }


CALLS = {
    **rule_calls("pfe", "nearest"),
    **rule_calls("opengait", "floor"),
    **rule_calls("insightface_1N", "strict"),
    ("insightface_1N", "top_1_5_10"): lambda _, found: (
        [float(found.tpir_at_fpir(1.0, rank) * found.is_mated.sum()) for rank in (1, 5, 10)]
    ),
    ("wildlife_datasets", "baks"): lambda case, found: found.balanced_accuracy(float(case.inputs["threshold"])).known,
    ("wildlife_datasets", "baus"): lambda case, found: found.balanced_accuracy(float(case.inputs["threshold"])).unknown,
    ("wildlife_datasets", "auc_new"): lambda _, found: found.novelty_auc(),
    ("wildlife_datasets", "accuracy"): lambda case, found: right(case, found).mean(),
    ("wildlife_datasets", "acc_known"): lambda case, found: shares(case, found)[0],
    ("wildlife_datasets", "acc_unknown"): lambda case, found: shares(case, found)[1],
    ("wildlife_datasets", "normalized"): lambda case, found: sum(shares(case, found)) / 2,
    ("wildlife_datasets", "balanced"): balanced,
    ("wildlife_tools", "k1"): lambda case, _: nearest(case, 1)[:, 0],
    ("wildlife_tools", "topk"): lambda case, _: nearest(case, 5),
    ("wildlife_tools", "ap_topk"): lambda case, _: average_precision_of_labels(case),
}


@pytest.mark.parametrize("case", load_field("open_set"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    found = evaluate_scores(*labels(case)).identification()
    assert_equal(case, {key: CALLS[key](case, found) for key in compared(case, LEFT_OUT)}, LEFT_OUT)
