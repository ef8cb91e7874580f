"""Optimal localization recall precision: by hand, and equal to the authors' code."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, LvisMAP
from reid_torchmetrics.functional.detection import DetectionResults
from tests.functional.detection.detection_samples import fed
from tests.golden.federated_cases import DetectionCase, detection_cases

pytestmark = pytest.mark.filterwarnings("ignore:Encountered more than")

CALLS = {
    "lrp": {},
    "lrp_tau75": {"iou_thresholds": [0.75]},
    "lrp_tau30": {"iou_thresholds": [0.3, 0.5]},
    "lrp_max124": {"max_detection_thresholds": [1, 2, 4]},
}
OUTPUTS = {
    "olrp": "error",
    "olrp_loc": "localization",
    "olrp_fp": "false_positives",
    "olrp_fn": "false_negatives",
    "lrp_opt_thr": "confidence",
}
AREAS = ("all", "small", "medium", "large")
VALUES = ("lrp", "lrp_localization", "lrp_fp", "lrp_fn")
EXACT = 1e-12


def of_categories(case: DetectionCase, results: DetectionResults, threshold: float, area: str) -> dict[str, np.ndarray]:
    """The values of all categories of the data set, -1 where the authors have it: without ground truths."""
    errors = results.localization_errors(iou_threshold=threshold, area=area)
    place = {label: k for k, label in enumerate(results.classes.tolist())}
    found = {}
    for name, field in OUTPUTS.items():
        values = getattr(errors, field)
        found[name] = np.array([float(values[place[label]]) if label in place else -1 for label in case.categories])
        is_empty = [label not in place or bool(errors.error[place[label]].isnan()) for label in case.categories]
        found[name][is_empty] = -1
    return found


def assert_as_recorded(case: DetectionCase, results: DetectionResults, evaluator: str, threshold: float) -> int:
    expected, count = case.outputs[evaluator], 0
    for number, area in enumerate(AREAS):
        for name, found in of_categories(case, results, threshold, area).items():
            recorded = expected[name][:, number, -1] if expected[name].ndim == 3 else expected[name][:, number]
            np.testing.assert_allclose(
                found, recorded, rtol=EXACT, atol=EXACT, err_msg=f"{case.name} {evaluator} {area} {name}"
            )
            count += len(found)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_every_class_has_the_values_of_the_authors(call):
    count = 0
    for case in detection_cases("lrp"):
        if call in case.outputs:
            results = fed(DetectionMAP("xywh", **CALLS[call]), *case.dicts()).results(localization=True)
            count += assert_as_recorded(case, results, call, results.averages.grid.iou_thresholds[0])
    assert count > 1000


@pytest.mark.slow
def test_lvis_has_the_values_of_the_authors():
    for case in detection_cases("lvis"):
        if not (case.given["dt_box"] < 0).any():
            results = fed(LvisMAP("xywh"), *case.dicts()).results(localization=True)
            assert_as_recorded(case, results, "lrp_lvis", 0.5)


def test_means_are_those_of_the_authors():
    for case in detection_cases("lrp")[::4]:
        found = [float(fed(DetectionMAP("xywh", metric=name), *case.dicts()).compute()) for name in VALUES]
        np.testing.assert_allclose(found, case.outputs["lrp"]["stats"][12:16], atol=1e-6, rtol=1e-6)


def by_hand(**options) -> DetectionMAP:
    """Two objects of class 3; one is found with an IoU of 0.8, then a wrong detection, then the other with 0.6."""
    true = torch.tensor([[0.0, 0.0, 10.0, 10.0], [50.0, 0.0, 10.0, 10.0]], dtype=torch.float64)
    found = torch.tensor([[0.0, 0.0, 10.0, 8.0], [90.0, 0.0, 5.0, 5.0], [50.0, 0.0, 10.0, 6.0]], dtype=torch.float64)
    scores = torch.tensor([0.9, 0.8, 0.7], dtype=torch.float64)
    preds = [{"boxes": found, "scores": scores, "labels": torch.full((3,), 3)}]
    return fed(DetectionMAP("xywh", **options), preds, [{"boxes": true, "labels": torch.full((2,), 3)}])


def test_the_least_error_of_a_worked_example():
    # After the first: (0.2 / 0.5 + 0 + 1) / 2 = 0.7; the second 0.8; after the third (0.6 / 0.5 + 1 + 0) / 3 = 0.7333.
    errors = by_hand().results(localization=True).localization_errors()
    found = [float(getattr(errors, field)) for field in OUTPUTS.values()]
    np.testing.assert_allclose(found, [0.7, 0.2, 0.0, 0.5, 0.9])
    assert errors.means().keys() == {*VALUES}
    assert float(by_hand(metric="lrp/3").compute()) == pytest.approx(0.7)
    assert float(by_hand(metric="lrp_fn/4").compute()) == -1


def test_less_is_better():
    assert by_hand().higher_is_better
    assert not by_hand(metric="lrp_localization").higher_is_better


def test_results_without_overlaps_and_a_threshold_of_one_have_no_errors():
    with pytest.raises(
        ValueError, match=r"^`localization` must be True in `results\(...\)` for errors of localization"
    ):
        by_hand().results().localization_errors()
    results = by_hand(iou_thresholds=[1.0]).results(localization=True)
    with pytest.raises(ValueError, match=r"^`iou_threshold` must be below 1 for errors of localization; got 1.0."):
        results.localization_errors()
    with pytest.raises(ValueError, match=r"^`area` must be one of 'all', 'small', 'medium', 'large'; got 'tiny'."):
        results.localization_errors(area="tiny")
