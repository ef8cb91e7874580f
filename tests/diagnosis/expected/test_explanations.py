"""`diagnose(expected=...)` names the conventions that give a number, at every entry point."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics, diagnose, evaluate, evaluate_scores
from reid_torchmetrics.diagnosis.expected import Expected, search_of
from reid_torchmetrics.tasks import evaluate_lists
from tests.diagnosis.expected.line_problems import ways

LABELS = {
    "query_identities": [1, 1, 2],
    "gallery_identities": [1, 2, 1, 1, 2, -1],
    "query_cameras": [0, 1, 0],
    "gallery_cameras": [0, 0, 1, 0, 0, 1],
}
DISTANCES = np.array([[1, 2, 3, 4, 5, 6], [2, 1, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]], dtype=float)
"""candidates after the rules of Market-1501: [2, 1, 2], [2, 1, 1, 2], and a query without a positive"""
# AP: query 0 has ranks 2 of 3, query 1 ranks 2 and 3 of 4; query 2 has no positive in another camera.
MAP = (1 / 2 + (1 / 2 + 2 / 3) / 2) / 2


def results():
    return evaluate_scores(None, **LABELS, distances=DISTANCES)


def test_an_option_of_an_evaluator_is_the_answer():
    assert results()["map"] == pytest.approx(MAP)
    explanation = diagnose(results(), expected=round(100 * MAP * 2 / 3, 2), measure="map")
    first, *_ = explanation.conventions
    assert first.options == {"empty_target_action": "neg"}
    assert first.call == "evaluate_scores(..., empty_target_action='neg')['map']"
    assert first.value == pytest.approx(MAP * 2 / 3)
    assert "torchmetrics.retrieval" in explanation.evaluators
    lines = str(explanation).splitlines()
    assert re.match(r"Expected 36.11: \d+ of \d+ conventions give it, from 0.0000 to ", lines[0])
    assert lines[1] == "  mAP 0.3611: queries without a positive count 0"
    assert "RetrievalMAP of torchmetrics.retrieval (1.9.0, " in str(explanation)


def test_samples_are_ranked_again_where_a_convention_needs_it():
    kept = evaluate_scores(None, **LABELS, distances=DISTANCES, same_camera="keep")["map"]
    (convention,) = diagnose(results(), expected=f"{kept:.5f}", measure="map").conventions
    assert dict(convention.options) == {"same_camera": "keep"}
    assert convention.words == ("items of the query's camera are kept",)


def test_one_measure_for_another_is_tried_unless_a_measure_is_named():
    expected = f"{results()['rank_5']:.3f}"
    first, *_ = diagnose(results(), expected=expected).conventions
    assert first.title == "Rank-5"
    assert diagnose(results(), expected="0.4321", measure="rank_5").conventions == ()


def test_two_changes_are_apart_with_the_chance_that_they_fit():
    both = evaluate_scores(None, **LABELS, distances=DISTANCES, rule="trapezoid", same_camera="keep")["map"]
    explanation = diagnose(results(), expected=f"{both:.6f}", measure="map")
    assert explanation.conventions == ()
    assert {"rule": "trapezoid", "same_camera": "keep"} in [dict(pair.options) for pair in explanation.pairs]
    assert 0 < explanation.chance < 1
    assert "Possible by chance, two changes together" in str(explanation)


def test_the_nearest_numbers_are_named_where_nothing_fits():
    explanation = diagnose(results(), expected="0.912345", measure="map")
    assert explanation.conventions == explanation.pairs == ()
    assert len(explanation.nearest) == 3
    assert explanation.lowest <= MAP <= explanation.highest
    assert str(explanation).startswith("Expected 0.912345: none of ")


def embedded(metric):
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(40, 4, generator=generator)
    metric.update(embeddings[:10], torch.arange(10) % 5, torch.arange(10) % 2, is_query=True)
    metric.update(embeddings[10:], torch.arange(30) % 5, torch.arange(30) % 2, is_query=False)
    return metric


@pytest.mark.parametrize("kind", [ReIDMeanAP, ReIDMetrics])
def test_a_metric_is_searched_and_stays_as_it_is(kind):
    metric = embedded(kind())
    by_distance = embedded(ReIDMeanAP(similarity="euclidean")).compute()
    explanation = diagnose(metric, expected=f"{float(by_distance):.6f}", measure="map")
    assert {"similarity": "euclidean"} in [dict(convention.options) for convention in explanation.conventions]
    assert explanation.conventions[0].call.startswith("ReIDMetrics(")
    assert all(member._computed is None for member in metric.modules() if hasattr(member, "_computed"))


def test_lists_are_searched_as_far_as_ranks_go():
    lists = evaluate_lists([[3, 1, 2], [5, 4, 6]], [[1, 9], [5, 6]])
    explanation = diagnose(lists, expected=(1 / 2 + (1 + 2 / 3) / 2) / 2, measure="map")
    assert {"normalizer": "hits"} in [dict(convention.options) for convention in explanation.conventions]
    assert "Conventions that need samples that can be ranked again were not tried." in str(explanation)


@pytest.mark.parametrize("way", ["samples", "results of embeddings"])
def test_results_of_a_function_are_searched_with_or_without_their_samples(way):
    generator = torch.Generator().manual_seed(0)
    samples = {"query": torch.randn(10, 4, generator=generator), "query_identities": torch.arange(10) % 3}
    given = evaluate(**samples)
    own = evaluate(**samples, rule="trapezoid")["map"]
    explanation = diagnose(given, samples if way == "samples" else None, expected=f"{own:.5f}")
    assert {"rule": "trapezoid"} in [dict(convention.options) for convention in explanation.conventions]


@pytest.mark.parametrize(
    ("number", "lowest", "highest"),
    [
        (56.3, 0.5625, 0.5635),
        ("56.30 %", 0.56295, 0.56305),
        (0.563, 0.5625, 0.5635),
        ("0.5630", 0.56295, 0.56305),
        ("5.63e1", 0.5625, 0.5635),
        (0.1234567890123, 0.123456289, 0.123457289),
        ("0.4%", 0.0035, 0.0045),
        (1, 0.5, 1.5),
    ],
)
def test_the_digits_of_a_number_are_its_tolerance(number, lowest, highest):
    reading = Expected.of(number).read(is_share=True)
    assert (reading.value - reading.tolerance, reading.value + reading.tolerance) == pytest.approx((lowest, highest))
    assert reading.equals(lowest)
    assert not reading.equals(lowest - 1e-6)


def test_a_rank_is_no_share():
    assert Expected.of(2.5).read(is_share=False).value == 2.5


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"expected": -0.1}, ValueError, "`expected` must be a number of at least 0, such as .*; got '-0.1'"),
        ({"expected": "half"}, ValueError, "got 'half'"),
        ({"expected": float("nan")}, ValueError, "got 'nan'"),
        ({"expected": "9e400"}, ValueError, "`expected` must be a finite number; got '9e400'"),
        ({"expected": "0e400"}, ValueError, "`expected` must be a finite number; got '0e400'"),
        ({"expected": [0.5]}, TypeError, "`expected` must be a float or a text with its digits; got list"),
        ({"measure": "map"}, ValueError, "`measure` must come with `expected`; got 'map' alone"),
        ({"expected": 0.5, "measure": "mAp"}, ValueError, "`measure` must be of .*; got 'mAp'"),
    ],
)
def test_what_is_no_number_and_no_measure_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        diagnose(results(), **options)


@pytest.mark.parametrize(
    ("way", "lacks"), [("retrieval: embeddings", "all samples"), ("detection: metric", "all images")]
)
def test_several_processes_say_what_was_not_tried(way, lacks):
    evaluations = ways()[way].evaluations()
    alone = search_of(evaluations).explain("0.0123")
    several = search_of([(results, samples, SimpleNamespace(size=2)) for results, samples, _ in evaluations])
    explanation = several.explain("0.0123")
    assert f"{lacks} on one process" in explanation.lacks
    assert explanation.num_conventions < alone.num_conventions
