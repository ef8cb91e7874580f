"""Names, and whole numbers as floats, in the place of integer labels: the numbers are those of integers."""

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import DetectionMAP, ReIDMetrics, tasks
from reid_torchmetrics.data import number_identities
from reid_torchmetrics.functional import retrieval
from reid_torchmetrics.functional.retrieval.evaluation import find_protocol
from reid_torchmetrics.tasks.pooled_queries import pool_queries
from tests.profiles import examples

GENERATOR = torch.Generator().manual_seed(3)
QUERY, GALLERY = torch.randn((5, 6), generator=GENERATOR), torch.randn((12, 6), generator=GENERATOR)
SCORES = QUERY @ GALLERY.T
# Not in the order of the names, and -1 is junk on both sides.
NUMBERS = {
    "query_identities": [5, 0, 9, -1, 7],
    "gallery_identities": [0, 5, 9, 9, -1, 5, 7, 0, 3, -1, 7, 5],
    "query_cameras": [2, 1, 1, 2, 2],
    "gallery_cameras": [1, 2, 2, 1, 1, 1, 2, 2, 1, 2, 1, 1],
    "query_clothes": [1, 1, 2, 1, 2],
    "gallery_clothes": [1, 1, 2, 1, 2, 2, 1, 2, 1, 1, 1, 2],
}
NAMES = {-1: "-1", 0: "zebra", 1: "hall", 2: "yard", 3: "ida", 5: "Bo", 7: "élan", 9: "anna"}
SORTED = {"Bo": 0, "anna": 1, "ida": 2, "zebra": 3, "élan": 4, "-1": -1}

RULED = {"junk_identities": ("anna",), "search_cameras": ("hall",), "camera_map": {"hall": "yard"}}
PROTOCOL_OF_NAMES = find_protocol("market1501").with_options(RULED)
PROTOCOL_OF_NUMBERS = find_protocol("market1501").with_options(
    {"junk_identities": (9,), "search_cameras": (1,), "camera_map": {1: 2}}
)

FORMS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "array of objects": lambda names: np.array(names, dtype=object),
}


def named(labels: dict[str, Any], form: str) -> dict[str, Any]:
    return {name: FORMS[form]([NAMES[number] for number in numbers]) for name, numbers in labels.items()}


def ranks_of(found: Any) -> list[int]:
    return getattr(found, "ranks", found).rank.tolist()


