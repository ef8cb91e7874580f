"""Positives within a radius, from the definition: |p - q| <= radius in float64, by differences."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores, find_protocol, find_relevance
from reid_torchmetrics.functional.retrieval.evaluation import Labels, RankedSamples
from reid_torchmetrics.functional.world import results_made
from reid_torchmetrics.tasks import RankCounter, evaluate_stream
from tests.diagnosis.contract import told_by
from tests.paths import path
from tests.profiles import examples

EXACTLY_25 = [(25,), (-25,), (15, 20), (-7, 24), (24, -7), (12, 15, 16), (0, -15, 20), (25, 0, 0)]
MAPS = [0.0, 5_000_000.0, 500_000.25, -1_234_567.5]


def near(query, gallery, radius) -> list[list[int]]:
    """Gallery positions of the positives of every query."""
    found = find_relevance(query_positions=query, gallery_positions=gallery, radius=radius)
    parts = zip(found.run_start.tolist(), found.run_length.tolist(), strict=True)
    return [found.order[start : start + length].tolist() for start, length in parts]


def slowly(query, gallery, radius) -> list[list[int]]:
    def distance(one, other) -> float:
        return math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))

    return [[place for place, item in enumerate(gallery) if distance(one, item) <= radius] for one in query]


@st.composite
def clouds(draw):
    """Queries, gallery and a radius: on a grid, where pairs lie at exactly the radius, or anywhere."""
    axes, origin = draw(st.integers(1, 3)), draw(st.sampled_from([0.0, 500_000.0, 5_000_000.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = [(draw(st.integers(0, 6)), axes), (draw(st.integers(0, 20)), axes)]
    if draw(st.booleans()):
        query, gallery = (origin + random.integers(0, 8, size) * 5.0 for size in sizes)
    else:
        query, gallery = (origin + random.random(size) * 100 for size in sizes)
    return query, gallery, draw(st.sampled_from([0.0, 5.0, 25.0, 1e9]))


@examples(40)
@given(clouds(), st.sampled_from([1, 7, 1 << 20]), st.randoms())
def test_positives_are_those_of_the_definition_in_blocks_and_in_any_order(cloud, pairs_at_a_time, random):
    query, gallery, radius = cloud
    order = np.array(random.sample(range(len(gallery)), len(gallery)), dtype=np.int64)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*path("labeled_pairs"), pairs_at_a_time)
        found, shuffled = near(query, gallery, radius), near(query, gallery[order], radius)
    assert found == slowly(query.tolist(), gallery.tolist(), radius)
    assert [sorted(order[places].tolist()) for places in shuffled] == found


@pytest.mark.parametrize("step", EXACTLY_25)
@pytest.mark.parametrize("origin", MAPS)
def test_a_pair_at_exactly_the_radius_is_a_positive_and_one_beyond_is_none(step, origin):
    query = torch.full((1, len(step)), origin, dtype=torch.float64)
    item = query + torch.tensor(step, dtype=torch.float64)
    assert near(query, item, 25.0) == [[0]]
    assert near(item, query, 25.0) == [[0]]
    assert near(query, item, math.nextafter(25.0, 0.0)) == [[]]


def test_lists_arrays_and_tensors_of_coordinates_agree_where_float32_has_half_a_metre():
    # Northings of 5,000 km: in float32 all but the last are 25 m away.
    query, items = [[5e6, 4e5]], [[5e6 + step, 4e5] for step in (25.1, 25.0, 24.9, -24.9, -25.1, 25.6)]
    scores, kinds = np.zeros((1, len(items))), (list, np.array, lambda rows: torch.tensor(rows, dtype=torch.float64))
    embeddings = np.ones((1 + len(items), 2), dtype=np.float32)
    for kind in kinds:
        positions = {"query_positions": kind(query), "gallery_positions": kind(items)}
        found = [
            evaluate_scores(scores, **positions, protocol="pitts30k"),
            evaluate(embeddings[:1], embeddings[1:], **positions, protocol="pitts30k", self_index=[-1]),
        ]
        metric = ReIDMetrics(protocol="pitts30k")
        metric.update(embeddings[:1], positions=kind(query), is_query=True)
        metric.update(embeddings[1:], positions=kind(items), is_query=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(metric.results())
        rows = {"query_positions": kind(query), "positive_positions": kind(items)}
        counter = RankCounter(embeddings[:1], embeddings[1:], **rows, radius=25.0)
        counted = [int(each.num_positives) for each in found] + [int(counter.ranks(0).num_positives)]
        assert counted == [3] * 4


def test_the_query_is_its_own_neighbor_unless_it_is_left_out():
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0], [90.0, 0.0]])
    found = find_relevance(query_positions=rows, gallery_positions=rows, radius=5.0, self_index=torch.arange(3))
    assert found.num_others.tolist() == [1, 1, 0]
    assert near(rows, rows, 5.0) == [[0, 1], [0, 1], [2]]


A, B = torch.zeros(2, 2), torch.zeros(3, 2)
BAD = [
    ({"gallery_positions": torch.zeros(3, 3)}, "`query_positions` and `gallery_positions` must have as many coordinat"),
    ({"gallery_positions": None}, "`query_positions` and `gallery_positions` must be given for `radius` 5.0; got only"),
    ({"query_positions": A / 0}, "`query_positions` must be finite; got 2 rows with NaN or infinity, first [0, 1]."),
    ({"gallery_positions": B[:, :0]}, "`gallery_positions` must have shape [N] or [N, 1 to 3]; got [3, 0]."),
    ({"radius": -1.0}, "`radius` must be finite and at least 0; got -1.0."),
    ({"radius": math.nan}, "`radius` must be finite and at least 0; got nan."),
    ({"radius": math.inf}, "`radius` must be finite and at least 0; got inf."),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_arguments_that_do_not_fit_are_named(changed, message):
    with pytest.raises(ValueError, match="`") as raised:
        find_relevance(**({"query_positions": A, "gallery_positions": B, "radius": 5.0} | changed))
    assert str(raised.value).startswith(message)


def by_metric(query, gallery, radius, embeddings):
    metric = ReIDMetrics(protocol="pitts30k", radius=radius)
    metric.update(embeddings[: len(query)], positions=query, is_query=True)
    metric.update(embeddings[len(query) :], positions=gallery, is_query=False)
    metric.compute()
    metric.results()


def by_function(query, gallery, radius, embeddings):
    sides = {"query_positions": query, "gallery_positions": gallery}
    evaluate(embeddings[: len(query)], embeddings[len(query) :], **sides, protocol="pitts30k", radius=radius)


def by_counter(query, gallery, radius, embeddings):
    sides = {"query_positions": query, "positive_positions": gallery}
    protocol = find_protocol("pitts30k").with_options({"radius": radius})
    rules = protocol.relevance_options
    counter = RankCounter(embeddings[: len(query)], embeddings[len(query) :], **sides, **rules)
    evaluate_stream(counter, 0, protocol=protocol)


DOORS = [by_metric, by_function, by_counter]


def texts_of(query, gallery, radius, door):
    """The warnings of a ranking of places."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        door(query, gallery, radius, torch.eye(len(query) + len(gallery)))
    return [str(each.message) for each in caught if "No query" not in str(each.message)]


