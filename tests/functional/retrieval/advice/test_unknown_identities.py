"""Names that data sets give to samples without an identity are warned of where they match themselves."""

import inspect

import pytest
import torch

from reid_torchmetrics import AdviceWarning, evaluate, evaluate_lists
from reid_torchmetrics.functional.retrieval.evaluation.protocol import PROTOCOL_FIELDS
from reid_torchmetrics.functional.retrieval.relevance import label_names

WORDS = label_names._WORDS_FOR_UNKNOWN
USED_BY_DATA_SETS = {"unknown", "unidentified", "undefined", "missing", "none", "null", "nan", "na", "n/a", "<na>", "?"}
"""what pandas reads as missing values, or labels of wildlife and vehicles say"""
ARGUMENTS = {name for function in (evaluate, evaluate_lists) for name in inspect.signature(function).parameters}
OF_THE_PACKAGE = {*PROTOCOL_FIELDS, *ARGUMENTS}
"""names of arguments, which follow the package's renamings and no data set"""


def test_words_for_an_unknown_identity_are_those_of_data_sets():
    assert set(WORDS) == USED_BY_DATA_SETS
    assert OF_THE_PACKAGE.isdisjoint(WORDS)
    assert all("_" not in word and word == word.casefold() for word in WORDS)


@pytest.mark.parametrize("word", sorted(USED_BY_DATA_SETS))
def test_a_word_that_matches_itself_is_warned_of(word):
    with pytest.warns(AdviceWarning, match=f"'{word}'".replace("?", r"\?")):
        evaluate(torch.eye(3), torch.eye(3).flip(0), [word, "lynx", "fox"], [word, "lynx", "fox"])
