"""What the embedding metrics do beyond the contract: roles, repetitions, undefined results, one ranking, and costs."""

import contextlib
import gc
import warnings
import weakref
from unittest import mock

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import reid_torchmetrics
from reid_torchmetrics import (
    CMC,
    MINP,
    EmbeddingMetric,
    MeanAP,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMetrics,
    ReIDMINP,
)
from reid_torchmetrics.metrics import _ranking
from tests.metrics.samples import batches, expected, fed, reference_of
from tests.reference.retrieval import evaluate, similarity


@pytest.fixture
def rankings(monkeypatch):
    """Counts how often samples are ranked."""
    counter = mock.Mock(wraps=_ranking.count_ranks)
    monkeypatch.setattr(_ranking, "count_ranks", counter)
    return counter


def test_the_short_names_are_the_classes():
    assert (CMC, MeanAP, MINP) == (ReIDCMC, ReIDMeanAP, ReIDMINP)
    assert set(reid_torchmetrics.__all__) <= set(vars(reid_torchmetrics))


# roles


def test_two_loaders_and_one_mixed_loader_give_the_same():
    given = batches()
    mixed = {name: torch.cat([batch[name] for batch in given]) for name in ("embeddings", "identities", "cameras")}
    mask = torch.cat([torch.full((len(batch["identities"]),), batch["is_query"]) for batch in given])
    order = torch.randperm(len(mask))
    metric = ReIDMeanAP()
    for part in order.split(9):
        metric.update(**{name: values[part] for name, values in mixed.items()}, is_query=mask[part])
    assert metric.compute() == pytest.approx(fed(ReIDMeanAP(), given).compute())


def test_without_roles_every_sample_is_a_query_against_all_others():
    embeddings, identities = torch.randn(30, 4), torch.arange(30) % 7
    metric = ReIDMeanAP()
    for part in torch.arange(30).split(8):
        metric.update(embeddings[part], identities[part])
    scores = similarity(embeddings.numpy(), embeddings.numpy())
    reference = evaluate(scores, identities.tolist(), identities.tolist(), self_index=list(range(30)))
    assert metric.compute() == pytest.approx(expected("map", reference)[0], abs=1e-6)
    assert metric.results().num_candidates.tolist() == [29] * 30


# repeated samples


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


def test_a_sample_of_both_roles_that_comes_again_as_a_query_counts_once():
    embeddings, identities, numbers = torch.randn(6, 4), torch.arange(6) % 2, torch.arange(6)
    once, twice = ReIDMeanAP(), ReIDMeanAP()
    for metric in (once, twice):
        metric.update(embeddings, identities, index=numbers)
    twice.update(embeddings[:2], identities[:2], is_query=True, index=numbers[:2])
    assert twice.compute() == once.compute()
    assert twice.results().counts.total == 6


# undefined results


def problem_of(metric) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = metric.compute()
    values = values.values() if isinstance(values, dict) else [values]
    assert all(value.isnan().all() for value in values)
    (warning,) = caught
    return str(warning.message)


def test_no_valid_query_is_explained_once_with_counts():
    metrics = ReIDMetrics()
    one = torch.ones(1, 2)
    for identity, camera in ((1, 0), (1, 0), (2, 0), (-1, 0)):
        metrics.update(one, torch.tensor([identity]), torch.tensor([camera]), is_query=True)
    metrics.update(one, torch.tensor([1]), torch.tensor([0]), is_query=False)
    assert problem_of(metrics) == (
        "No query can be evaluated, so the result is NaN: of 4 queries against 1 gallery items, 1 have no other item"
        " of their identity in the gallery, 2 lost every positive to the camera rule, 1 are junk."
    )
    counts = metrics.results().counts
    assert (counts.total, counts.valid, counts.junk) == (4, 0, 1)
    assert (counts.not_in_gallery, counts.same_camera_only) == (1, 2)


@pytest.mark.parametrize("action", ["skip", "neg", "pos"])
def test_the_sanity_check_of_a_trainer_never_sees_a_plausible_number(action):
    assert "No query" in problem_of(fed(ReIDMeanAP(empty_target_action=action), batches()[:1]))