def utm(number, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.tensor([5e6, 4e5]) + 300 * torch.rand(number, 2, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(
    ("query", "gallery", "radius"),
    [
        (utm(5), utm(9, seed=1), 25.0),
        (utm(5).round().float(), utm(9, seed=1).round(), 25.0),  # whole meters
        ((utm(5) - utm(1)).float(), (utm(9, seed=1) - utm(1)).float(), 25.0),  # around an origin of one's own
        ((utm(5) - utm(1)) / 2, (utm(9, seed=1) - utm(1)) / 2, 5.0),  # a plan of 150 meters
        ([[40.44, -79.99]], [[40.45, -80.01]], 0.001),  # a radius in degrees
        (utm(5).float(), utm(9, seed=1).float(), 100.0),
        ([12.25, 13.5], [12.75, 19.0], 7.0),  # frames
    ],
)
def test_positions_that_are_what_they_should_be_are_not_doubted(query, gallery, radius):
    assert [texts_of(query, gallery, radius, door) for door in DOORS] == [[]] * 3


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize(
    ("places", "radius", "doubt"),
    [
        # 2 ** 22 has gaps of 1/2, so it rounds by up to 1/4: a hundredth of 25.
        ([[2.0**22], [2.0**22 - 0.25]], 25.0, None),
        ([[2.0**22], [2.0**22 - 0.25]], 24.9, "float32"),
        ([[2.0**22], [2.0**22 - 0.125]], 24.9, None),
        ([[90.0, 180.0], [89.5, 179.5]], 1.0, "degrees"),
        ([[90.0, 180.0], [89.5, 179.5]], 0.9, None),
        ([[90.5, 180.0], [89.5, 179.5]], 1.0, None),
        ([[90.0, 180.5], [89.5, 179.5]], 1.0, None),
        ([[90.0, 180.0, 1.0], [89.5, 179.5, 1.5]], 1.0, None),
        # As far from 0 as apart along one axis, around 0 along the other; or at one place along it.
        ([[10.0, 0.25], [20.0, -0.5]], 1.0, None),
        ([[10.25, 0.25], [20.0, -0.5]], 1.0, "degrees"),
        ([[10.25, 0.25], [10.25, -0.5]], 1.0, None),
    ],
)
def test_positions_are_doubted_beyond_a_hundredth_of_the_radius_and_as_degrees_of_a_region(places, radius, doubt):
    values = torch.tensor(places, dtype=torch.float64)
    texts = told_by(lambda: results_made(None, samples_of(values, radius)))
    assert len(texts) == (doubt is not None)
    assert all(doubt in text for text in texts)


def samples_of(values, radius):
    protocol = find_protocol("market1501").with_options({"radius": radius})
    return RankedSamples(protocol, labels=Labels({"positions": values[:1]}, {"positions": values[1:]}))


@pytest.mark.parametrize("origin", [0.0, -0.0409621648959597, 500_000.25, 5e6])
def test_a_sum_that_is_rounded_does_not_keep_a_pair_from_its_radius(origin):
    # q + 0.1 in float64 may lie below an item that is 0.1 away; neighbors of such sums on both sides, and beyond.
    query = [origin + step for step in np.linspace(-1, 1, 101)]
    sums = [center + sign * 0.1 for center in query for sign in (1, -1)]
    items = [math.nextafter(each, to) for each in sums for to in (each, math.inf, -math.inf)]
    rows = [[[each] for each in side] for side in (query, items)]
    assert near(query, items, 0.1) == slowly(*rows, 0.1)


def test_within_a_radius_a_query_without_an_identity_counts():
    sides = {"query_positions": [0.0], "gallery_positions": [1.0, 9.0], "query_identities": [-1]}
    results = evaluate_scores(np.zeros((1, 2)), **sides, gallery_identities=[3, 3], radius=5.0)
    assert (results.counts.valid, results.counts.junk) == (1, 0)
    assert find_relevance(**sides, gallery_identities=[-1, 3], radius=5.0).num_others.tolist() == [0]
