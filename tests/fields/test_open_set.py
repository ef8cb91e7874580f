"""Open-set identification as PFE, OpenGait, insightface and wildlife-datasets evaluate it: each recorded array."""

from fnmatch import fnmatch

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    Identification,
    evaluate_scores,
    identify_scores,
    mean_over_identities,
)
from tests.golden.field_cases import FieldCase, load_field

CASES = {case.name: case for case in load_field("open_set")}
FPIRS = [0.01, 0.05, 0.1, 0.25, 0.5]
UNSTABLE = "the mate's rank rests on an unstable argsort where scores tie"
LEFT_OUT = {
    ("insightface_ijb_1n", "*", "*"): "known bug: the threshold is taken from the pairs of mated probes, #1373",
    ("pfe", "dir", "*_ties"): UNSTABLE,
    ("opengait", "dir", "*_ties"): UNSTABLE,
    ("insightface_1N", "top_1_5_10", "*_ties"): UNSTABLE,
    **{
        ("wildlife_datasets", output, "*_ties"): UNSTABLE
        for output in ("baks", "acc_known", "accuracy", "balanced", "normalized")
    },
    **{
        ("wildlife_datasets", output, "*"): "a report of predicted classes, not of identification"
        for output in ("f1", "precision", "recall", "class_average")
    },
    ("wildlife_tools", "k5", "*"): "the most frequent label of five neighbors, a classifier",
    ("wildlife_tools", "score5", "*"): "the score of that label",
    ("wildlife_tools", "*", "*_ties"): "neighbors with equal scores are in the order of torch's `topk`",
    ("wildlife_tools", "topk", "*_multishot"): "each label once; nearest items may share one",
    ("wildlife_tools", "ap_topk", "*_multishot"): "of lists that hold each label once",
}
"""by evaluator, output and case"""


def labels(case: FieldCase) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(case.inputs[name]) for name in ("scores", "query_ids", "gallery_ids"))


def nearest(case: FieldCase, k: int) -> torch.Tensor:
    return evaluate_scores(*labels(case)).nearest(k).identities


def average_precision_of_labels(case: FieldCase) -> torch.Tensor:
    options = {"reports": ("map",), "k": 5, "empty_target_action": "neg"}
    return evaluate_scores(*labels(case), **options).values["map"].nan_to_num(0.0)


def right(case: FieldCase, found: Identification) -> torch.Tensor:
    return found.is_right(float(case.inputs["threshold"])).double()


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


def is_left_out(evaluator: str, output: str, case: str) -> bool:
    return any(all(map(fnmatch, (evaluator, output, case), key)) for key in LEFT_OUT)


@pytest.mark.parametrize("name", CASES)
def test_every_recorded_array_is_reproduced(name):
    case = CASES[name]
    found = identify_scores(*labels(case))
    for evaluator, outputs in case.outputs.items():
        for output, expected in outputs.items():
            if not is_left_out(evaluator, output, name):
                value = np.asarray(CALLS[evaluator, output](case, found))
                tolerance = 1e-9 if expected.dtype != np.float32 else 1e-6
                np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance, err_msg=f"{evaluator} {output}")


def test_each_array_is_compared_or_left_out_for_a_reason_that_is_needed():
    recorded = [
        (ref, out, case.name) for case in CASES.values() for ref, outputs in case.outputs.items() for out in outputs
    ]
    for key in LEFT_OUT:
        assert any(all(map(fnmatch, array, key)) for array in recorded), key
    compared = [array for array in recorded if not is_left_out(*array)]
    assert {array[:2] for array in compared} == CALLS.keys() & {array[:2] for array in recorded}
    assert (len(CASES), len(recorded), len(compared)) == (20, 520, 356)
