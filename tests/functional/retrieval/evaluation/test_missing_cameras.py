"""A benchmark that leaves items out by their cameras says so where no cameras are given."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import AdviceWarning, ReIDMeanAP, ReIDMetrics, evaluate, evaluate_lists
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol, evaluate_scores
from reid_torchmetrics.tasks import RankCounter, evaluate_stream

GENERATOR = torch.Generator().manual_seed(0)
QUERY, GALLERY = torch.randn(6, 4, generator=GENERATOR), torch.randn(30, 4, generator=GENERATOR)
LABELS = {"query_identities": torch.arange(6) % 3, "gallery_identities": torch.arange(30) % 3}
CAMERAS = {"query_cameras": torch.arange(6) % 2, "gallery_cameras": torch.arange(30) % 2}
NAMES = [
    name
    for name, protocol in PROTOCOLS.items()
    if protocol.same_camera != "keep" and protocol.needed_labels.keys() <= {"identities"} and not protocol.needs_groups
]


def by_embeddings(**options):
    return evaluate(QUERY, GALLERY, **LABELS, **options)


def by_scores(**options):
    return evaluate_scores(QUERY @ GALLERY.T, **LABELS, **options)


def by_lists(**options):
    return evaluate_lists((QUERY @ GALLERY.T).argsort(dim=1, descending=True), **LABELS, **options)


def by_metric(**options):
    cameras = {name: options.pop(name) for name in CAMERAS if name in options}
    metric = ReIDMetrics(**options)
    metric.update(QUERY, LABELS["query_identities"], cameras.get("query_cameras"), is_query=True)
    metric.update(GALLERY, LABELS["gallery_identities"], cameras.get("gallery_cameras"), is_query=False)
    return metric.results()


DOORS = pytest.mark.parametrize("door", [by_embeddings, by_scores, by_lists, by_metric])


@DOORS
@pytest.mark.parametrize("protocol", ["market1501", "msmt17", np.str_("dukemtmc")])
def test_a_benchmark_that_is_named_misses_its_cameras(door, protocol):
    text = rf"`protocol` '{protocol}' leaves out gallery items by their cameras \(same_camera='same_identity'\), but no"
    with pytest.warns(UserWarning, match=text):
        results = door(protocol=protocol)
    assert results.means == door(protocol=protocol, same_camera="keep").means


@DOORS
def test_nothing_is_said_where_nothing_is_missing(door):
    door(protocol="market1501", **CAMERAS)
    door(protocol=Protocol("own", "this test"))
    door(protocol="market1501", same_camera="keep")


@pytest.mark.parametrize("door", [by_embeddings, by_scores, by_metric])
def test_nothing_is_said_where_nobody_named_a_benchmark(door):
    assert door().protocol.name == "market1501"


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_with_a_rule_about_cameras_says_it(name):
    metric = ReIDMeanAP(protocol=name)
    metric.update(QUERY, LABELS["query_identities"], is_query=True)
    metric.update(GALLERY, LABELS["gallery_identities"], is_query=False)
    protocol = PROTOCOLS[name]
    draws_by_camera = protocol.gallery_draw is not None and "camera" in protocol.gallery_draw.per
    if protocol.search_cameras is not None or draws_by_camera:
        with pytest.raises(ValueError, match=r"must (come with|know) cameras"):
            metric.compute()
    else:
        with pytest.warns(AdviceWarning, match="no cameras were given"):
            metric.compute()


def test_a_stream_misses_them_as_well():
    counter = RankCounter(QUERY, GALLERY, LABELS["query_identities"], LABELS["gallery_identities"])
    with pytest.warns(UserWarning, match="no cameras were given"):
        evaluate_stream(counter, 0, protocol="market1501")
    evaluate_stream(counter, 0)
