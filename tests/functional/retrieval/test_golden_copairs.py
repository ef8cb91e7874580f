"""Average precision under rules on labels that users name is what copairs recorded."""

from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics.functional.retrieval import evaluate

RECORD = Path(__file__).parents[2] / "golden" / "copairs.npz"
with np.load(RECORD) as arrays:
    PROBLEM = {name: arrays[name] for name in arrays.files}
RULES = {
    "none": ((), ()),
    "differ": ((), ("batch",)),
    "agree": (("side",), ()),
    "both": (("side",), ("batch",)),
    "two_differ": ((), ("batch", "plate")),
    "two_agree": (("side", "plate"), ()),
}
"""the labels that agree and those that differ"""


def options_of(name):
    """The arguments of `evaluate` behind the embeddings."""
    must_agree, must_differ = RULES[name]
    return {
        "query_identities": PROBLEM["compound"],
        "query_labels": {label: PROBLEM[label] for label in (*must_agree, *must_differ)},
        "must_agree": must_agree,
        "must_differ": must_differ,
        "junk_identities": (),
    }


def test_every_rule_was_recorded():
    assert {f"{name}/values" for name in RULES} == {name for name in PROBLEM if name.endswith("/values")}


@pytest.mark.parametrize("name", RULES)
def test_average_precision_and_numbers_of_pairs_are_those_of_copairs(name):
    values = PROBLEM[f"{name}/values"]
    results = evaluate(PROBLEM["embeddings"], **options_of(name))
    # copairs computes in float32.
    assert results.average_precision.numpy() == pytest.approx(values[:, 0], abs=1e-6, nan_ok=True)
    has_positives = ~np.isnan(values[:, 0])
    assert results.num_positives.numpy()[has_positives].tolist() == values[has_positives, 1].tolist()
    assert results.num_candidates.numpy()[has_positives].tolist() == values[has_positives, 2].tolist()
