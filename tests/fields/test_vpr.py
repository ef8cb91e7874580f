"""Visual place recognition: positives within 25 m, recall of five code bases, and the positives of two data sets."""

from typing import Any

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate, find_relevance
from tests.fields.comparisons import assert_equal
from tests.golden.field_cases import FieldCase, load_field

CUTOFFS = (1, 5, 10, 20)
HIT_RATES = [f"hit_rate_{k}" for k in CUTOFFS]
EUCLIDEAN = {"similarity": "euclidean", "ties": "stable"}
SIDES = ("query", "gallery")


def evaluated(case: FieldCase, **options: Any) -> RetrievalResults:
    positions = {f"{side}_positions": case.inputs[f"{side}_positions"] for side in SIDES}
    return evaluate(case.inputs["query"], case.inputs["gallery"], **positions, **EUCLIDEAN, **options)


def computed(case: FieldCase, protocol: str) -> list[float]:
    """Hit rates of the metrics, in float64."""
    metrics = ReIDMetrics(protocol=protocol, **EUCLIDEAN).set_dtype(torch.float64)
    for side in SIDES:
        metrics.update(case.inputs[side], positions=case.inputs[f"{side}_positions"], is_query=side == "query")
    found = metrics.compute()
    return [float(found[name]) for name in HIT_RATES]


def msls(case: FieldCase) -> dict[tuple[str, str], list[float]]:
    """Recall and mean average precision at all cutoffs."""
    at_cutoffs = [evaluated(case, protocol="msls", k=k).means for k in CUTOFFS]
    recall, precision = [at_cutoffs[0][name] for name in HIT_RATES], [means["map"] for means in at_cutoffs]
    return {("msls", "recall"): recall, ("msls", "map"): precision}


def tokyo(case: FieldCase) -> list[float]:
    """Recall of the best image of each place; 0 where there is no positive at all, which is NaN here."""
    results = evaluated(case, gallery_groups=case.inputs["gallery_places"], protocol="tokyo247")
    return [results[name] if results.counts.valid else 0.0 for name in HIT_RATES[:3]]


@pytest.mark.filterwarnings("ignore:No query can be evaluated")
@pytest.mark.parametrize("case", load_field("vpr"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    results = evaluated(case, protocol="pitts30k")
    rates = np.array([results[name] for name in HIT_RATES])
    np.testing.assert_allclose(computed(case, "pitts30k"), rates, rtol=0, atol=1e-12)
    positives = positives_of(case)
    found = {
        ("vme_positives", "len"): [len(each) for each in positives],
        ("vme_positives", "flat"): np.concatenate(positives),
        ("vme", "recalls"): 100 * rates,
        ("vme", "predictions"): as_faiss(results.nearest(20).index.numpy(), 20),
        ("dvg", "recalls"): 100 * rates,
        ("gsv", "recalls"): rates,
        ("openibl", "recalls"): rates[:3],
        ("openibl_nms", "recalls"): tokyo(case),
    }
    assert_equal(case, found | msls(case), {})


@pytest.mark.filterwarnings("ignore:No query can be evaluated")
@pytest.mark.parametrize("case", load_field("vpr_real"), ids=lambda case: case.name)
def test_the_positives_of_a_data_set_are_those_that_patch_netvlad_finds(case):
    positives = positives_of(case)
    sums = [int(each.sum()) for each in positives]
    found = {("patch_netvlad", "num_positives"): [*map(len, positives)], ("patch_netvlad", "sum_of_positions"): sums}
    assert_equal(case, found, {})


def as_faiss(index: np.ndarray, k: int) -> np.ndarray:
    """Lists of k places: -1 behind the end of a short gallery."""
    return np.pad(index, ((0, 0), (0, k - index.shape[1])), constant_values=-1)


def positives_of(case: FieldCase) -> list[np.ndarray]:
    """The gallery items within the radius, of every query."""
    positions = {f"{side}_positions": case.inputs[f"{side}_positions"] for side in SIDES}
    found = find_relevance(**positions, radius=float(case.options["radius"]))
    parts = zip(found.run_start.tolist(), found.run_length.tolist(), strict=True)
    order = found.order.numpy()
    return [order[start : start + length] for start, length in parts]
