"""A benchmark that leaves items out by their cameras says so where no cameras are given."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import evaluate
from reid_torchmetrics.functional.retrieval import Protocol

GENERATOR = torch.Generator().manual_seed(0)
QUERY, GALLERY = torch.randn(6, 4, generator=GENERATOR), torch.randn(30, 4, generator=GENERATOR)
LABELS = {"query_identities": torch.arange(6) % 3, "gallery_identities": torch.arange(30) % 3}
CAMERAS = {"query_cameras": torch.arange(6) % 2, "gallery_cameras": torch.arange(30) % 2}


def evaluated(**options):
    return evaluate(QUERY, GALLERY, **LABELS, **options)


@pytest.mark.needs("diagnosis")
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
