"""The search of conventions tries every value of the options that decide a number, or there is a reason."""

from typing import get_args

from reid_torchmetrics import _names
from reid_torchmetrics.diagnosis.expected.known import (
    DETECTION_CHANGES,
    DETECTION_EVALUATORS,
    RETRIEVAL_CHANGES,
    RETRIEVAL_EVALUATORS,
)
from reid_torchmetrics.functional.retrieval.relevance import LABEL_RULES
from tests.profiles import each_row

KINDS = {
    "retrieval": (RETRIEVAL_CHANGES, RETRIEVAL_EVALUATORS),
    "detection": (DETECTION_CHANGES, DETECTION_EVALUATORS),
}
VALUES = {
    ("retrieval", "rule"): get_args(_names.ApRule),
    ("retrieval", "normalizer"): get_args(_names.Normalizer),
    ("retrieval", "precision_divisor"): get_args(_names.PrecisionDivisor),
    ("retrieval", "mode"): get_args(_names.CmcMode),
    ("retrieval", "gain"): get_args(_names.Gain),
    ("retrieval", "ties"): get_args(_names.TieName),
    ("retrieval", "same_camera"): get_args(_names.CameraRule),
    ("retrieval", "similarity"): get_args(_names.SimilarityName),
    **{("retrieval", name): tuple(rules) for name, rules in LABEL_RULES.items()},
    ("detection", "rule"): get_args(_names.DetectionRule),
    ("detection", "average"): get_args(_names.Average),
    ("detection", "thresholds"): get_args(_names.ThresholdsName),
    ("detection", "evaluator"): get_args(_names.EvaluatorName),
}
"""the values of options by the kind of numbers"""
NOT_TRIED = {
    "normalizer k": "no known evaluator has it",
    "ties expected": "no known evaluator has it",
    "same_camera only": "no known evaluator has it",
    "similarity hamming": "it is of codes alone",
    "evaluator yolov4": "no known evaluator has it",
}
"""reasons why a value is not tried"""


@each_row("kind", KINDS)
def test_every_value_of_an_option_is_tried_or_has_a_reason(kind):
    changes, evaluators = KINDS[kind]
    tried = {f"{change.option} {change.value}" for change in changes}
    tried |= {f"{option} {value}" for evaluator in evaluators for option, value in evaluator.options.items()}
    named = {f"{option} {value}" for (of_kind, option), values in VALUES.items() if of_kind == kind for value in values}
    lacking = sorted(named - tried - NOT_TRIED.keys())
    assert not lacking, f"add {lacking} to `changes` in diagnosis/expected/{kind}.json, or the reason why not here"
    assert not NOT_TRIED.keys() & tried
