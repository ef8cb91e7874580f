"""The full Market-1501 gallery, its own labels and made embeddings, against the slow reference.

The labels come from the benchmark (`tests/golden/README.md`); the embeddings are drawn: a center for each identity, an
offset for each camera, and noise.
"""

from functools import cache
from itertools import chain

import numpy as np
import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import (
    average_precision,
    cmc_curve,
    inverse_negative_penalty,
    mean_over_queries,
    rank_positives,
)
from tests.golden.cases import FOLDER
from tests.reference.retrieval import Evaluation, evaluate, similarity
from tests.strategies import TIES

DIMENSION = 32
NUM_QUERIES = 40  # every 84th of the 3,368: the reference sorts 19,732 items for each


@cache
def labels() -> list[Tensor]:
    """Identities of queries and gallery, cameras of queries and gallery."""
    with np.load(FOLDER / "market1501_labels.npz") as stored:
        names = ("query_identities", "gallery_identities", "query_cameras", "gallery_cameras")
        whole = {name: torch.from_numpy(stored[name].astype(np.int64)) for name in names}
    step = len(whole["query_identities"]) // NUM_QUERIES
    return [whole[name][: step * NUM_QUERIES : step] if "query" in name else whole[name] for name in names]


@cache
def embeddings() -> list[Tensor]:
    """Embeddings of queries and gallery, float32."""
    generator = torch.Generator().manual_seed(1501)
    query_identities, gallery_identities, query_cameras, gallery_cameras = labels()
    centers = torch.randn(1502, DIMENSION, generator=generator)
    offsets = 0.3 * torch.randn(7, DIMENSION, generator=generator)
    return [
        centers[identities] + offsets[cameras] + 0.9 * torch.randn(len(identities), DIMENSION, generator=generator)
        for identities, cameras in [(query_identities, query_cameras), (gallery_identities, gallery_cameras)]
    ]


@cache
def small_integers() -> list[Tensor]:
    """Embeddings on a coarse grid: their dot products are exact in float32, and many are equal."""
    return [rows.round().clamp(-3, 3) for rows in embeddings()]


@cache
def reference(name: str, ties: str = "pessimistic") -> Evaluation:
    """The dot products are those of `small_integers`."""
    rows = small_integers() if name == "dot" else embeddings()
    return evaluate(similarity(*rows, name), *labels(), ties=ties)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.slow
def test_ranks_of_exact_scores_are_those_of_the_slow_reference(ties: str) -> None:
    ranks = rank_positives(*small_integers(), *labels(), similarity="dot", ties=ties)
    expected = reference("dot", ties)
    assert ranks.rank.tolist() == list(chain.from_iterable(expected.ranks))
    assert ranks.num_positives.tolist() == [len(of_query) for of_query in expected.ranks]
    assert ranks.num_candidates.tolist() == expected.num_candidates


def test_the_tie_policies_differ_on_these_scores() -> None:
    total = {
        ties: int(rank_positives(*small_integers(), *labels(), similarity="dot", ties=ties).rank.sum())
        for ties in ("pessimistic", "stable", "optimistic")
    }
    assert total["pessimistic"] > total["stable"] > total["optimistic"]


@pytest.mark.parametrize("name", ["cosine", "euclidean"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.slow
def test_measures_of_real_scores_are_those_of_the_slow_reference(
    name: str, dtype: torch.dtype, tolerance: float
) -> None:
    # Scores in float32 may put two of the 15,913 candidates that nearly tie the other way round: 2e-6 of the mean.
    query, gallery = embeddings()
    ranks = rank_positives(query.to(dtype), gallery.to(dtype), *labels(), similarity=name)
    expected = reference(name)
    for rule, values in expected.average_precision.items():
        found = float(mean_over_queries(average_precision(ranks, rule=rule)))
        assert found == pytest.approx(np.mean(values), abs=tolerance)
    penalty = mean_over_queries(inverse_negative_penalty(ranks))
    assert float(penalty) == pytest.approx(np.mean(expected.inverse_negative_penalty), abs=tolerance)
    assert cmc_curve(ranks, max_rank=50).tolist() == pytest.approx(expected.cmc(50), abs=1e-12)


def test_cosine_is_the_default() -> None:
    default = rank_positives(*embeddings(), *labels())
    assert torch.equal(default.rank, rank_positives(*embeddings(), *labels(), similarity="cosine").rank)


def test_the_labels_are_those_of_the_benchmark() -> None:
    query_identities, gallery_identities, _, gallery_cameras = labels()
    assert len(gallery_identities) == 19732
    assert int((gallery_identities == -1).sum()) == 3819
    assert int((gallery_identities == 0).sum()) == 2798
    assert set(gallery_cameras.tolist()) == {1, 2, 3, 4, 5, 6}
    assert set(query_identities.tolist()) <= set(gallery_identities.tolist())
