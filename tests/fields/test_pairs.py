"""Given pairs as LFW, VoxCeleb, IJB and scikit-learn evaluate them: each recorded array."""

import numpy as np
import pytest

from reid_torchmetrics.tasks import Verification, accuracy_over_folds, verify_pairs
from tests.fields.comparisons import assert_equal, compared
from tests.golden.field_cases import FieldCase, load_field

CASES = {case.name: case for case in load_field("pairs")}
FARS = [10.0**power for power in range(-6, 0)]
LEFT_OUT = {
    **{
        ("lfw_scipy14", output): "SciPy 1.4.1 interpolates among equal rates in the order of an unstable argsort;"
        " SciPy of today raises"
        for output in ("val", "val_std", "far")
    },
    ("voxceleb", "mindcf_threshold_*"): "the highest score that is rejected, where ours are accepted",
    ("voxceleb", "*_ties/mindcf_0*"): "thresholds lie between equal scores, so that the order of pairs counts",
}


def squared_distances(case: FieldCase) -> np.ndarray:
    return ((case.inputs["first"] - case.inputs["second"]) ** 2).sum(1)


def angles(case: FieldCase) -> np.ndarray:
    """Facenet's other distance, of the embeddings; the scores of `_ties` are others."""
    first, second = case.inputs["first"], case.inputs["second"]
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.arccos(np.clip((first * second).sum(1) / norms, -1, 1)) / np.pi


def accuracy(distances):
    return lambda case, _: accuracy_over_folds(distances(case), case.inputs["same"]).accuracy


CALLS = {
    ("lfw_accuracy", "accuracy"): accuracy(squared_distances),
    ("lfw_scipy14", "accuracy"): accuracy(squared_distances),
    ("facenet", "accuracy_0"): accuracy(squared_distances),
    ("facenet", "accuracy_1"): accuracy(angles),
    ("voxceleb", "eer_percent"): lambda _, found: 100 * found.equal_error_rate("voxceleb").rate,
    ("voxceleb", "mindcf_0.01"): lambda _, found: found.min_dcf(0.01),
    ("voxceleb", "mindcf_0.05"): lambda _, found: found.min_dcf(0.05),
    ("ijb_11", "auc"): lambda _, found: found.area_under_curve(),
    ("ijb_11", "tar_1e-6_to_1e-1"): lambda _, found: found.tar_at_far(FARS, rule="nearest"),
    ("sklearn", "auc"): lambda _, found: found.area_under_curve(),
    ("sklearn", "average_precision"): lambda _, found: found.average_precision(ties="grouped"),
}


def found_in(case: FieldCase) -> Verification:
    return verify_pairs(case.inputs["scores"], case.inputs["same"])


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    found = found_in(case)
    assert_equal(case, {key: CALLS[key](case, found) for key in compared(case, LEFT_OUT)}, LEFT_OUT)
