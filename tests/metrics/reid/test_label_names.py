"""Metrics that are given names have the numbers of integers, and give the names back."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import relevance
from tests.reference.label_names import as_integers

GENERATOR = torch.Generator().manual_seed(0)
NUM_QUERIES, NUM_GALLERY = 8, 30
EMBEDDINGS = torch.randn((NUM_QUERIES + NUM_GALLERY, 5), generator=GENERATOR)
PERSONS = ["zoe", "Al", "élan", "-1", "bo b"]
IDENTITIES = [PERSONS[number] for number in torch.randint(5, (len(EMBEDDINGS),), generator=GENERATOR)]
CAMERAS = [f"cam{number}" for number in torch.randint(3, (len(EMBEDDINGS),), generator=GENERATOR)]
IS_QUERY = torch.arange(len(EMBEDDINGS)) < NUM_QUERIES
(NUMBERS,) = as_integers(IDENTITIES)
(CAMERA_NUMBERS,) = as_integers(CAMERAS)

FORMS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "array of objects": lambda names: np.array(names, dtype=object),
    "series": pd.Series,
    "categories": lambda names: pd.Series(names, dtype="category"),
    "strings of pandas": lambda names: pd.Series(names, dtype="string"),
}


def fed(metric, identities=IDENTITIES, cameras=CAMERAS, order=None, batch=7, form=list):
    places = list(range(len(EMBEDDINGS))) if order is None else order
    for first in range(0, len(places), batch):
        part = places[first : first + batch]
        labels = form([identities[place] for place in part]), form([cameras[place] for place in part])
        metric.update(EMBEDDINGS[part], *labels, is_query=IS_QUERY[part], index=torch.tensor(part))
    return metric


def by_integers(**options):
    return fed(ReIDMetrics(**options), NUMBERS, CAMERA_NUMBERS).compute()


@pytest.mark.parametrize("form", FORMS)
def test_names_of_any_form_have_the_numbers_of_integers(form):
    assert fed(ReIDMetrics(), form=FORMS[form]).compute() == by_integers()


def test_results_have_the_names():
    results = fed(ReIDMetrics()).results(nearest=4, camera_pairs=True)
    frame = results.to_frame("query")
    assert frame["query_identities"].tolist() == IDENTITIES[:NUM_QUERIES]
    assert frame["query_cameras"].tolist() == CAMERAS[:NUM_QUERIES]
    assert results.by_identity().names == tuple(sorted({*IDENTITIES[:NUM_QUERIES]}))
    assert results.by_camera().names == tuple(sorted({*CAMERAS[:NUM_QUERIES]}))
    lists = results.nearest(4)
    assert lists.names() == [[IDENTITIES[place] for place in row] for row in lists.index.tolist()]
    assert lists.names("cameras") == [[CAMERAS[place] for place in row] for row in lists.index.tolist()]
    assert fed(ReIDMetrics()).nearest(4).names() == lists.names()
    pairs = results.by_camera_pair()
    assert {pairs.camera_names[number] for number in pairs.gallery_cameras.tolist()} == {*CAMERAS[NUM_QUERIES:]}


@pytest.mark.parametrize("gone", [[1, None], torch.tensor([1.0, torch.nan]), np.array([1.0, np.nan])])
def test_the_error_for_a_missing_identity_names_the_option(gone):
    with pytest.raises((TypeError, ValueError), match="Pass `missing_identities='junk'` where"):
        ReIDMeanAP().update(EMBEDDINGS[:2], gone)


def test_names_are_kept_by_copies_files_and_sums(tmp_path):
    whole = fed(ReIDMeanAP())
    first, second = ReIDMeanAP(), ReIDMeanAP()
    fed(first, order=list(range(20)))
    fed(second, order=list(range(20, len(EMBEDDINGS))))
    first.merge_state(second)
    saved = fed(ReIDMeanAP())
    saved.persistent(mode=True)
    loaded = ReIDMeanAP()
    loaded.persistent(mode=True)
    loaded.load_state_dict(saved.state_dict())
    for metric in (whole.clone(), copy.deepcopy(whole), pickle.loads(pickle.dumps(whole)), first, loaded):
        assert metric.compute() == whole.compute()
        assert metric.results().to_frame("query").equals(whole.results().to_frame("query"))
    results = whole.results(nearest=3)
    again = type(results).load(results.save(tmp_path / "results.npz"))
    assert again.label_names == results.label_names
    assert again.nearest(2).names() == results.nearest(2).names()


RULE = "`identities` must be names in every batch, or integers in every batch; got a batch of"
BAD = [
    (IDENTITIES[:4], [1, 2, 3, 4], ValueError, f"{RULE} integers after batches of names."),
    ([1, 2, 3, 4], IDENTITIES[:4], ValueError, f"{RULE} names after batches of integers."),
    (IDENTITIES[:4], torch.arange(4), ValueError, f"{RULE} integers after batches of names."),
    ([], ["a", 1], TypeError, "`identities` must hold integers only, or names only; got 1 and names."),
    (
        [],
        ["a", None],
        ValueError,
        (
            "`identities` must hold no missing value; got None for sample 1. Pass `missing_identities='junk'` where"
            " such samples have no identity."
        ),
    ),
]


@pytest.mark.parametrize(("first", "second", "error", "message"), BAD)
def test_names_beside_integers_are_refused(first, second, error, message):
    metric = ReIDMeanAP()
    if len(first):
        metric.update(EMBEDDINGS[:4], first)
    with pytest.raises(error) as raised:
        metric.update(EMBEDDINGS[: len(second)], second)
    assert str(raised.value) == message


def test_a_rule_in_the_other_kind_is_refused():
    with pytest.raises(ValueError, match=r"^`search_cameras` must list names, or -1, .* such as 'cam3' -> 3\.$"):
        fed(ReIDMetrics(search_cameras=(1, 2)))
    with pytest.raises(ValueError, match=r"^`junk_identities` must list integers where identities are integers"):
        fed(ReIDMetrics(junk_identities=("zoe",)), NUMBERS, CAMERA_NUMBERS)


def test_merged_integers_beside_names_are_refused():
    first, second = ReIDMeanAP(), ReIDMeanAP()
    first.update(EMBEDDINGS, IDENTITIES)
    second.update(EMBEDDINGS, [number + 70 for number in NUMBERS])
    first.merge_state(second)
    with pytest.raises(
        ValueError, match=r"^`identities` must be names for all samples, or integers for all; got 69 and names\.$"
    ):
        first.compute()


def test_names_with_one_hash_are_refused(monkeypatch):
    monkeypatch.setattr(relevance.label_names, "hash_names_once", lambda names: dict.fromkeys(names, 7))
    with pytest.raises(ValueError, match=r"^`identities` must have names with different hashes; got 'a' and 'b', so"):
        ReIDMeanAP().update(EMBEDDINGS[:2], ["a", "b"])
    metric = ReIDMeanAP()
    metric.update(EMBEDDINGS[:2], ["a", "a"])
    metric.update(EMBEDDINGS[:2], ["b", "b"])
    with pytest.raises(ValueError, match=r"^`identities` must have names with different hashes"):
        metric.compute()


def test_names_in_the_state_of_an_earlier_version_are_hashed():
    metric = fed(ReIDMeanAP())
    expected = metric.results()
    without_hashes = []
    for encoded in metric.label_names:
        lines = bytes(encoded.tolist()).splitlines()
        without_hashes.append(b"".join(line.partition(b"\t")[0] + b"\n" for line in lines))
    again = fed(ReIDMeanAP())
    again.label_names = [torch.frombuffer(bytearray(line), dtype=torch.uint8) for line in without_hashes]
    assert again.results().label_names == expected.label_names


def test_a_sample_without_an_identity_is_junk_where_it_may_be():
    places = [2, 11, 12, 20]
    for value in (None, "", float("nan"), pd.NA):
        missing = [value if place in places else name for place, name in enumerate(IDENTITIES)]
        expected = ["-1" if place in places else name for place, name in enumerate(IDENTITIES)]
        values = fed(ReIDMetrics(missing_identities="junk"), missing).compute()
        assert values == fed(ReIDMetrics(), expected).compute()
        # Also where -1 is an identity like others.
        others = ["gone" if place in places else name for place, name in enumerate(IDENTITIES)]
        values = fed(ReIDMetrics(missing_identities="junk", junk_identities=()), missing).compute()
        assert values == fed(ReIDMetrics(junk_identities=("gone",)), others).compute()
    floats = torch.tensor(NUMBERS, dtype=torch.float64)
    floats[places] = torch.nan
    numbers = [-1 if place in places else number for place, number in enumerate(NUMBERS)]
    by_floats = ReIDMetrics(missing_identities="junk")
    by_floats.update(EMBEDDINGS, floats, is_query=IS_QUERY)
    by_numbers = ReIDMetrics()
    by_numbers.update(EMBEDDINGS, numbers, is_query=IS_QUERY)
    assert by_floats.compute() == by_numbers.compute()


def in_batches(metric, *batches):
    """The mean average precision of batches of identities, each with whether they are of queries."""
    first = 0
    for identities, is_query in batches:
        metric.update(EMBEDDINGS[first : first + len(identities)], identities, is_query=is_query)
        first += len(identities)
    return metric.compute()


@pytest.mark.parametrize("gone", [None, "", float("nan"), pd.NA])
@pytest.mark.parametrize("form", ["list", "array of objects"])
@pytest.mark.parametrize(("known", "junk"), [(["a", "b"], "-1"), ([3, 4], -1)])
def test_a_batch_without_any_identity_goes_with_names_and_with_integers(known, junk, form, gone):
    missing = FORMS[form]([gone, gone])
    batches = [(known, True), (missing, True), (known, False), (missing, False)]
    as_junk = [([junk, junk] if identities is missing else identities, is_query) for identities, is_query in batches]
    expected = in_batches(ReIDMeanAP(), *as_junk)
    assert in_batches(ReIDMeanAP(missing_identities="junk"), *batches) == expected
    # The first batch is without an identity.
    expected = in_batches(ReIDMeanAP(), as_junk[1], as_junk[0], *as_junk[2:])
    assert in_batches(ReIDMeanAP(missing_identities="junk"), batches[1], batches[0], *batches[2:]) == expected


def test_names_after_integers_are_refused_also_past_a_batch_without_any_identity():
    with pytest.raises(ValueError, match=r"^`identities` must be names in every batch, or integers in every batch"):
        in_batches(ReIDMeanAP(missing_identities="junk"), ([3, 4], True), ([None, None], False), (["a"], False))
