"""Bootstrap intervals: equal to the slow reference for the same draws, and as wide as statistics says."""

import math
from collections import defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks.comparison.resampling import Interval, bootstrap_interval
from tests.paths import taking
from tests.profiles import examples
from tests.reference import averages
from tests.tasks.comparison.two_models import seeded

NAN = math.nan


def values_of(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def ends(interval: Interval) -> list[float]:
    return [float(interval.low), float(interval.high)]


@examples(60)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.7, 1.0, NAN]), st.integers(0, 3)), max_size=12),
    st.booleans(),
    st.sampled_from(["skip", "neg", "pos"]),
    st.sampled_from([0.5, 0.9]),
    st.sampled_from([1, 20]),
)
@pytest.mark.slow
def test_intervals_are_those_of_the_slow_reference(rows, by_identity, action, confidence, num_resamples):
    values, identities = values_of(*(value for value, _ in rows)), torch.tensor([own for _, own in rows]).long()
    found = bootstrap_interval(
        values,
        generator=seeded(),
        level=confidence,
        num_resamples=num_resamples,
        identities=identities if by_identity else None,
        empty_target_action=action,
    )
    clusters = defaultdict(list)
    for place, (value, own) in enumerate(rows):
        if not math.isnan(value) or action != "skip":
            counts = {"neg": 0.0, "pos": 1.0}.get(action) if math.isnan(value) else value
            clusters[own if by_identity else place].append(counts)
    if not clusters:
        assert ends(found) == pytest.approx([NAN, NAN], nan_ok=True)
        return
    draws = torch.randint(len(clusters), (num_resamples, len(clusters)), generator=seeded()).tolist()
    ordered = [clusters[own] for own in sorted(clusters)]
    assert ends(found) == pytest.approx(averages.percentile_interval(ordered, draws, confidence), abs=1e-12)
    assert found.level == confidence


def test_a_weight_counts_as_that_many_queries_of_one_identity():
    values, weight = values_of(0.1, NAN, 0.8, 0.3), values_of(1, 5, 3, 2)
    num_resamples = weight.long()
    for action in ("skip", "neg"):
        weighted = bootstrap_interval(values, generator=seeded(), weight=weight, empty_target_action=action)
        repeated = bootstrap_interval(
            values.repeat_interleave(num_resamples),
            generator=seeded(),
            identities=torch.arange(4).repeat_interleave(num_resamples),
            empty_target_action=action,
        )
        assert ends(weighted) == pytest.approx(ends(repeated))


def test_a_query_that_counts_nothing_is_never_drawn():
    # Left is the query that is 1/4. A draw of nothing but the other would be 0/0.
    found = bootstrap_interval(values_of(0.25, 0.75), generator=seeded(), weight=values_of(1, 0))
    assert ends(found) == [0.25, 0.25]


def test_only_the_generator_that_is_given_decides_and_no_other_is_touched():
    values, before = torch.rand(50).double(), torch.get_rng_state()
    first, again, other = (ends(bootstrap_interval(values, generator=seeded(seed))) for seed in (1, 1, 2))
    assert first == again != other
    assert torch.equal(torch.get_rng_state(), before)


def test_the_number_of_draws_at_a_time_changes_nothing():
    values = torch.rand(50).double()
    whole = bootstrap_interval(values, generator=seeded(), num_resamples=33)
    with taking(resampled_draws=120):
        assert ends(bootstrap_interval(values, generator=seeded(), num_resamples=33)) == ends(whole)


@pytest.mark.parametrize(("action", "end"), [("skip", NAN), ("neg", 0), ("pos", 1), ("error", NAN)])
def test_an_interval_of_nothing_is_nan_and_of_empty_queries_what_they_count(action, end):
    found = bootstrap_interval(values_of(NAN, NAN), generator=seeded(), empty_target_action=action)
    assert ends(found) == pytest.approx([end, end], nan_ok=True)
    found = bootstrap_interval(values_of(), generator=seeded(), empty_target_action=action)
    assert ends(found) == pytest.approx([NAN, NAN], nan_ok=True)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"generator": 7}, TypeError, "`generator` must be a torch.Generator; got int."),
        ({"level": "95%"}, TypeError, "`level` must be a number; got str."),
        ({"level": 95}, ValueError, "`level` must lie between 0 and 1; got 95."),
        ({"level": NAN}, ValueError, "`level` must lie between 0 and 1; got nan."),
        ({"num_resamples": 0}, ValueError, "`num_resamples` must be at least 1; got 0."),
        ({"identities": torch.arange(3)}, ValueError, r"`identities` must have shape \[2\]; got \[3\]."),
        ({"empty_target_action": "zero"}, ValueError, "`empty_target_action` must be one of .*; got 'zero'."),
        ({"empty_target_action": "error"}, ValueError, ".*allows no query without a positive; got 1 of 2."),
    ],
)
def test_a_bad_argument_is_named(options, kind, message):
    with pytest.raises(kind, match=f"^{message}$"):
        bootstrap_interval(values_of(0.5, NAN), **({"generator": seeded()} | options))
