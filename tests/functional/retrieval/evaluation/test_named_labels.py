"""Names, and whole numbers as floats, in the place of integer labels: the numbers are those of integers."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from reid_torchmetrics import tasks
from reid_torchmetrics.functional import retrieval
from reid_torchmetrics.functional.retrieval.evaluation import find_protocol

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


def test_a_missing_camera_is_an_error():
    labels = named({name: NUMBERS[name] for name in WITH_CAMERAS}, "list")
    labels["query_cameras"][2] = None
    with pytest.raises(ValueError, match=r"^`query_cameras` must hold no missing value; got None for sample 2\.$"):
        retrieval.evaluate(QUERY, GALLERY, **labels, missing_identities="junk")


def test_the_largest_whole_numbers_are_kept_exactly():
    largest = {torch.float32: 2**24 - 1, torch.float64: 2**53 - 1}
    for dtype, number in largest.items():
        labels = torch.tensor([number, number - 1, -number], dtype=dtype)
        results = retrieval.evaluate(torch.eye(3), torch.eye(3).flip(0), labels, labels)
        assert results.query_identities.tolist() == [number, number - 1, -number]
        with pytest.raises(ValueError, match=r"^`query_identities` must hold integers, or whole numbers below 2\*\*"):
            retrieval.evaluate(torch.eye(3), torch.eye(3), labels + 1, labels.long())
