"""Ground truth as lists, in the place of labels."""

import re

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate_scores, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation import read_numbers


def test_lists_may_be_arrays_and_wrong_ones_are_named():
    plain = [{"ok": [1, 2]}, {"ok": np.array([3])}]
    assert evaluate_scores(torch.rand(2, 5), ground_truth=plain, protocol="oxford5k").counts.valid == 2
    for wrong, message in (
        ([{"ok": None}], "`ground_truth[0]['ok']` must be a tensor, an array or a list; got NoneType."),
        ([{"ok": torch.ones(3)}], "`ground_truth[0]['ok']` must have an integer dtype; got torch.float32."),
    ):
        with pytest.raises(TypeError, match="`") as raised:
            evaluate_scores(torch.rand(1, 5), ground_truth=wrong, protocol="oxford5k")
        assert str(raised.value) == message


def test_lists_of_a_data_set_are_by_the_number_of_the_query_which_is_an_int():
    protocol = find_protocol("oxford5k")
    by_place = read_numbers([{"ok": [1, 2]}, {"ok": [3]}], protocol)
    assert read_numbers({1: {"ok": [3]}, 0: {"ok": [1, 2]}}, protocol) == by_place
    assert read_numbers({1: {"ok": [4]}, 0: {"ok": [1, 2]}}, protocol) != by_place
    assert read_numbers(by_place, protocol) is by_place
    assert read_numbers(None, protocol) is None
    for wrong, message in (
        ({"all_souls_1": {"ok": [1]}}, "`ground_truth` must be an int; got str."),
        ({True: {"ok": [1]}}, "`ground_truth` must be an int; got bool."),
        ("lists", "`ground_truth` must be "),
        (7, "`ground_truth` must be "),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(message)}"):
            read_numbers(wrong, protocol)
