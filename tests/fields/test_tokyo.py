"""Tokyo 24/7 as OpenIBL evaluates it: of the images of a place the best is kept, then the hit rate is taken."""

import numpy as np
import pytest

from reid_torchmetrics.functional.retrieval import Protocol, evaluate
from tests.golden.field_cases import load_field

CASES = load_field("vpr")
TOKYO = Protocol(
    "tokyo",
    "Torii et al., CVPR 2015, as OpenIBL computes it",
    radius=25.0,
    needs_groups=True,
    same_camera="keep",
    empty_target_action="neg",
    reports=("hit_rate_1", "hit_rate_5", "hit_rate_10"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_place_scores_as_its_best_image(case):
    given = case.inputs
    assert case.options_of["openibl_nms"]["recall_topk"] == [1, 5, 10]
    results = evaluate(
        given["query"],
        given["gallery"],
        query_positions=given["query_positions"],
        gallery_positions=given["gallery_positions"],
        gallery_groups=given["gallery_places"],
        protocol=TOKYO,
        similarity="euclidean",
    )
    # Without any positive nothing was measured, and our means are NaN: OpenIBL's are 0.
    means = np.nan_to_num([*results.means.values()]) if not results.counts.valid else [*results.means.values()]
    np.testing.assert_allclose(means, case.outputs["openibl_nms"]["recalls"], atol=1e-9)
