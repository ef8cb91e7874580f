"""VeRi-776 image to track: every recorded array by one call with groups."""

import numpy as np
import pytest

from reid_torchmetrics.functional.retrieval import evaluate_scores
from tests.golden.field_cases import load_field

CASES = [case for case in load_field("tracks") if "image_to_track" in case.name]
LEFT_OUT = {
    ("v11_veri_image_to_track", "map"): "NaN there, 0 / 0 of a query without a good track; 0 here, as in the CMC"
}
COMPARED = {("veri_official", name) for name in ("cmc", "map", "ap")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_track_scores_as_its_nearest_image(case):
    given = case.inputs
    results = evaluate_scores(
        -given["distances"],
        given["query_ids"],
        given["gallery_ids"],
        given["query_cameras"],
        given["gallery_cameras"],
        gallery_groups=given["gallery_tracks"],
        protocol="veri776_image_to_track",
        max_rank=len(case.outputs["veri_official"]["cmc"]),
    )
    expected = case.outputs["veri_official"]
    np.testing.assert_allclose(results.cmc, expected["cmc"], atol=1e-9)
    if (case.name, "map") not in LEFT_OUT:
        np.testing.assert_allclose(results.means["map"], expected["map"], atol=1e-9)
    np.testing.assert_allclose(results.average_precision, expected["ap"], atol=1e-9)


def test_no_recorded_array_is_left_out():
    recorded = {(name, output) for case in CASES for name, outputs in case.outputs.items() for output in outputs}
    assert len(CASES) == 7
    assert recorded == COMPARED
