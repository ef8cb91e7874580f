"""Every cause of retrieval is told in its example, and none where nothing is amiss."""

import random
import warnings

import pytest

from reid_torchmetrics import AdviceWarning
from reid_torchmetrics.diagnosis.retrieval import RETRIEVAL_CAUSES
from tests import fuzz_warnings
from tests.diagnosis.contract import check_cause
from tests.diagnosis.retrieval.examples import EXAMPLES
from tests.profiles import IS_QUICK

NUM_PROBLEMS = 2 if IS_QUICK else 5
WAYS = ("retrieval", "augmented", "scored", "places")
KINDS = [(way, kind) for way in WAYS for kind in fuzz_warnings.WAYS[way][1]]


@pytest.mark.parametrize("name", RETRIEVAL_CAUSES)
def test_a_cause_is_told_in_its_example_alone(name):
    check_cause(RETRIEVAL_CAUSES, name, EXAMPLES[name])


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
