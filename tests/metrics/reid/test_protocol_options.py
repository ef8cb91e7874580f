"""Protocols, drawn galleries and re-ranking in the metrics: what `evaluate` says of the same samples."""

import pytest
import torch

from reid_torchmetrics import (
    EmbeddingMetric,
    KReciprocal,
    QueryExpansion,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
)
from reid_torchmetrics.functional.retrieval import PROTOCOLS, evaluate
from tests.metrics.reid.samples import WorstRank, batches, fed

GIVEN = batches(num_queries=16, num_gallery=60)


def evaluated(given, **options):
    sides = [[batch for batch in given if batch["is_query"] is role] for role in (True, False)]
    parts = [
        torch.cat([batch[name] for batch in side]) for name in ("embeddings", "identities", "cameras") for side in sides
    ]
    further = {}
    for name in {"clothes", "positions"} & given[0].keys():
        further |= {
            f"{role}_{name}": torch.cat([batch[name] for batch in side])
            for role, side in zip(("query", "gallery"), sides, strict=True)
        }
    if "groups" in given[-1]:
        further["gallery_groups"] = torch.cat([batch["groups"] for batch in sides[1]])
    return evaluate(*parts, **further, **options)


FROM_LABELS = [name for name, protocol in PROTOCOLS.items() if not protocol.needs_lists]
AMONG_OTHERS = [name for name in FROM_LABELS if PROTOCOLS[name].leave_one_out]


OTHERS = ["precision_5", "recall_5", "hit_rate_5", "map_at_r", "r_precision", "mrr", "ndcg_5"]
OTHERS += ["median_rank", "median_rank_lower", "anmrr"]


@pytest.mark.needs("diagnosis")
def test_a_median_of_nothing_is_nan_also_where_empty_queries_count_0():
    metric = ReIDMeasure("median_rank", empty_target_action="neg")
    metric.update(torch.eye(2), torch.tensor([1, 2]))
    with pytest.warns(UserWarning, match="No query can be evaluated"):
        assert metric.compute().isnan()


def test_pairs_of_cameras_are_of_means_and_not_of_medians():
    results = fed(ReIDMeasure("median_rank"), GIVEN).results(camera_pairs=True)
    assert [*results.camera_pairs] == [*PROTOCOLS["market1501"].reports]
    with pytest.raises(ValueError, match="`reports` must hold a mean over queries here; got median_rank"):
        fed(ReIDMetrics(reports=("median_rank",)), GIVEN).results(camera_pairs=True)


def test_all_shots_and_cutoffs_are_options_of_the_classes():
    expected = evaluated(GIVEN, mode="all_shots", k=10, normalizer="attainable").means
    assert float(fed(ReIDCMC(5, mode="all_shots"), GIVEN).compute()) == pytest.approx(expected["rank_5"], abs=1e-6)
    metric = ReIDMeanAP(k=10, normalizer="attainable")
    assert float(fed(metric, GIVEN).compute()) == pytest.approx(expected["map"], abs=1e-6)


def test_a_metric_shows_its_protocol():
    text = repr(ReIDMeanAP(protocol="vehicleid", ties="stable"))
    assert text == "ReIDMeanAP(protocol='vehicleid', similarity='cosine', ties='stable')"


@pytest.mark.needs("diagnosis")
@pytest.mark.filterwarnings("ignore:.*no cameras")
def test_a_drawn_gallery_without_a_valid_query_gives_nan():
    metric, curve = ReIDMeanAP(protocol="vehicleid"), ReIDCMCCurve(4, protocol="cuhk03_torchreid")
    metric.update(torch.ones(2, 3), torch.tensor([1, 2]))
    curve.update(torch.ones(2, 3), torch.tensor([1, 2]), is_query=True)
    for one in (metric, curve):
        with pytest.warns(UserWarning, match="No query can be evaluated"):
            value = one.compute()
        assert value.isnan().all()


BAD = [
    (
        lambda: WorstRank(protocol="vehicleid"),
        "`protocol` must not draw galleries for WorstRank; got GalleryDraw(shots=1, per='identity').",
    ),
    (
        lambda: ReIDMeasure("mrr", protocol="vehicleid"),
        "`protocol` must not draw galleries for the report 'mrr'; got GalleryDraw(shots=1, per='identity').",
    ),
    (lambda: ReIDMeanAP(protocol="market"), "`protocol` must be one of 'market1501',"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_an_option_that_does_not_fit_is_named(call, message):
    with pytest.raises(ValueError, match="`") as raised:
        call()
    assert message in str(raised.value)


@pytest.mark.usefixtures("unannotated")
def test_re_ranking_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"^`rerank` must be one of KReciprocal, QueryExpansion or None; got str.$"):
        ReIDMeanAP(rerank="k-reciprocal")


@pytest.mark.parametrize("protocol", AMONG_OTHERS)
def test_leave_one_out_needs_every_query_in_the_gallery_and_says_so(protocol):
    metric = fed(ReIDCMC(protocol=protocol), GIVEN)
    with pytest.raises(ValueError, match=r"^`is_query` must be left out under a leave-one-out protocol, "):
        metric.compute()


@pytest.mark.parametrize("protocol", ["cuhk03_openreid", "market1501"])
def test_a_cmc_by_its_name_is_that_of_its_class(protocol):
    named, value = (
        fed(kind, GIVEN) for kind in (ReIDMeasure("rank_20", protocol=protocol), ReIDCMC(20, protocol=protocol))
    )
    assert float(named.compute()) == float(value.compute())
    assert named.results().means["rank_20"] == pytest.approx(float(value.compute()), abs=1e-6)


def test_re_ranking_among_the_others_is_that_of_evaluate():
    embeddings, identities = (torch.cat([batch[name] for batch in GIVEN]) for name in ("embeddings", "identities"))
    for rerank in (KReciprocal(k1=6, k2=2), QueryExpansion(k=2)):
        metric = ReIDMeanAP(rerank=rerank)
        metric.update(embeddings, identities)
        expected = evaluate(embeddings, query_identities=identities, rerank=rerank).means["map"]
        assert float(metric.compute()) == pytest.approx(expected, abs=1e-6)


def test_a_subclass_with_a_measure_of_drawn_galleries_may_have_them():
    class HalfCurve(EmbeddingMetric):
        _is_cmc = True

        def summarize(self, ranks):
            return ranks.rank.double().mean()

        def summarize_drawn(self, drawn):
            return drawn.cmc[:, 1].nanmean()

    metric = fed(HalfCurve(protocol="cuhk03_torchreid"), GIVEN)
    assert float(metric.compute()) == pytest.approx(float(evaluated(GIVEN, protocol="cuhk03_torchreid").cmc[1]))
