"""No cause of retrieval is told where nothing is amiss."""

import random
import warnings

import pytest

from reid_torchmetrics import AdviceWarning
from tests import fuzz_warnings
from tests.profiles import IS_QUICK

NUM_PROBLEMS = 2 if IS_QUICK else 5
WAYS = ("retrieval", "augmented", "scored", "places")
KINDS = [(way, kind) for way in WAYS for kind in fuzz_warnings.WAYS[way][1]]


@pytest.mark.parametrize(("way", "kind"), KINDS)
def test_no_row_fires_where_nothing_is_amiss(way, kind):
    look = fuzz_warnings.WAYS[way][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", AdviceWarning)
        for message in fuzz_warnings.TRUE:  # what the data truly lack is no false alarm
            warnings.filterwarnings("ignore", message=message)
        for seed in range(NUM_PROBLEMS):
            look(random.Random(seed), kind)  # noqa: S311 - no secret