def test_non_finite_embeddings_give_nan_and_say_how_many_and_where():
    given = batches()
    given[0]["embeddings"][3, 0] = float("nan")
    given[-1]["embeddings"][0, :] = float("inf")
    total = sum(len(batch["identities"]) for batch in given)
    last = total - len(given[-1]["identities"])
    assert problem_of(fed(ReIDMetrics(), given)) == (
        f"2 of {total} embeddings are NaN or infinite (1 of queries, 1 of gallery items; first at samples [3, {last}]),"
        " so the result is NaN."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said above, of the same samples
        results = fed(ReIDMeanAP(), given).results()
    assert results.average_precision.isnan().all()
    assert (results.counts.not_ranked, results.counts.valid) == (12, 0)


def test_non_finite_embeddings_are_named_by_their_index_where_it_is_known():
    embeddings = torch.ones(3, 2)
    embeddings[1] = float("nan")
    metric = ReIDMeanAP()
    metric.update(embeddings, torch.tensor([1, 1, 1]), index=torch.tensor([70, 71, 72]))
    assert "first at `index` [71])" in problem_of(metric)


def test_every_metric_without_samples_is_nan_and_says_so():
    for _ in range(2):
        with pytest.warns(UserWarning, match="No query can be"), pytest.warns(UserWarning, match="before the"):
            assert ReIDMeanAP().compute().isnan()


def test_every_epoch_without_a_valid_query_is_explained():
    given, metric, other = batches()[:1], ReIDMeanAP(), ReIDMINP()
    fed(other, given)  # keeps the embeddings, and so the ranking, alive
    for _ in range(2):
        assert "No query" in problem_of(fed(metric, given))
        metric.reset()


def test_forward_does_not_warn_but_compute_does():
    metric = ReIDMeanAP()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric(**batches()[0]).isnan()
    assert "No query" in problem_of(metric)


def test_a_collapsed_model_scores_near_zero():
    metric = ReIDMetrics(ranks=(1, 100))
    identities = torch.arange(2000) // 4
    metric.update(torch.ones(2000, 32), identities)
    assert max(metric.compute().values()) < 0.002


def test_queries_without_positives_count_as_the_user_says():
    given = batches()
    given[0]["identities"][:3] = 99
    skipped = fed(ReIDMeanAP(), given).compute()
    assert fed(ReIDMeanAP(empty_target_action="neg"), given).compute() == pytest.approx(skipped * 9 / 12)
    with pytest.raises(ValueError, match="allows no query without a positive; got 3 of 12"):
        fed(ReIDMeanAP(empty_target_action="error"), given).compute()


def test_merging_is_seen_by_the_next_compute():
    given = batches()
    metric = fed(ReIDMeanAP(), given[:4])
    metric.compute()
    metric.merge_state(fed(ReIDMeanAP(), given[4:]))
    assert metric.compute() == pytest.approx(fed(ReIDMeanAP(), given).compute())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": torch.ones(2, 9)}, "must have the same embedding dimension; got 9 and 6"),
        ({"cameras": None}, "`cameras` must be given for all samples or for none; got it for 8 of 10"),
    ],
)
def test_samples_that_do_not_fit_together_are_refused_when_they_were_merged(change, message):
    metric, other = fed(ReIDMeanAP(), batches()[:1]), ReIDMeanAP()
    cameras = torch.zeros(2).long()
    other.update(**({"embeddings": torch.ones(2, 6), "identities": torch.arange(2), "cameras": cameras} | change))
    other.merge_state(metric)
    with pytest.raises(ValueError, match=message):
        other.compute()


# results


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


def test_options_act_in_compute():
    given = batches()
    options = {"same_camera": "all", "junk_identities": (-1, 3), "ties": "optimistic"}
    found = fed(ReIDMeanAP(**options), given).compute()
    assert found == pytest.approx(expected("map", reference_of(given, **options))[0], abs=1e-6)


# one ranking


def test_a_collection_ranks_once(rankings):
    metrics = fed(ReIDMetrics(ranks=(1, 5)), batches())
    metrics.compute()
    metrics.results()
    assert rankings.call_count == 1
    fed(metrics, batches(seed=1)).compute()
    assert rankings.call_count == 2


