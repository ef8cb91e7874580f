"""Samples of a metric take the road of one call: in any order, with lists and camera pairs; why none counts."""

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts
from tests.closeness import assert_close
from tests.functional.retrieval.evaluation.one_call import GALLERY, LABELS, QUERY


def fed(*, shuffled=False, gallery=GALLERY, **options):
    """A metric with all samples, numbered from 100, in batches of any order."""
    rows = torch.cat([QUERY, gallery])
    identities, cameras = (torch.cat(sides) for sides in (LABELS[:2], LABELS[2:]))
    index, is_query = torch.arange(100, 200), torch.arange(100) < 20
    metric = ReIDMetrics(**options)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(2)) if shuffled else torch.arange(100)
    for batch in order.split(33):
        metric.update(rows[batch], identities[batch], cameras[batch], is_query=is_query[batch], index=index[batch])
    return metric


@pytest.mark.parametrize("protocol", ["market1501", "cuhk03_openreid"])
def test_samples_in_any_order_have_the_results_lists_and_camera_pairs_of_one_call(protocol):
    # Equal scores: the place in the gallery decides, which is that of `index`.
    gallery = GALLERY.round()
    expected = evaluate(QUERY, gallery, *LABELS, protocol=protocol, ties="stable")
    pairs = protocol == "market1501"
    found = fed(shuffled=True, gallery=gallery, protocol=protocol, ties="stable").results(nearest=5, camera_pairs=pairs)
    assert found.means == pytest.approx(expected.means, abs=1e-12)
    assert found.query_index.tolist() == [*range(100, 120)]
    lists, listed = found.nearest(5), expected.nearest(5)
    assert torch.equal(lists.index, listed.index.where(listed.index < 0, listed.index + 120))
    assert torch.equal(lists.is_positive, listed.is_positive)
    if pairs:
        of_pairs, one = found.by_camera_pair("rank_1"), expected.by_camera_pair("rank_1")
        assert torch.equal(of_pairs.num_valid, one.num_valid)
        assert_close(of_pairs.mean, one.mean, rtol=1e-12, equal_nan=True)


@pytest.mark.needs("diagnosis")
def test_samples_that_cannot_be_ranked_have_queries_without_a_number_and_no_lists():
    metric = fed(gallery=GALLERY / 0)
    with pytest.warns(UserWarning, match="embeddings are NaN or infinite"):
        found = metric.results()
    assert found.counts == QueryCounts(20, valid=0, junk=0, not_in_gallery=0, same_camera_only=0, not_ranked=20)
    assert found.query_index.tolist() == [*range(100, 120)]
    assert torch.equal(found.query_identities, LABELS[0])
    assert found.num_positives.tolist() == found.num_candidates.tolist() == [0] * 20
    with pytest.raises(
        ValueError, match=r"^`embeddings` must be finite; got some that are not\. .* embeddings are NaN"
    ):
        metric.nearest(3)
