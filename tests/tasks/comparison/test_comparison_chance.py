"""The chance of a difference between two models: what the definitions say, and SciPy."""

import math
from collections import defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import bootstrap_interval
from reid_torchmetrics.tasks.comparison.resampling import sign_flip_p_values
from tests.profiles import examples
from tests.reference import averages, comparisons
from tests.tasks.comparison.two_models import compared, evaluated, numbers_of, ranked, seeded

NAN = math.nan

ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(1, 6)), st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=9
)


@examples(25)
@given(ROWS, st.booleans(), st.sampled_from(["skip", "neg", "pos"]), st.sampled_from([0.5, 0.9]))
def test_chance_is_what_the_slow_reference_says_of_the_same_draws(rows, per_identity, action, confidence):
    # An identity with a rank is in the gallery: queries without a rank have identities of their own.
    identities = [own if rank else 10 + place for place, (rank, _, own) in enumerate(rows)]
    a = ranked(*(rank for rank, _, _ in rows), identities=identities, empty_target_action=action)
    ranks_b = [other if rank else None for rank, other, _ in rows]
    b = ranked(*ranks_b, identities=identities, empty_target_action=action)
    found = compared(a, b, level=confidence, num_resamples=20, num_permutations=30, per_identity=per_identity)
    difference = found.differences["map"]
    clusters = defaultdict(list)
    for place, (rank, other, _) in enumerate(rows):
        if rank is not None or action != "skip":
            clusters[identities[place] if per_identity else place].append(1 / other - 1 / rank if rank else 0.0)
    if not clusters:
        assert numbers_of(difference) == pytest.approx([NAN] * 6 + [0, 0, 0, False], nan_ok=True)
        return
    ordered = [clusters[own] for own in sorted(clusters)]
    values = [value for cluster in ordered for value in cluster]
    generator = seeded()
    draws = torch.randint(len(ordered), (20, len(ordered)), generator=generator).tolist()
    kept = torch.randint(2, (30, len(ordered)), generator=generator, dtype=torch.float64).tolist()
    assert difference.difference == pytest.approx(sum(values) / len(values), abs=1e-12)
    interval = averages.percentile_interval(ordered, draws, confidence)
    assert (difference.low, difference.high) == pytest.approx(interval, abs=1e-12)
    assert difference.p_value == pytest.approx(comparisons.p_value([sum(each) for each in ordered], kept))


def test_sums_that_differ_by_rounding_are_as_far_from_0():
    # No choice of signs brings 6, 3, 5 and 6 closer to 0 than 2, but in floats some are closer than the first by 1e-17.
    values = torch.tensor([[-0.6], [-0.3], [0.5], [0.6]], dtype=torch.float64)
    assert float(sign_flip_p_values(values, 100, seeded())) == 1


@pytest.mark.parametrize("per_identity", [False, True])
@pytest.mark.parametrize("protocol", ["market1501_official", "vehicleid"])
def test_the_interval_is_the_bootstrap_of_the_differences(protocol, per_identity):
    a, b = evaluated(1, protocol), evaluated(2, protocol)
    # In the official protocol a query without a value counts 0 in both means, so 0 in their difference.
    expected = bootstrap_interval(
        b.per_query["map"] - a.per_query["map"],
        generator=seeded(),
        num_resamples=50,
        identities=a.query_identities if per_identity else None,
        empty_target_action=a.protocol.empty_target_action,
        weight=a.weight,
    )
    difference = compared(a, b, per_identity=per_identity).differences["map"]
    assert (difference.low, difference.high) == pytest.approx((float(expected.low), float(expected.high)))


def test_only_the_generator_that_is_given_decides_and_no_other_is_touched():
    before = torch.get_rng_state()
    first, again, other = (compared(evaluated(1), evaluated(2), seed=seed).to_dict() for seed in (1, 1, 2))
    assert first == again != other
    assert torch.equal(torch.get_rng_state(), before)