def test_a_collection_of_ones_own_ranks_once(rankings):
    collection = MetricCollection([ReIDMeanAP(), ReIDMINP(), ReIDCMC(), ReIDCMCCurve()])
    fed(collection, batches()).compute()
    assert rankings.call_count == 1


@pytest.mark.parametrize("view", [False, True])
def test_separate_metrics_that_are_fed_the_same_batches_rank_once(rankings, view):
    given = batches()
    if view:  # of a larger storage, which is cloned, but once for all metrics
        for batch in given:
            batch["embeddings"] = torch.cat([batch["embeddings"]] * 2, dim=1)[:, :6]
    metrics = [ReIDMeanAP(), ReIDMINP(), ReIDCMC()]
    for batch in given:
        for metric in metrics:
            metric.update(**batch)
    values = [metric.compute() for metric in metrics]
    assert rankings.call_count == 1
    assert len({metric.embeddings[0].data_ptr() for metric in metrics}) == 1
    assert values == [fed(kind(), batches()).compute() for kind in (ReIDMeanAP, ReIDMINP, ReIDCMC)]


def test_a_metric_that_is_reset_leaves_the_ranking_to_the_others(rankings):
    curve, metrics = ReIDCMCCurve(), ReIDMetrics()
    for batch in batches():
        curve.update(**batch)
        metrics.update(**batch)
    curve.compute()
    curve.reset()
    metrics.compute()
    assert rankings.call_count == 1


def test_inference_mode_ranks_once_too(rankings):
    with torch.inference_mode():
        given = batches()
        metrics = [fed(ReIDMeanAP(), given), fed(ReIDMINP(), given)]
        for metric in metrics:
            metric.compute()
    assert rankings.call_count == 1


def test_other_samples_or_options_are_ranked_anew(rankings):
    fed(ReIDMeanAP(), batches()).compute()
    fed(ReIDMeanAP(ties="optimistic"), batches()).compute()
    other = batches()
    other[0]["identities"][0] += 1
    fed(ReIDMeanAP(ties="optimistic"), other).compute()
    other = batches()
    other[0]["embeddings"][0] += 1
    fed(ReIDMeanAP(ties="optimistic"), other).compute()
    assert rankings.call_count == 4


def test_metrics_with_two_sets_of_options_take_turns(rankings):
    kinds = {"a": {}, "b": {"similarity": "euclidean"}}
    collection = MetricCollection(
        {
            f"{part}_{kind}": cls(**kinds[kind])
            for part, cls in (("cmc", ReIDCMC), ("map", ReIDMeanAP))
            for kind in kinds
        }
    )
    fed(collection, batches()).compute()
    assert rankings.call_count == 2


def test_a_similarity_that_has_learned_since_ranks_anew_but_once(rankings):
    weight = torch.nn.Parameter(torch.ones(6))
    options = {"similarity": lambda query, gallery: (query * weight) @ gallery.T}
    given = batches()
    before = fed(MetricCollection([ReIDMeanAP(**options), ReIDMINP(**options)]), given)
    value = before.compute()["ReIDMeanAP"]
    assert rankings.call_count == 1
    with torch.no_grad():
        weight[1:] = 0
    assert fed(ReIDMeanAP(**options), given).compute() != value
    assert rankings.call_count == 2


def test_what_a_metric_does_to_its_ranks_stays_with_it():
    class Clamped(EmbeddingMetric):
        def summarise(self, ranks):
            return ranks.rank.clamp_(max=3).double().mean()

    given = batches()
    fed(Clamped(), given).compute()
    fed(ReIDMeanAP(), given).results().num_positives.zero_()
    assert fed(ReIDMINP(), given).compute() == pytest.approx(expected("minp", reference_of(given))[0], abs=1e-6)


def test_embeddings_that_were_changed_in_place_are_ranked_anew(rankings):
    given = batches()
    first, second = fed(ReIDMeanAP(), given), fed(ReIDMeanAP(), given)
    first.compute()
    given[0]["embeddings"].neg_()
    assert second.compute() == fed(ReIDMeanAP(), given).compute()
    assert rankings.call_count == 2


def test_the_ranking_is_forgotten_with_the_samples():
    metric = fed(ReIDMeanAP(), batches())
    metric.compute()
    ranks = weakref.ref(_ranking._last._entries[0].ranking)
    del metric
    gc.collect()
    assert ranks() is None


