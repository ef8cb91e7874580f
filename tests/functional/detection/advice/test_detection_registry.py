"""Every row of advice on detection fires on its example, and none on problems where nothing is amiss."""

import random
import warnings

import pytest

from reid_torchmetrics import AdviceWarning
from reid_torchmetrics.functional.detection.advice import DETECTION_ADVICE
from tests import fuzz_warnings
from tests.advice_contract import check_row
from tests.profiles import IS_QUICK

NUM_PROBLEMS = 4 if IS_QUICK else 20


@pytest.mark.parametrize("name", DETECTION_ADVICE)
def test_a_row_fires_on_its_example_alone(name):
    check_row(DETECTION_ADVICE, name)


@pytest.mark.parametrize(("way", "kind"), [("detection", "images"), ("detectors", "boxes"), ("detectors", "masks")])
def test_no_row_fires_where_nothing_is_amiss(way, kind):
    look = fuzz_warnings.WAYS[way][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", AdviceWarning)
        for seed in range(NUM_PROBLEMS):
            look(random.Random(seed), kind)  # noqa: S311 - no secret