IDENTITIES = {name: NUMBERS[name] for name in ("query_identities", "gallery_identities")}
WITH_CAMERAS = {name: numbers for name, numbers in NUMBERS.items() if "clothes" not in name}
DOORS = {
    "evaluate": (lambda **labels: ranks_of(retrieval.evaluate(QUERY, GALLERY, **labels, clothes="drop_same")), NUMBERS),
    "evaluate_scores": (lambda **labels: ranks_of(retrieval.evaluate_scores(SCORES, **labels)), NUMBERS),
    "rank_positives": (lambda **labels: ranks_of(retrieval.rank_positives(QUERY, GALLERY, **labels)), WITH_CAMERAS),
    "rank_positives_from_scores": (
        lambda **labels: ranks_of(retrieval.rank_positives_from_scores(SCORES, **labels)),
        WITH_CAMERAS,
    ),
    "identification": (
        lambda **labels: retrieval.evaluate_scores(SCORES, **labels).identification().mate_rank.tolist(),
        WITH_CAMERAS,
    ),
    "find_relevance": (lambda **labels: retrieval.find_relevance(**labels).run_length.tolist(), NUMBERS),
    "evaluate_lists": (
        lambda **labels: ranks_of(tasks.evaluate_lists(SCORES.argsort(1, descending=True)[:, :8], **labels)),
        IDENTITIES,
    ),
    "person_search": (
        lambda query_identities, gallery_identities: ranks_of(
            tasks.person_search(
                QUERY,
                GALLERY,
                BOXES,
                images=[*range(12)],
                query_images=[20] * 5,
                query_identities=query_identities,
                true_boxes=BOXES,
                true_images=[*range(12)],
                true_identities=gallery_identities,
            )
        ),
        IDENTITIES,
    ),
}
BOXES = torch.tensor([[0.0, 0.0, 30.0, 60.0]]).repeat(12, 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("door", DOORS)
def test_names_on_both_sides_give_the_ranks_of_integers(door, form):
    function, labels = DOORS[door]
    expected = function(**labels)
    assert len(expected)
    assert function(**named(labels, form)) == expected


def test_names_are_numbers_in_the_results_and_minus_one_is_junk():
    results = retrieval.evaluate(QUERY, GALLERY, **named(IDENTITIES, "list"))
    assert results.query_identities.tolist() == [SORTED[NAMES[number]] for number in NUMBERS["query_identities"]]
    assert results.counts.junk == 1
    listed = results.nearest(20)
    assert listed.identities.shape == (5, 10)  # without two items of -1
    gallery = torch.tensor([SORTED[NAMES[number]] for number in NUMBERS["gallery_identities"]])
    assert torch.equal(listed.identities, gallery[listed.index])


def test_names_come_back_in_tables_lists_and_pictures():
    everything = named({name: NUMBERS[name] for name in WITH_CAMERAS}, "list")
    results = retrieval.evaluate(QUERY, GALLERY, **everything)
    frame = results.to_frame("query")
    assert frame["query_identities"].tolist() == everything["query_identities"]
    assert frame["query_cameras"].tolist() == everything["query_cameras"]
    assert results.by_identity().names == tuple(sorted({*everything["query_identities"]}))
    lists = results.nearest(3)
    for label in ("identities", "cameras"):
        of_gallery = everything[f"gallery_{label}"]
        assert lists.names(label) == [[of_gallery[place] for place in row] for row in lists.index.tolist()]
    assert retrieval.evaluate(QUERY, GALLERY, **IDENTITIES).nearest(3).names()[0] == [
        NUMBERS["gallery_identities"][place] for place in lists.index[0].tolist()
    ]


RULES = [
    ({"junk_identities": ("anna", -1)}, {"junk_identities": (9, -1)}),
    ({"junk_identities": ("anna", "nobody")}, {"junk_identities": (9,)}),
    ({"search_cameras": ["yard"]}, {"search_cameras": [2]}),
    ({"camera_map": {"yard": "hall"}}, {"camera_map": {2: 1}}),
    ({"protocol": PROTOCOL_OF_NAMES}, {"protocol": PROTOCOL_OF_NUMBERS}),
]


@pytest.mark.parametrize(("by_name", "by_number"), RULES)
def test_rules_list_names_where_labels_are_names(by_name, by_number):
    labels = {name: NUMBERS[name] for name in WITH_CAMERAS}
    for function, first in ((retrieval.evaluate, (QUERY, GALLERY)), (retrieval.evaluate_scores, (SCORES,))):
        expected = function(*first, **labels, **by_number)
        assert str(dict(function(*first, **named(labels, "list"), **by_name))) == str(dict(expected))


def test_names_are_ranked_by_a_counter_of_blocks():
    labels = {name: NUMBERS[name] for name in WITH_CAMERAS}
    for by_name, by_number in RULES[:4]:
        found = []
        for each, rules in ((named(labels, "array"), by_name), (labels, by_number)):
            queries = {name: values for name, values in each.items() if name.startswith("query_")}
            positives = {
                name.replace("gallery", "positive"): values for name, values in each.items() if name not in queries
            }
            counter = tasks.RankCounter(QUERY, GALLERY, **queries, **positives, **rules)
            other = ["somebody"], ["yard"]
            counts = counter.count(GALLERY[:1], *(other if each is not labels else ([77], [2])), key=0)
            protocol = find_protocol("market1501").with_options(rules)
            found.append(tasks.evaluate_stream(counter, counts, protocol=protocol))
        assert str(dict(found[0])) == str(dict(found[1]))
        assert found[0].to_frame("query")["query_identities"].tolist() == named(labels, "list")["query_identities"]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("gone", [None, "", float("nan"), pd.NA])
@pytest.mark.parametrize("door", ["evaluate", "evaluate_scores", "find_relevance"])
def test_missing_identities_are_junk_where_they_may_be(door, gone):
    labels = {name: NUMBERS[name] for name in IDENTITIES}
    functions = {
        "evaluate": lambda **given: ranks_of(retrieval.evaluate(QUERY, GALLERY, **given)),
        "evaluate_scores": lambda **given: ranks_of(retrieval.evaluate_scores(SCORES, **given)),
        "find_relevance": lambda **given: retrieval.find_relevance(**given).run_length.tolist(),
    }
    expected = functions[door](**labels)
    for each in (named(labels, "list"), labels):
        missing = {name: [gone if value in (-1, "-1") else value for value in values] for name, values in each.items()}
        assert functions[door](**missing, missing_identities="junk") == expected
        with pytest.raises(
            ValueError, match=r"^`query_identities` must hold no missing value; .*`missing_identities='junk'`"
        ):
            functions[door](**missing)


@pytest.mark.parametrize("gone", [None, "", float("nan"), pd.NA])
@pytest.mark.parametrize("form", ["list", "array of objects"])
@pytest.mark.parametrize("known", [["a", "b", "a"], [3, 4, 3]])
@pytest.mark.usefixtures("unannotated")
def test_a_side_without_any_identity_goes_with_names_and_with_integers(known, form, gone):
    missing = FORMS[form]([gone] * 3)
    for query, gallery in ((known, missing), (missing, known), (missing, missing)):
        results = retrieval.evaluate(QUERY[:3], GALLERY[:3], query, gallery, missing_identities="junk")
        assert results.num_positives.tolist() == [0, 0, 0]
        # Items without an identity are dropped, and others are candidates.
        assert results.num_candidates.tolist() == [0 if gallery is missing else 3] * 3


@pytest.mark.parametrize("known", [["a", "b"], [3, 4]])
@pytest.mark.usefixtures("unannotated")
def test_a_counter_takes_blocks_without_any_identity_beside_names_and_integers(known):
    positives = {"positive_identities": known, "missing_identities": "junk"}
    counter = tasks.RankCounter(QUERY[:2], GALLERY[:2], query_identities=known, **positives)
    counts = counter.count(GALLERY[2:4], [None, None], key=0)
    assert counter.ranks(counts).num_candidates.tolist() == [2, 2]
    counter = tasks.RankCounter(QUERY[:2], GALLERY[:2], query_identities=[None, None], **positives)
    assert counter.ranks(0).num_candidates.tolist() == [2, 2]


def test_a_missing_camera_is_an_error():
    labels = named({name: NUMBERS[name] for name in WITH_CAMERAS}, "list")
    labels["query_cameras"][2] = None
    with pytest.raises(ValueError, match=r"^`query_cameras` must hold no missing value; got None for sample 2\.$"):
        retrieval.evaluate(QUERY, GALLERY, **labels, missing_identities="junk")


def test_columns_of_pandas_are_labels():
    labels = {name: NUMBERS[name] for name in WITH_CAMERAS}
    expected = ranks_of(retrieval.evaluate(QUERY, GALLERY, **labels))
    for each in (labels, named(labels, "list")):
        columns = {name: pd.Series(values, index=range(5, 5 + len(values))) for name, values in each.items()}
        assert ranks_of(retrieval.evaluate(QUERY, GALLERY, **columns)) == expected


def test_models_are_compared_by_names_however_these_were_numbered():
    labels = named(IDENTITIES, "array")
    whole = retrieval.evaluate(QUERY, GALLERY, **labels)
    metric = ReIDMetrics()
    metric.update(QUERY, labels["query_identities"], is_query=True)
    metric.update(GALLERY, labels["gallery_identities"], is_query=False)
    assert tasks.compare(whole, metric.results()).differences["map"].difference == 0
    labels["query_identities"][0] = "ida"
    with pytest.raises(ValueError, match="query_identities"):
        tasks.compare(whole, retrieval.evaluate(QUERY, GALLERY, **labels))


def test_names_that_lack_one_side_are_searched_among_themselves():
    everyone = [NAMES[number] for number in NUMBERS["gallery_identities"]]
    found = retrieval.evaluate(GALLERY, query_identities=everyone)
    assert ranks_of(found) == ranks_of(retrieval.evaluate(GALLERY, query_identities=NUMBERS["gallery_identities"]))


def test_groups_and_an_empty_gallery_may_come_with_names():
    groups = [0, 1, 2, 2, 3, 1, 5, 0, 6, 3, 5, 1]
    expected = retrieval.evaluate(QUERY, GALLERY, **IDENTITIES, gallery_groups=groups)
    letters = [*map("abcdefg".__getitem__, groups)]
    assert ranks_of(retrieval.evaluate(QUERY, GALLERY, **IDENTITIES, gallery_groups=letters)) == ranks_of(expected)
    assert retrieval.evaluate(QUERY, GALLERY[:0], [*"abcde"], []).counts.not_in_gallery == 5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("door", DOORS)
def test_whole_numbers_as_floats_give_the_ranks_of_integers(door, dtype):
    function, labels = DOORS[door]
    floats = {name: torch.tensor(numbers, dtype=dtype) for name, numbers in labels.items()}
    assert function(**floats) == function(**labels)


def test_a_metric_and_a_counter_take_whole_numbers_as_floats():
    metrics, counters = [], []
    for dtype in (torch.int64, torch.float32):
        labels = {name: torch.tensor(numbers, dtype=dtype) for name, numbers in NUMBERS.items()}
        sides = [
            {name: labels[f"{side}_{name}"] for name in ("identities", "cameras")} for side in ("query", "gallery")
        ]
        metric = ReIDMetrics()
        metric.update(QUERY, **sides[0], is_query=True)
        metric.update(GALLERY, **sides[1], is_query=False)
        metrics.append(metric.results())
        positives = {f"positive_{name}": values for name, values in sides[1].items()}
        queries = {f"query_{name}": values for name, values in sides[0].items()}
        counters.append(tasks.RankCounter(QUERY, GALLERY, **queries, **positives).ranks(0))
    assert ranks_of(metrics[0]) == ranks_of(metrics[1]) == ranks_of(counters[0]) == ranks_of(counters[1])
    assert metrics[1].query_identities.dtype == torch.int64


def test_the_largest_whole_numbers_are_kept_exactly():
    largest = {torch.float32: 2**24 - 1, torch.float64: 2**53 - 1}
    for dtype, number in largest.items():
        labels = torch.tensor([number, number - 1, -number], dtype=dtype)
        results = retrieval.evaluate(torch.eye(3), torch.eye(3).flip(0), labels, labels)
        assert results.query_identities.tolist() == [number, number - 1, -number]
        with pytest.raises(ValueError, match=r"^`query_identities` must hold integers, or whole numbers below 2\*\*"):
            retrieval.evaluate(torch.eye(3), torch.eye(3), labels + 1, labels.long())


def test_data_numbers_names_as_the_functions_do():
    sides = [np.array([NAMES[number] for number in numbers]) for numbers in IDENTITIES.values()]
    query, _ = number_identities(*sides)
    found = retrieval.evaluate(QUERY, GALLERY, *sides).query_identities
    assert found.tolist() == query.tolist()


# What a user may hand over as labels by mistake, of about the right length.
ITEMS = st.one_of(st.sampled_from(["a", "b", "", "-1", None]), st.integers(-1, 3), st.floats(), st.booleans())
SOUND = st.sampled_from([[0, 1, 1, 2], ["a", "b", "b", "c"], [0.0, 1.0, 1.0, 2.0]])
LISTS = st.one_of(
    SOUND, *(st.lists(each, min_size=0, max_size=5) for each in (ITEMS, st.just(None), st.text("aé1-", max_size=2)))
)
BAD = st.one_of(
    LISTS,
    LISTS.map(tuple),
    LISTS.map(lambda values: np.array(values, dtype=object)),
    LISTS.map(lambda values: np.array(values, dtype=str)),
    LISTS.map(lambda values: np.array([values], dtype=str)),
    st.sampled_from([None, "abcd", 4, 0.5, {"a": 1}, range(4), np.array("a"), torch.tensor(1), torch.eye(4), b"abcd"]),
    st.sampled_from([torch.float32, torch.int32, torch.bool, torch.complex64]).map(lambda t: torch.ones(4, dtype=t)),
)
FOUR, ONES = torch.eye(4), torch.ones(4)
TAKING = {
    "evaluate": lambda one, two: retrieval.evaluate(FOUR, FOUR, one, two),
    "evaluate, cameras": lambda one, two: retrieval.evaluate(FOUR, FOUR, ONES, ONES, one, two),
    "evaluate, clothes": lambda one, two: retrieval.evaluate(
        FOUR, FOUR, ONES, ONES, query_clothes=one, gallery_clothes=two
    ),
    "evaluate, groups": lambda one, two: retrieval.evaluate(FOUR, FOUR, ONES, one, gallery_groups=two),
    "evaluate, positions": lambda one, two: retrieval.evaluate(
        FOUR, FOUR, query_positions=one, gallery_positions=two, radius=1.0
    ),
    "evaluate, places": lambda one, two: retrieval.evaluate(FOUR, FOUR, ONES, one, self_index=two),
    "evaluate, pooled": lambda one, two: retrieval.evaluate(FOUR, FOUR, one, two, multi_query=True),
    "leave-one-out": lambda one, two: retrieval.evaluate(FOUR, None, one, query_cameras=two),
    "evaluate_scores": lambda one, two: retrieval.evaluate_scores(FOUR, one, two),
    "rank_positives": lambda one, two: retrieval.rank_positives(FOUR, FOUR, one, two),
    "rank_positives_from_scores": lambda one, two: retrieval.rank_positives_from_scores(FOUR, ONES, ONES, one, two),
    "find_relevance": retrieval.find_relevance,
    "evaluate_lists": lambda one, two: tasks.evaluate_lists(
        [[0], [1], [2], [3]], query_identities=one, gallery_identities=two
    ),
    "lists": tasks.evaluate_lists,
    "RankCounter": lambda one, two: tasks.RankCounter(FOUR, FOUR, one, two).ranks(0),
    "RankCounter.count": lambda one, two: tasks.RankCounter(FOUR, FOUR, ONES, ONES, ONES, ONES).count(
        FOUR, one, two, key=0
    ),
    "person_search": lambda one, two: tasks.person_search(
        *(FOUR, FOUR, FOUR),
        images=one,
        query_images=[7] * 4,
        query_identities=two,
        true_boxes=FOUR,
        true_images=one,
        true_identities=two,
    ),
    "pool_queries": lambda one, two: pool_queries(FOUR, one, two),
    "mean_by": lambda one, two: retrieval.mean_by(ONES, one, two),
    "mean_over_identities": lambda one, _: retrieval.mean_over_identities(ONES, one),
    "knn_accuracy": lambda one, two: tasks.knn_accuracy(torch.as_tensor(FOUR).long(), FOUR, one),
    "bootstrap_interval": lambda one, _: retrieval.bootstrap_interval(
        ONES, generator=torch.Generator().manual_seed(0), num_resamples=2, identities=one
    ),
    "verify_pairs": tasks.verify_pairs,
    "accuracy_over_folds": lambda one, two: tasks.accuracy_over_folds(one, two, folds=2),
    "global_average_precision": lambda one, two: tasks.global_average_precision(ONES, one, two),
    "ReIDMetrics": lambda one, two: ReIDMetrics().update(FOUR, one, two),
    "DetectionMAP": lambda one, two: DetectionMAP().update(
        [{"boxes": FOUR, "scores": ONES, "labels": one}], [{"boxes": FOUR, "labels": two}]
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("door", TAKING)
@examples(10)
@given(one=BAD, two=BAD)
def test_bad_labels_are_refused_by_a_value_or_a_type_error(door, one, two):
    with suppress(ValueError, TypeError):
        TAKING[door](one, two)
