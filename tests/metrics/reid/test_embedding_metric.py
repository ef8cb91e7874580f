"""Roles, repeated samples, undefined results and what `results` says of every query."""

import math
import warnings
from functools import partial

import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics import CMC, MINP, MeanAP, ReIDCMC, ReIDMeanAP, ReIDMeasure, ReIDMetrics, ReIDMINP
from reid_torchmetrics.functional import retrieval
from tests.metrics.reid.samples import CLASSES, batches, expected, fed, reference_of
from tests.reference.retrieval import evaluate, similarity

DRAW = retrieval.GalleryDraw(1, "identity")
ALL = [*CLASSES.values(), ReIDMetrics, partial(ReIDMeasure, "mrr"), partial(ReIDCMC, gallery_draw=DRAW)]


def test_the_short_names_are_the_classes():
    assert (CMC, MeanAP, MINP) == (ReIDCMC, ReIDMeanAP, ReIDMINP)
    assert all(getattr(reid_torchmetrics, name).__name__ for name in reid_torchmetrics.__all__)


def test_without_roles_every_sample_is_a_query_against_all_others():
    embeddings, identities = torch.randn(30, 4), torch.arange(30) % 7
    metric = ReIDMeanAP()
    for part in torch.arange(30).split(8):
        metric.update(embeddings[part], identities[part])
    scores = similarity(embeddings.numpy(), embeddings.numpy())
    reference = evaluate(scores, identities.tolist(), identities.tolist(), self_index=list(range(30)))
    assert metric.compute() == pytest.approx(expected("map", reference)[0], abs=1e-6)
    assert metric.results().num_candidates.tolist() == [29] * 30


@pytest.mark.parametrize("roles", ["loaders", "leave-one-out"])
def test_samples_that_a_sampler_repeated_count_once(roles):
    given = batches(size=5)
    first = {True: 0, False: 0}
    for batch in given:
        length, role = len(batch["identities"]), batch["is_query"]
        batch["index"] = torch.arange(first[role], first[role] + length)  # both loaders count from zero
        first[role] += length
        if roles == "leave-one-out":
            batch["index"] += 1000 * role
            batch["is_query"] = None
    once, twice = fed(ReIDMetrics(), given), fed(ReIDMetrics(), given[:3] + given + given[-1:])
    assert once.compute() == twice.compute()
    assert twice.results().num_candidates.tolist() == once.results().num_candidates.tolist()


@pytest.mark.filterwarnings("ignore:Some batches were given with `is_query`")
def test_a_sample_of_both_roles_that_comes_again_as_a_query_counts_once():
    embeddings, identities, numbers = torch.randn(6, 4), torch.arange(6) % 2, torch.arange(6)
    once, twice = ReIDMeanAP(), ReIDMeanAP()
    for metric in (once, twice):
        metric.update(embeddings, identities, index=numbers)
    twice.update(embeddings[:2], identities[:2], is_query=True, index=numbers[:2])
    assert twice.compute() == once.compute()
    assert twice.results().counts.total == 6


