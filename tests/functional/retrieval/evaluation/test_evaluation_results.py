"""What the results of one call say of themselves, and what they compute when asked."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    CameraPairs,
    Protocol,
    RetrievalResults,
    average_precision,
    evaluate,
    evaluate_scores,
    mean_over_queries,
    rank_positives,
)
from reid_torchmetrics.tasks import find_duplicates
from reid_torchmetrics.tasks.comparison import bootstrap_interval
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


def test_results_break_down_by_identity_and_by_camera():
    results = evaluate(QUERY, GALLERY, *LABELS)
    precision = results.per_query["map"].tolist()
    by_identity = [
        mean([value for value, identity in zip(precision, QUERY_ID, strict=True) if identity == one])
        for one in range(8)
    ]
    assert results.mean_over_identities()["map"] == pytest.approx(mean(by_identity))
    table = results.by_camera("map")
    assert torch.equal(results.by_camera().mean, table.mean)  # the first number by default
    for camera, found in zip(table.labels[:, 0], table.mean, strict=True):
        own = [value for value, label in zip(precision, QUERY_CAM, strict=True) if label == camera]
        assert float(found) == pytest.approx(mean(own))


@pytest.mark.parametrize("action", ["skip", "neg"])
def test_numbers_without_some_queries_are_those_of_the_others(action):
    reports = ("map", "rank_1", "median_rank")
    of_all = evaluate(QUERY, GALLERY, *LABELS, reports=reports, empty_target_action=action)
    kept = torch.arange(len(QUERY)) % 3 > 0
    left_out = (~kept).nonzero()[:, 0]
    labels = (QUERY_ID[kept], GALLERY_ID, QUERY_CAM[kept], GALLERY_CAM)
    others = evaluate(QUERY[kept], GALLERY, *labels, reports=reports, empty_target_action=action)
    assert of_all.means_without(left_out) == of_all.means_without([*left_out.tolist(), 0]) == dict(others)
    assert of_all.means_without(left_out[:0]) == dict(of_all)
    copies = find_duplicates(torch.cat([QUERY[~kept], torch.eye(QUERY.shape[1])]), QUERY, threshold=0.999)
    assert of_all.means_without(copies.gallery) == dict(others)
    nothing = of_all.means_without(torch.arange(len(QUERY)))
    assert all(torch.tensor(value).isnan() for value in nothing.values())


def test_queries_that_are_left_out_take_their_weights_with_them():
    identities, scores = torch.tensor([1, 1, 2, 2, 2]), torch.rand(5, 5, generator=torch.Generator().manual_seed(0))
    options = {"protocol": "vehicleid", "self_index": torch.arange(5)}
    results = evaluate_scores(scores, identities, identities, **options)
    kept = torch.tensor([0, 2, 4])
    values, weight = results.per_query["rank_1"][kept], results.weight[kept]
    assert len(weight.unique()) > 1
    assert results.means_without([1, 3])["rank_1"] == pytest.approx(float((values * weight).sum() / weight.sum()))


@pytest.mark.parametrize("action", ["skip", "neg", "pos"])
def test_an_identity_whose_only_image_is_always_in_the_gallery_has_no_queries_to_average(action):
    identities = torch.tensor([1, 1, 2, 2, 3])
    scores = 0.5 * (identities == identities[:, None]).double() + (identities == 3)  # first 3, then the own identity
    options = {"protocol": "vehicleid", "self_index": torch.arange(5), "empty_target_action": action}
    results = evaluate_scores(scores, identities, identities, **options)
    assert results.mean_over_identities()["map"] == pytest.approx(1 / 2)


def ranked_at(*ranks: int) -> RetrievalResults:
    """Queries with one right answer each, at a rank; at a rank beyond five there is none."""
    scores = torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0]]).expand(len(ranks), -1)
    protocol = Protocol("own", "me", same_camera="keep", reports=("map", "rank_1", "mean_rank"))
    return evaluate_scores(scores, torch.tensor(ranks), torch.arange(1, 6), protocol=protocol)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("map", [4, 2, 0, 5, 1]),  # 1/5, 1/3, 1/2, 1/2, 1
        ("minp", [4, 2, 0, 5, 1]),
        ("rank_1", [4, 2, 0, 5, 1]),  # 0, 0, 0, 0, 1: of equal values the one with the later answer is first
        ("mean_rank", [4, 2, 0, 5, 1]),  # 5, 3, 2, 2, 1: of ranks the highest are the hardest
    ],
)
def test_the_hardest_queries_are_those_with_the_worst_values(by, expected):
    results = ranked_at(2, 1, 3, 9, 5, 2)
    assert results.hardest(9, by=by).tolist() == expected
    assert results.hardest(2, by=by).tolist() == expected[:2]


def test_the_hardest_queries_are_by_the_number_that_is_asked_for():
    identities = torch.tensor([1, 1, 2, 2, 3, 3, 3, 3])
    first = [8.0, 1, 7, 2, 6, 5, 4, 3]  # 1 at ranks 1 and 8: AP (1/1 + 2/8) / 2 = 5/8, INP 2/8
    second = [6.0, 5, 8, 7, 4, 3, 2, 1]  # 1 at ranks 3 and 4: AP (1/3 + 2/4) / 2 = 5/12, INP 2/4
    results = evaluate_scores(torch.tensor([second, first]), torch.tensor([1, 1]), identities, same_camera="keep")
    assert results.hardest(2).tolist() == [0, 1]
    assert results.hardest(2, by="minp").tolist() == [1, 0]
    assert results.hardest(2, by="rank_1").tolist() == [0, 1]


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


def test_the_mean_without_the_diagonal_leaves_out_the_pairs_of_one_camera_and_of_no_query():
    nan = float("nan")
    mean = torch.tensor([[0.1, 0.5, 0.7], [0.4, 0.2, nan], [nan, nan, 0.9]], dtype=torch.float64)
    # Camera 9 is no query's, and camera 3 no gallery item's.
    pairs = CameraPairs(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 9]), mean, torch.zeros(3, 3, dtype=torch.int64))
    assert float(pairs.mean_without_diagonal) == pytest.approx(((0.5 + 0.7) / 2 + 0.4 + 0.9) / 3)


def test_a_median_is_over_the_queries_with_a_positive_and_has_no_mean_of_a_group():
    identities = torch.tensor([1, 2, 2, 2, 3, 4])
    scores = torch.tensor([[6.0, 5, 4, 3, 2, 1]]).repeat(5, 1)
    reports = ("median_rank", "median_rank_lower", "median_rank_floor", "rank_1")
    labels = torch.tensor([1, 2, 3, 4, 7]), identities, torch.arange(5) % 2, torch.full((6,), 5)
    results = evaluate_scores(scores, *labels, reports=reports, empty_target_action="neg")
    assert results["median_rank"] == 3.5  # of 1, 2, 5 and 6
    assert (results["median_rank_lower"], results["median_rank_floor"]) == (2, 3)
    assert results["rank_1"] == 1 / 5
    assert results.conventions["median_rank"].endswith("without a positive: skip")
    assert results.conventions["rank_1"].endswith("without a positive: neg")
    assert [*results.averaged] == [*results.mean_over_identities()] == ["rank_1"]
    assert results.hardest(1, by="median_rank").tolist() == [3]
    asked = [results.by_camera, results.by_identity, results.by_camera_pair]
    asked.append(lambda name: results.interval(name, generator=torch.Generator()))
    for ask in asked:
        with pytest.raises(ValueError, match="`name` must be one of 'rank_1'; got 'median_rank'"):
            ask("median_rank")


def test_results_give_the_nearest_gallery_items():
    found = evaluate(QUERY, GALLERY, *LABELS, same_camera="keep", junk_identities=()).nearest(3)
    assert found.index.tolist() == SCORES.argsort(dim=1, descending=True)[:, :3].tolist()
    assert (found.is_positive == (GALLERY_ID[found.index] == QUERY_ID[:, None])).all()
    assert torch.equal(found.identities, GALLERY_ID[found.index])
    assert torch.equal(found.cameras, GALLERY_CAM[found.index])
    assert torch.equal(found.query_identities, QUERY_ID)
    assert torch.equal(found.query_cameras, QUERY_CAM)


def test_without_a_generator_an_interval_is_drawn_with_the_seed_0():
    results = evaluate(QUERY, GALLERY, *LABELS)
    for per_identity in (False, True):
        drawn = results.interval("map", generator=torch.Generator().manual_seed(0), per_identity=per_identity)
        for _ in range(2):
            found = results.interval("map", per_identity=per_identity)
            assert (found.low, found.high) == (drawn.low, drawn.high)
    values = results.average_precision
    found, drawn = (bootstrap_interval(values, generator=each) for each in (None, torch.Generator().manual_seed(0)))
    assert (found.low, found.high) == (drawn.low, drawn.high)
