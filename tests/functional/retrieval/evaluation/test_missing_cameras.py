"""A benchmark that leaves items out by their cameras says so where no cameras are given."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import AdviceWarning, ReIDMeanAP, evaluate
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol
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


def evaluated(**options):
    return evaluate(QUERY, GALLERY, **LABELS, **options)


@pytest.mark.parametrize("protocol", ["market1501", "msmt17", np.str_("dukemtmc")])
def test_a_benchmark_that_is_named_misses_its_cameras(protocol):
    text = rf"`protocol` '{protocol}' leaves out gallery items by their cameras \(same_camera='same_identity'\), but no"
    with pytest.warns(UserWarning, match=text):
        results = evaluated(protocol=protocol)
    assert results.means == evaluated(protocol=protocol, same_camera="keep").means


def test_nothing_is_said_where_nothing_is_missing_or_nobody_named_a_benchmark():
    evaluated(protocol="market1501", **CAMERAS)
    evaluated(protocol=Protocol("own", "this test"))
    evaluated(protocol="market1501", same_camera="keep")
    assert evaluated().protocol.name == "market1501"


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
