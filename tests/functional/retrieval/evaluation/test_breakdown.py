"""Means per label: equal to the slow reference, with the queries that have no value counted apart."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import mean_over_queries
from reid_torchmetrics.functional.retrieval.evaluation.query_statistics import mean_by, sums_of_groups
from tests.profiles import examples
from tests.reference import averages

NAN = math.nan


def values_of(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.slow
@examples(60)
@given(
    st.integers(1, 3).flatmap(
        lambda width: st.tuples(
            st.just(width),
            st.lists(st.tuples(st.sampled_from([0.1, 0.5, 1.0, NAN]), *[st.integers(-1, 1)] * width), max_size=15),
        )
    )
)
def test_means_and_counts_are_those_of_the_slow_reference(case):
    width, rows = case
    labels = [torch.tensor([row[1 + place] for row in rows], dtype=torch.int64) for place in range(width)]
    found = mean_by(values_of(*(row[0] for row in rows)), *labels)
    table = averages.mean_by([row[0] for row in rows], [row[1:] for row in rows])
    assert found.labels.shape == (len(table), width)
    assert found.labels.tolist() == [list(label) for label, *_ in table]
    assert found.mean.tolist() == pytest.approx([mean for _, mean, _, _ in table], nan_ok=True)
    assert found.mean.dtype == torch.float64
    assert found.num_valid.tolist() == [valid for *_, valid, _ in table]
    assert found.num_queries.tolist() == [total for *_, total in table]


def test_the_mean_of_the_means_is_the_macro_average():
    found = mean_by(values_of(1.0, 0.0, 0.5, NAN), torch.tensor([3, 3, 8, 9]))
    assert found.labels.tolist() == [[3], [8], [9]]
    assert found.mean.tolist() == [0.5, 0.5, pytest.approx(NAN, nan_ok=True)]
    assert (found.num_valid.tolist(), found.num_queries.tolist()) == ([2, 1, 0], [2, 1, 1])
    assert float(mean_over_queries(found.mean)) == 0.5  # of two cameras; the third has no value


def test_single_precision_is_summed_in_double():
    found = mean_by(torch.full((1000,), 0.1), torch.zeros(1000, dtype=torch.int32))
    assert found.mean.tolist() == [pytest.approx(float(torch.tensor(0.1)), abs=1e-15)]


def test_sums_of_groups_keep_further_axes_and_empty_groups():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert sums_of_groups(values, torch.tensor([2, 0, 2]), 3).tolist() == [[3, 4], [0, 0], [6, 8]]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("labels", "kind", "message"),
    [
        ([torch.arange(3)], ValueError, r"`label` must have shape \[2\]; got \[3\]."),
        ([torch.arange(2), torch.ones(2) / 2], ValueError, r"`labels\[0\]` must hold integers, or .*; got 0.5."),
    ],
)
def test_a_bad_label_is_named(labels, kind, message):
    with pytest.raises(kind, match=f"^{message}$"):
        mean_by(values_of(0.5, 1.0), *labels)
