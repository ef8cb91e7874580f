"""What the results of one call say of themselves, and what they compute when asked."""

import json

import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    Protocol,
    average_precision,
    evaluate,
    mean_over_queries,
    rank_positives,
)
from tests.functional.retrieval.evaluation.one_call import (
    GALLERY,
    GALLERY_CAM,
    GALLERY_ID,
    LABELS,
    QUERY,
    QUERY_CAM,
    QUERY_ID,
    SCORES,
    mean,
)


def test_results_say_how_each_number_came_about_and_are_json_safe():
    nobody = evaluate(QUERY[:2], GALLERY, torch.tensor([50, 51]), GALLERY_ID)
    found = json.loads(json.dumps(nobody.to_dict(), allow_nan=False))
    assert found["measures"]["map"]["value"] is None
    assert found["counts"]["not_in_gallery"] == 2
    assert found["setup"]["similarity"] == "cosine"
    results = evaluate(QUERY, GALLERY, *LABELS)
    assert results.to_dict()["measures"]["rank_1"]["value"] == results.means["rank_1"]
    assert all(name in repr(results) and words in repr(results) for name, words in results.conventions.items())


def test_results_break_down_by_identity_and_by_camera():
    results = evaluate(QUERY, GALLERY, *LABELS)
    precision = results.values["map"].tolist()
    by_identity = [
        mean([value for value, identity in zip(precision, QUERY_ID, strict=True) if identity == one])
        for one in range(8)
    ]
    assert results.mean_over_identities()["map"] == pytest.approx(mean(by_identity))
    table = results.by_camera("map")
    for camera, found in zip(table.labels[:, 0], table.mean, strict=True):
        own = [value for value, label in zip(precision, QUERY_CAM, strict=True) if label == camera]
        assert float(found) == pytest.approx(mean(own))


def test_the_cmc_between_pairs_of_cameras_follows_its_own_camera_rule():
    protocol = Protocol("own", "me", same_camera="same_identity", cmc_same_camera="keep")
    expected = evaluate(QUERY, GALLERY, *LABELS, same_camera="keep").by_camera_pair("rank_1")
    found = evaluate(QUERY, GALLERY, *LABELS, protocol=protocol).by_camera_pair("rank_1")
    assert torch.equal(found.num_valid, expected.num_valid)
    torch.testing.assert_close(found.mean, expected.mean, equal_nan=True)


def test_results_between_pairs_of_cameras_are_those_of_each_pair_alone():
    table = evaluate(QUERY, GALLERY, *LABELS).by_camera_pair("map")
    assert table.mean.shape == (3, 3)
    for row, query_camera in enumerate(table.query_cameras):
        for column, gallery_camera in enumerate(table.gallery_cameras):
            rows, columns = query_camera == QUERY_CAM, gallery_camera == GALLERY_CAM
            ranks = rank_positives(
                QUERY[rows],
                GALLERY[columns],
                QUERY_ID[rows],
                GALLERY_ID[columns],
                QUERY_CAM[rows],
                GALLERY_CAM[columns],
            )
            expected = mean_over_queries(average_precision(ranks))
            assert float(table.mean[row, column]) == pytest.approx(float(expected), nan_ok=True)
            assert int(table.num_valid[row, column]) == int((ranks.num_positives > 0).sum())


def test_results_give_the_nearest_gallery_items():
    found = evaluate(QUERY, GALLERY, *LABELS, same_camera="keep", junk_identities=()).nearest(3)
    assert found.index.tolist() == SCORES.argsort(dim=1, descending=True)[:, :3].tolist()
    assert (found.is_positive == (GALLERY_ID[found.index] == QUERY_ID[:, None])).all()


def test_results_have_a_confidence_interval_around_the_mean():
    results = evaluate(QUERY, GALLERY, *LABELS)
    for per_identity in (False, True):
        interval = results.interval("map", generator=torch.Generator().manual_seed(0), per_identity=per_identity)
        assert float(interval.low) < results.means["map"] < float(interval.high)
