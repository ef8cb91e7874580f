"""Tracks and vehicles: MARS, VeRi-776 and the AI City Challenge as their authors evaluate them."""

from typing import Any

import numpy as np
import pytest

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate_scores
from tests.fields.comparisons import assert_equal
from tests.golden.field_cases import FieldCase, load_field

LEFT_OUT = {
    ("mars_official", "ap_by_camera"): "takes the first item of a list for the query itself",
    ("mars_official", "m12_mars_ties/map"): "NaN where a query has no positive, which counts 0 here",
    ("veri_official", "v0[16]_veri/map"): "NaN where a query has no positive, which counts 0 here",
    ("veri_official", "v11_veri_image_to_track/map"): "NaN where a query has no positive, which counts 0 here",
    ("aicity_tracks", "*"): "a re-ranking: whole tracks in the order of their first images",
    ("aicity_eval_func", "*"): "drops the query's identity in other cameras where the gallery has one camera",
}
LABELS = ("query_ids", "gallery_ids", "query_cameras", "gallery_cameras")


def evaluated(case: FieldCase, protocol: str, names: tuple[str, ...] = LABELS, **options: Any) -> RetrievalResults:
    labels = (case.inputs[name] for name in names)
    return evaluate_scores(-case.inputs["distances"], *labels, protocol=protocol, ties="stable", **options)


def official(case: FieldCase) -> dict[tuple[str, str], Any]:
    protocols = {"mars_official": "mars_official", "market_official": "market1501_official"}
    protocols["veri_official"] = "veri776_official"
    found = {}
    for evaluator, outputs in case.outputs.items():
        options = {"max_rank": len(outputs["cmc"])}
        if "image_to_track" in case.name:
            options |= {"protocol": "veri776_image_to_track", "gallery_groups": case.inputs["gallery_tracks"]}
        results = evaluated(case, **{"protocol": protocols[evaluator], **options})
        values = {"cmc": results.cmc, "map": results["map"], "ap": results.per_query["map"]}
        found |= {(evaluator, name): value for name, value in values.items()}
    return found


def aicity(case: FieldCase) -> dict[tuple[str, str], Any]:
    results = evaluated(case, "aicity", LABELS[:2], k=case.options["topk"])
    printed = [round(100 * results[name], 1) for name in ("map", "rank_1", "rank_5", "rank_10")]
    num_listed = case.outputs["aicity_map100"]["first_pids"].shape[1]
    values = {"map": results["map"], "printed": printed, "first_pids": results.nearest(num_listed).identities}
    return {("aicity_map100", name): value for name, value in values.items()}


@pytest.mark.parametrize("case", load_field("tracks"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    found = aicity(case) if "aicity" in case.name else official(case)
    assert_equal(case, found, LEFT_OUT)


def test_mars_of_the_code_bases_is_another_number():
    cases = [case for case in load_field("tracks") if "mars" in case.name]
    maps = [[evaluated(case, protocol)["map"] for protocol in ("mars", "mars_official")] for case in cases]
    assert all(abs(np.subtract(*pair)) > 1e-3 for pair in maps)
