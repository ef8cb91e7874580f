"""One form of ground truth at every entry point: positions, lists by name, or a bool matrix."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMetrics, evaluate, evaluate_lists, evaluate_scores

NUM_QUERIES, NUM_GALLERY = 5, 20
MATRIX = np.random.default_rng(0).random((NUM_QUERIES, NUM_GALLERY)) < 0.3
FORMS = {
    "bool matrix": MATRIX,
    "bool tensor": torch.from_numpy(MATRIX),
    "lists": [np.flatnonzero(row).tolist() for row in MATRIX],
    "arrays": [np.flatnonzero(row) for row in MATRIX],
    "tensors": [torch.from_numpy(np.flatnonzero(row)) for row in MATRIX],
    "lists by name": [{"ok": np.flatnonzero(row).tolist()} for row in MATRIX],
}
QUERY, GALLERY = torch.randn(NUM_QUERIES, 4), torch.randn(NUM_GALLERY, 4)
REPORTS = ("map", "precision_5")


def by_evaluate(truth):
    return evaluate(QUERY, GALLERY, ground_truth=truth, reports=REPORTS, similarity="dot").means


def by_scores(truth):
    return evaluate_scores(QUERY @ GALLERY.T, ground_truth=truth, reports=REPORTS).means


def by_lists(truth):
    order = (QUERY @ GALLERY.T).argsort(dim=1, descending=True)
    return evaluate_lists(order, truth, protocol="market1501", reports=REPORTS).means


def by_metric(truth):
    metric = ReIDMetrics(ground_truth=truth, reports=REPORTS, similarity="dot")
    metric.update(QUERY, is_query=True, index=range_of(NUM_QUERIES))
    metric.update(GALLERY, is_query=False, index=range_of(NUM_GALLERY))
    return {name: float(value) for name, value in metric.compute().items()}


def range_of(number):
    return list(range(number))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("evaluated", [by_evaluate, by_scores, by_lists, by_metric])
def test_every_entry_point_takes_every_form(evaluated, form):
    scores = (QUERY @ GALLERY.T).numpy()
    precisions = []
    for row in range(NUM_QUERIES):
        hits = MATRIX[row][np.argsort(-scores[row])]
        places = np.flatnonzero(hits) + 1
        precisions.append((np.arange(1, len(places) + 1) / places).mean())
    assert evaluated(FORMS[form])["map"] == pytest.approx(np.mean(precisions), abs=1e-7)


REFUSED = [
    (MATRIX.astype(int), TypeError, "`ground_truth` must be of bools where it is a matrix"),
    (MATRIX[:, :3], ValueError, r"`ground_truth` must have shape \[5, 20\]; got \[5, 3\]"),
    ({"a": [1]}, TypeError, "`ground_truth` must be a bool matrix .* got dict"),
    ([[0]], ValueError, "`ground_truth` must hold one entry for each of 5 queries; got 1"),
]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("truth", "kind", "message"), REFUSED)
def test_another_form_is_refused(truth, kind, message):
    with pytest.raises(kind, match=message):
        by_evaluate(truth)


EFFECTLESS = [
    ({"same_camera": "all"}, "cameras"),
    ({"same_camera": "keep", "cmc_same_camera": "all"}, "cameras"),
    ({"camera_map": {1: 2}}, "cameras"),
    ({"search_cameras": (1,)}, "cameras"),
    ({"clothes": "drop_same"}, "clothes"),
    ({"radius": 3.0}, "positions"),
]


@pytest.mark.parametrize(("options", "label"), EFFECTLESS)
def test_an_option_without_its_label_is_refused_by_every_entry_point(options, label):
    labels = {"query_identities": [0] * NUM_QUERIES, "gallery_identities": [0, 1] * 10}
    message = f"`query_{label}` and `gallery_{label}` must be given for `{[*options][-1]}`"
    with pytest.raises(ValueError, match=message):
        evaluate(QUERY, GALLERY, **labels, **options)
    with pytest.raises(ValueError, match=message):
        evaluate_scores(QUERY @ GALLERY.T, **labels, **options)
    with pytest.raises(ValueError, match=message):
        evaluate_lists([[0, 1]] * NUM_QUERIES, **labels, **options)
    for make in (ReIDMetrics,):
        metric = make(**options)
        with pytest.raises(ValueError, match=f"`{label}` must be given for"):
            metric.update(GALLERY, labels["gallery_identities"], is_query=False)
    # Lists of positives know no labels.
    with pytest.raises(ValueError, match="must come with labels"):
        evaluate_lists([[0, 1]] * NUM_QUERIES, [[0]] * NUM_QUERIES, **options)


NAMES_OF_LISTS = {"positive_lists": ("easy",), "junk_lists": ["hard"]}


@pytest.mark.parametrize("option", NAMES_OF_LISTS)
def test_names_of_lists_are_refused_where_relevance_is_by_labels(option):
    labels = {"query_identities": [0] * NUM_QUERIES, "gallery_identities": [0, 1] * 10}
    named = {option: NAMES_OF_LISTS[option]}
    message = f"`{option}` must come with lists for every query; got labels"
    with pytest.raises(ValueError, match=message):
        evaluate(QUERY, GALLERY, **labels, **named)
    with pytest.raises(ValueError, match=message):
        evaluate_scores(QUERY @ GALLERY.T, **labels, **named)
    with pytest.raises(ValueError, match=message):
        evaluate_lists([[0, 1]] * NUM_QUERIES, **labels, **named)
    with pytest.raises(ValueError, match=message):
        ReIDMetrics(**named)
