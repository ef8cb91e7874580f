"""Person search: the recorded numbers of SeqNet's evaluator."""

import numpy as np
import pytest

from reid_torchmetrics.tasks import person_search
from tests.fields.comparisons import assert_equal, compared
from tests.golden.field_cases import load_field

LEFT_OUT = {
    ("detection", "*"): "numbers of a detector, not of a search",
    ("cuhk_full", "*/top_1_5_10"): "each right box ties with its own copy, and numpy's order of the two is not stable",
}


def scene_of(case):
    """A recorded problem as arguments; detections below 0.5 are left out as there."""
    given = case.inputs
    images, true_images = (
        np.repeat(np.arange(len(given[name])), given[name]) for name in ("detections_len", "boxes_len")
    )
    detections = given["detections_flat"]
    kept = detections[:, 4] >= 0.5
    scene = {
        "images": images[kept],
        "query_images": given["query_image"],
        "query_identities": given["query_ids"],
        "true_boxes": given["boxes_flat"],
        "true_images": true_images,
        "true_identities": given["box_ids_flat"][:, 0].astype(int),
    }
    boxes = given["query_features"], given["features_flat"][kept], detections[kept, :4]
    return {"detections": boxes, "scene": scene, "galleries": case.lists("galleries")}


def search(case, **options):
    """The numbers of a recorded problem."""
    given = scene_of(case)
    results = person_search(*given["detections"], **given["scene"], **options)
    return {"map": results["map"], "top_1_5_10": [results[f"rank_{k}"] for k in (1, 5, 10)]}


CALLS = {
    "cuhk": lambda case: search(case, galleries=case.lists("galleries")),
    "cuhk_full": lambda case: search(case, galleries=case.lists("galleries"), listed_twice=True),
    "prw": lambda case: search(case, protocol="prw"),
    "prw_cross_camera": lambda case: search(
        case,
        protocol="prw",
        same_camera="all",
        query_cameras=case.inputs["image_cameras"][case.inputs["query_image"]],
        image_cameras=case.inputs["image_cameras"],
    ),
}


@pytest.mark.parametrize("case", load_field("person_search"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    evaluators = {evaluator for evaluator, _ in compared(case, LEFT_OUT)}
    found = {(evaluator, name): value for evaluator in evaluators for name, value in CALLS[evaluator](case).items()}
    assert_equal(case, found, LEFT_OUT)