# costs


def test_update_keeps_the_tensors_that_it_is_given():
    embeddings = torch.randn(4, 3)
    metric = ReIDMeanAP()
    metric.update(embeddings, torch.arange(4))
    assert metric.embeddings[0].data_ptr() == embeddings.data_ptr()


def test_a_view_is_cloned_so_that_its_batch_does_not_stay_alive():
    batch = torch.randn(100, 3)
    metric = ReIDMeanAP()
    metric.update(batch[:4], torch.arange(100)[:4], index=torch.arange(100)[96:])
    for held in (metric.embeddings, metric.identities, metric.index):
        assert held[0].untyped_storage().nbytes() == held[0].numel() * held[0].element_size()


def test_a_view_of_a_buffer_that_is_filled_again_is_cloned_again():
    buffer = np.zeros((8, 4), np.float32)
    view = torch.from_numpy(buffer)[:4]
    metric = ReIDMeanAP()
    for value in (1, 2, 3):
        buffer[:] = value  # which torch does not notice
        metric.update(view, torch.arange(4))
    assert [float(block[0, 0]) for block in metric.embeddings] == [1, 2, 3]


def test_forward_copies_no_sample_that_it_has_seen():
    metric = ReIDMeanAP()
    for batch in batches():
        metric(**batch)
    held = [block.data_ptr() for block in metric.embeddings]
    metric(**batches()[0])
    assert [block.data_ptr() for block in metric.embeddings[:-1]] == held


def test_a_move_to_where_the_samples_are_visits_none_of_them():
    metric = fed(ReIDMeanAP(), batches())
    held = metric.embeddings
    metric.to("cpu")
    assert metric.embeddings is held


def test_forward_of_a_collection_after_update_loses_nothing():
    given = batches()
    metrics = fed(ReIDMetrics(), given[:3])
    for batch in given[3:]:
        metrics(**batch)
    assert metrics.compute() == fed(ReIDMetrics(), given).compute()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("dist_sync_on_step", [False, True])
def test_forward_that_fails_loses_nothing(error, dist_sync_on_step):
    given = batches()
    metric = fed(ReIDMeanAP(dist_sync_on_step=dist_sync_on_step), given)
    expected_value = metric.compute()
    with mock.patch.object(ReIDMeanAP, "summarise", side_effect=error("stopped")):
        with pytest.raises(error, match="stopped"):
            metric(**given[0])
    assert metric.compute() == expected_value


# processes


@contextlib.contextmanager
def process_group(size: int):
    with mock.patch.multiple("torch.distributed", is_initialized=lambda: True, get_world_size=lambda _: size):
        yield


def test_several_processes_are_refused_until_they_are_supported():
    metric = fed(ReIDMeanAP(distributed_available_fn=lambda: True), batches())
    with process_group(2):
        for method in (metric.compute, metric.results):
            with pytest.raises(NotImplementedError, match="does not combine several processes yet; got 2"):
                method()
    assert fed(ReIDMeanAP(sync_on_compute=False), batches()).compute() == pytest.approx(
        fed(ReIDMeanAP(), batches()).compute()
    )


def test_a_synchronisation_without_a_process_group_is_refused():
    metric = fed(ReIDMeanAP(distributed_available_fn=lambda: True), batches())
    with pytest.raises(NotImplementedError, match="got no process group"):
        metric.compute()


def test_a_group_of_one_process_computes():
    metrics = fed(ReIDMetrics(distributed_available_fn=lambda: True), batches())
    with process_group(1):
        values = metrics.compute()
        assert values == fed(ReIDMetrics(), batches()).compute()
        assert not any(metric._is_synced for metric in metrics.values(copy_state=False))
        assert fed(metrics, batches(seed=2)[3:]).compute() != values


def test_an_exception_in_compute_leaves_the_metric_usable():
    metric = fed(ReIDMeanAP(distributed_available_fn=lambda: True), batches())
    with process_group(1):
        with mock.patch.object(_ranking, "count_ranks", side_effect=RuntimeError("out of memory")):
            with pytest.raises(RuntimeError, match="out of memory"):
                metric.compute()
        assert not metric._is_synced
        assert metric.compute() == fed(ReIDMeanAP(), batches()).compute()
