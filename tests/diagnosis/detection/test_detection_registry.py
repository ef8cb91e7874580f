"""No cause of detection is told where nothing is amiss."""

import random
import warnings

import pytest

from reid_torchmetrics import AdviceWarning
from tests import fuzz_warnings
from tests.profiles import IS_QUICK

NUM_PROBLEMS = 4 if IS_QUICK else 20


WAYS = [("detection", "images"), ("detectors", "boxes"), ("detectors", "masks")]
WAYS += [("shapes", "rotated"), ("shapes", "keypoints")]


@pytest.mark.parametrize(("way", "kind"), WAYS)
def test_no_row_fires_where_nothing_is_amiss(way, kind):
    look = fuzz_warnings.WAYS[way][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", AdviceWarning)
        for seed in range(NUM_PROBLEMS // 4 if way == "shapes" else NUM_PROBLEMS):
            look(random.Random(seed), kind)  # noqa: S311 - no secret