def problem_of(metric, mean=-1) -> str:
    """The one warning of a metric whose value, or each of whose values, is `mean`, -1 for NaN."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = metric.compute()
    values = values.values() if isinstance(values, dict) else [values]
    assert all(torch.equal(value.nan_to_num(nan=-1), torch.full_like(value, mean)) for value in values)
    (warning,) = caught
    return str(warning.message)


@pytest.mark.needs("diagnosis")
def test_no_valid_query_is_explained_once_with_counts():
    metrics = ReIDMetrics()
    one = torch.ones(1, 2)
    for identity, camera in ((1, 0), (1, 0), (2, 0), (-1, 0)):
        metrics.update(one, torch.tensor([identity]), torch.tensor([camera]), is_query=True)
    metrics.update(one, torch.tensor([1]), torch.tensor([0]), is_query=False)
    assert problem_of(metrics) == (
        "No query can be evaluated, so the result is NaN, or what `empty_target_action` counts: of 4 queries against 1"
        " gallery item, 1 have no other item of their identity in the gallery that is searched, 2 lost every positive"
        " to rules of cameras, sequences, clothes or other labels, 1 are junk."
    )
    counts = metrics.results().counts
    assert (counts.total, counts.valid, counts.junk) == (4, 0, 1)
    assert (counts.not_in_gallery, counts.same_camera_only) == (1, 2)


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize("metric", ALL)
def test_queries_without_a_gallery_count_as_the_user_says_and_no_queries_nothing(metric):
    for action, mean in {"skip": -1, "neg": 0, "pos": 1, "error": -1}.items():
        assert "No query" in problem_of(fed(metric(empty_target_action=action), batches()[:1]), mean)
        assert "No query" in problem_of(fed(metric(empty_target_action=action), batches()[-1:]))


@pytest.mark.needs("diagnosis")
def test_non_finite_embeddings_give_nan_and_say_how_many_and_where():
    given = batches()
    given[0]["embeddings"][3, 0] = float("nan")
    given[-1]["embeddings"][0, :] = float("inf")
    total = sum(len(batch["identities"]) for batch in given)
    last = total - len(given[-1]["identities"])
    for action in ("neg", "pos"):
        assert "are NaN or infinite" in problem_of(fed(ReIDMetrics(empty_target_action=action), given))
    given = [{name: each.clone() if name == "embeddings" else each for name, each in batch.items()} for batch in given]
    assert problem_of(fed(ReIDMetrics(), given)) == (
        f"2 of {total} embeddings are NaN or infinite (1 of queries, 1 of gallery items; first at samples [3, {last}]),"
        " so the result is NaN."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said above, of the same samples
        results = fed(ReIDMeanAP(), given).results()
    assert results.average_precision.isnan().all()
    others = dict.fromkeys(("valid", "junk", "not_in_gallery", "same_camera_only"), 0)
    assert vars(results.counts) == {"total": 12, "not_ranked": 12} | others


@pytest.mark.needs("diagnosis")
def test_non_finite_embeddings_are_named_by_their_index_where_it_is_known():
    embeddings = torch.ones(3, 2)
    embeddings[1] = float("nan")
    metric = ReIDMeanAP()
    metric.update(embeddings, torch.tensor([1, 1, 1]), index=torch.tensor([70, 71, 72]))
    assert "first at `index` [71])" in problem_of(metric)


def test_a_collapsed_model_finds_its_positives_last():
    metric = ReIDMetrics(ranks=(1, 100), ties="pessimistic")
    identities = torch.arange(2000) // 4
    metric.update(torch.ones(2000, 32), identities)
    # Each query has 1,999 candidates, and the last three are its positives.
    values = {name: float(value) for name, value in metric.compute().items()}
    of_positives = (1 / 1997 + 2 / 1998 + 3 / 1999) / 3
    assert values == pytest.approx({"map": of_positives, "minp": 3 / 1999, "rank_1": 0, "rank_100": 0}, rel=1e-6)


def test_queries_without_positives_count_as_the_user_says():
    given = batches()
    given[0]["identities"][:3] = 99
    skipped = fed(ReIDMeanAP(), given).compute()
    assert fed(ReIDMeanAP(empty_target_action="neg"), given).compute() == pytest.approx(skipped * 9 / 12)
    with pytest.raises(ValueError, match="allows no query without a positive; got 3 of 12"):
        fed(ReIDMeanAP(empty_target_action="error"), given).compute()


def values_in_all_ways(given, **options):
    """Of one problem, the mean average precision of `compute`, of `results` and of `evaluate`."""
    metric = fed(ReIDMeanAP(**options), given)
    sides = [[batch for batch in given if batch["is_query"] is role] for role in (True, False)]
    names = ("embeddings", "identities", "cameras")
    arguments = [torch.cat([batch[name] for batch in side]) for name in names for side in sides]
    yield lambda: float(metric.compute())
    yield lambda: metric.results().means["map"]
    yield lambda: retrieval.evaluate(*arguments, **options).means["map"]


@pytest.mark.filterwarnings("ignore:No query can be evaluated")
@pytest.mark.parametrize(("action", "mean"), [("skip", math.nan), ("neg", 0), ("pos", 1), ("error", math.nan)])
@pytest.mark.parametrize("draw", [{}, {"gallery_draw": DRAW}])
def test_the_mean_of_queries_without_positives_is_the_value_of_the_action_in_every_way_to_compute_it(
    action, mean, draw
):
    given = batches()
    for batch in given:
        if batch["is_query"]:
            batch["identities"][:] = 99
    for value in values_in_all_ways(given, empty_target_action=action, **draw):
        assert value() == pytest.approx(mean, nan_ok=True)


def test_results_are_aligned_with_the_queries():
    given = batches()
    given[0]["identities"][2] = 99
    reference = reference_of(given)
    for rule in ("rectangle", "trapezoid"):
        results = fed(ReIDMeanAP(rule=rule), given).results()
        assert results.average_precision.tolist() == pytest.approx(
            reference.average_precision[rule], abs=1e-12, nan_ok=True
        )
    assert results.inverse_negative_penalty.tolist() == pytest.approx(
        reference.inverse_negative_penalty, abs=1e-12, nan_ok=True
    )
    assert results.first_rank.tolist() == pytest.approx(reference.first_rank, nan_ok=True)
    assert results.num_candidates.tolist() == reference.num_candidates
    assert (results.counts.total, results.counts.valid, results.counts.not_in_gallery) == (12, 11, 1)


def test_labels_may_be_written_to_after_update():
    given = batches()
    for number, batch in enumerate(given):
        batch["index"] = torch.arange(len(batch["identities"])) + 100 * number
        batch["is_query"] = torch.full_like(batch["identities"], batch["is_query"], dtype=torch.bool)
    value = fed(ReIDMeanAP(), given).compute()
    metric, buffers = ReIDMeanAP(), {}
    for batch in given:  # a loop that fills the same buffers for every batch
        size = len(batch["identities"])
        for name in ("identities", "cameras", "index", "is_query"):
            buffers.setdefault((name, size), torch.empty_like(batch[name])).copy_(batch[name])
        labels = {name: buffers[name, size] for name in ("identities", "cameras", "index", "is_query")}
        metric.update(batch["embeddings"], **labels)
    assert metric.compute() == value
