"""Re-ranking and query expansion against recorded outputs of other implementations, see `tests/golden/README.md`."""

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.tasks.reranking.k_reciprocal import rerank_k_reciprocal
from reid_torchmetrics.tasks.reranking.query_expansion import QueryExpansion
from tests.golden.cases import RECORDINGS, Record
from tests.golden.peers import assert_equal

RECORDING = RECORDINGS["reranking"]
RECORDS = RECORDING.records

# Every recorded array of the theme is in exactly one of these two groups; a test below counts them.
DISTANCES = [key for key, record in RECORDS.items() if "_rerank/dist_" in record.output]
EXPANDED = [f"g01_rerank/fastreid_aqe/{side}_feats" for side in ("query", "gallery")]


def embeddings() -> tuple[Tensor, Tensor]:
    """Embeddings of queries and gallery, of norm 1."""
    inputs = RECORDING.inputs["g01_rerank"]
    query, gallery = torch.from_numpy(inputs["features"]).tensor_split([int(inputs["num_query"])])
    return query, gallery


def reranked(record: Record) -> Tensor:
    options = record.about["options"]
    # Both give squares to a function that squares: layumi's function, and the engine that calls torchreid's.
    is_fourth_power = "layumi" in record.output or "squared_input" in record.output
    scores = rerank_k_reciprocal(
        *embeddings(),
        k1=options.get("k1", 20),
        k2=options.get("k2", 6),
        weight=options.get("lambda_value", 0.3),
        distance="quartic_euclidean" if is_fourth_power else "squared_euclidean",
        normalize="layumi" in record.output,
    )
    return scores.distances()


def test_every_recorded_array_is_asserted_once() -> None:
    assert sorted([*DISTANCES, *EXPANDED]) == sorted(RECORDS)
    assert (len(DISTANCES), len(EXPANDED)) == (7, 2)


@pytest.mark.parametrize("key", DISTANCES)
def test_equals_the_recorded_distances(key: str) -> None:
    assert_equal(reranked(RECORDS[key]), RECORDS[key])


@pytest.mark.parametrize(("side", "key"), list(enumerate(EXPANDED)))
def test_equals_the_recorded_expanded_embeddings(side: int, key: str) -> None:
    options = RECORDS[key].about["options"]
    assert options["qe_times"] == 1
    # The evaluator counts the item itself among the neighbours.
    expansion = QueryExpansion(k=options["qe_k"] - 1, alpha=options["alpha"], expanded="together")
    assert_equal(expansion.expand(*embeddings())[side], RECORDS[key])
