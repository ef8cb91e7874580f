"""Each point at which a user extends the package, through each entry point: the number, or what to do instead."""

import copy
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from reid_torchmetrics import (
    EmbeddingMetric,
    GalleryDraw,
    Protocol,
    ReIDMeasure,
    ReIDMetrics,
    command,
    compare,
    evaluate,
    evaluate_lists,
    evaluate_scores,
    write_report,
)
from reid_torchmetrics.functional.retrieval import (
    MEASURES,
    PROTOCOLS,
    Measure,
    RetrievalResults,
    mean_over_queries,
    median_over_queries,
)
from reid_torchmetrics.tasks import Comparison, RankCounter, evaluate_stream

NUM_QUERIES, NUM_ITEMS = 12, 40
GENERATOR = torch.Generator().manual_seed(0)
IDENTITIES = torch.arange(NUM_QUERIES + NUM_ITEMS) % 4
CAMERAS = torch.arange(NUM_QUERIES + NUM_ITEMS) % 3
SAMPLES = torch.randn(4, 8, generator=GENERATOR)[IDENTITIES] + torch.randn(len(IDENTITIES), 8, generator=GENERATOR)
QUERY, GALLERY = SAMPLES[:NUM_QUERIES], SAMPLES[NUM_QUERIES:]
LABELS = {
    "query_identities": IDENTITIES[:NUM_QUERIES],
    "gallery_identities": IDENTITIES[NUM_QUERIES:],
    "query_cameras": CAMERAS[:NUM_QUERIES],
    "gallery_cameras": CAMERAS[NUM_QUERIES:],
}


def half_in_ten(ranks):
    """Share of queries with half of their positives among the first ten."""
    query = torch.repeat_interleave(torch.arange(ranks.num_queries), ranks.num_positives)
    found = torch.bincount(query[ranks.rank <= 10], minlength=ranks.num_queries)
    return (2 * found >= ranks.num_positives).double()


class HalfInTen(EmbeddingMetric):
    """Share of queries with half of their positives among the first ten."""

    def summarize(self, ranks):
        values = half_in_ten(ranks).masked_fill(ranks.num_positives == 0, torch.nan)
        return mean_over_queries(values, empty_target_action=self.empty_target_action)


class WholeInTen(HalfInTen):
    """Share of queries with half of their positives among the first ten, computed at once."""

    def per_query(self, ranks):
        return half_in_ten(ranks)


class MedianFirst(EmbeddingMetric):
    """Median of the first ranks."""

    def summarize(self, ranks):
        first = ranks.rank[ranks.num_positives.cumsum(0) - ranks.num_positives]
        return median_over_queries(first.double())


def row_function(ranks, _options, _k):
    return half_in_ten(ranks)


def doubled(query, gallery):
    return 2 * query @ gallery.mT


def expected_number() -> float:
    """The number by its definition, with Market-1501's rule and the cosine."""
    unit = torch.nn.functional.normalize(SAMPLES, dim=1)
    scores = unit[:NUM_QUERIES] @ unit[NUM_QUERIES:].T
    hits = []
    for query in range(NUM_QUERIES):
        same = LABELS["gallery_identities"] == LABELS["query_identities"][query]
        junk = same & (LABELS["gallery_cameras"] == LABELS["query_cameras"][query])
        order = scores[query][~junk].argsort(descending=True)
        is_positive = same[~junk][order]
        hits.append(2 * int(is_positive[:10].sum()) >= int(is_positive.sum()))
    return sum(hits) / NUM_QUERIES


@dataclass
class Extension:
    """A value of a user's own, and the number that shows that it was used."""

    options: Callable[[], dict[str, Any]]
    number: str = "map"
    refused: dict[str, str] = field(default_factory=dict)
    """entry points that refuse it, with words of the message"""


NOT_IN_COMMAND = {"command": r"`--reports` must be of"}
NOT_SAVED = {"save and load": r"`save` must write what `load` can read; got .* `MEASURES` lacks: add yours, "}
OWN_MEASURE = {**NOT_IN_COMMAND, **NOT_SAVED}
MINE = Protocol("mine", "a test", same_camera="keep", reports=("map", "precision_5"))

EXTENSIONS = {
    "row": Extension(
        lambda: {"reports": (Measure("half_in_ten", row_function, "own"), "map")}, "half_in_ten", OWN_MEASURE
    ),
    "function": Extension(lambda: {"reports": (half_in_ten, "map")}, "half_in_ten", OWN_MEASURE),
    "metric": Extension(lambda: {"reports": (HalfInTen(), "map")}, "half_in_ten", OWN_MEASURE),
    "metric with values": Extension(lambda: {"reports": (WholeInTen(), "map")}, "whole_in_ten", OWN_MEASURE),
    "row in MEASURES": Extension(lambda: {"reports": ("registered", "map")}, "registered"),
    "protocol": Extension(lambda: {"protocol": MINE}, "precision_5", {"command": "`--protocol` must be one of"}),
    "protocol in PROTOCOLS": Extension(lambda: {"protocol": "mine"}, "precision_5"),
    "similarity": Extension(
        lambda: {"similarity": doubled},
        "map",
        {
            "command": "`--similarity` must be one of",
            "scores": "Unexpected keyword arguments: `similarity`",
            "lists": "Unexpected keyword arguments: `similarity`",
        },
    ),
}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(MEASURES, "registered", Measure("registered", row_function, "own"))
    monkeypatch.setitem(PROTOCOLS, "mine", MINE)


def by_evaluate(options, _path):
    return evaluate(QUERY, GALLERY, **LABELS, **options)


def by_scores(options, _path):
    unit = torch.nn.functional.normalize(SAMPLES, dim=1)
    return evaluate_scores(unit[:NUM_QUERIES] @ unit[NUM_QUERIES:].T, **LABELS, **options)


def by_lists(options, _path):
    unit = torch.nn.functional.normalize(SAMPLES, dim=1)
    lists = (unit[:NUM_QUERIES] @ unit[NUM_QUERIES:].T).argsort(1, descending=True)
    return evaluate_lists(lists, **LABELS, **{"protocol": "market1501"} | options)


def by_stream(options, _path):
    protocol = options.get("protocol", "market1501")
    protocol = PROTOCOLS[protocol] if isinstance(protocol, str) else protocol
    protocol = protocol.with_options({name: value for name, value in options.items() if name == "reports"})
    counter = RankCounter(  # each item is of an identity that is searched, so that none is left to count
        QUERY,
        GALLERY,
        *(LABELS[name] for name in ("query_identities", "gallery_identities", "query_cameras", "gallery_cameras")),
        similarity=options.get("similarity", "cosine"),
        **protocol.relevance_options,
    )
    return evaluate_stream(counter, 0, protocol=protocol)


def by_collection(options, _path):
    metrics = updated(ReIDMetrics(**options))
    results = metrics.results()
    for name, value in metrics.compute().items():
        assert float(value) == pytest.approx(results[name])
    return results


def by_metric(options, _path):
    reports = options.pop("reports", None)
    metric = updated(ReIDMeasure(reports[0], **options) if reports else ReIDMeasure("precision_5", **options))
    results = metric.results(camera_pairs=True, nearest=3)
    assert float(metric.compute()) == pytest.approx(results[str(metric.metric)])
    assert str(metric.metric) in repr(metric)
    assert results.by_camera_pair(str(metric.metric)).mean.shape == (3, 3)
    return results


def updated(metric):
    metric.update(SAMPLES, IDENTITIES, CAMERAS, is_query=torch.arange(len(SAMPLES)) < NUM_QUERIES)
    return metric


def by_saved_file(options, path):
    results = by_evaluate(options, path)
    return RetrievalResults.load(results.save(path / "results.npz"))


def by_command(options, path):
    sides = {"query": QUERY, "gallery": GALLERY}
    for side, samples in sides.items():
        labels = {name.partition("_")[2]: value for name, value in LABELS.items() if name.startswith(side)}
        np.savez(path / f"{side}.npz", embeddings=samples, **labels)
    words = [str(path / "query.npz"), str(path / "gallery.npz"), "--save", str(path / "of_command.npz")]
    for name, value in options.items():
        values = value if isinstance(value, tuple) else [value]
        names = [getattr(getattr(one, "measure", one), "name", getattr(one, "__name__", one)) for one in values]
        words += [f"--{name}", *(str(one).lower() for one in names)]
    if options.get("protocol") is MINE:
        words[-1] = "of_mine"
    assert command.main(["evaluate", *words]) == 0
    return RetrievalResults.load(path / "of_command.npz")


DOORS = {
    "evaluate": by_evaluate,
    "scores": by_scores,
    "lists": by_lists,
    "stream": by_stream,
    "collection": by_collection,
    "metric": by_metric,
    "save and load": by_saved_file,
    "command": by_command,
}
"""the entry points, each with the results of an extension"""


def number_of(extension, results):
    """The expected number, by its definition or with the built-in words for the same rule."""
    if extension.number in ("half_in_ten", "whole_in_ten", "registered"):
        return expected_number()
    if extension.number == "map":
        return evaluate(QUERY, GALLERY, **LABELS, similarity="dot")["map"]
    assert results.protocol.name == "mine"
    return evaluate(QUERY, GALLERY, **LABELS, same_camera="keep", reports=("precision_5",))["precision_5"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_reaches_an_entry_point_or_is_refused_with_what_to_do(name, door, tmp_path, capsys):
    extension = EXTENSIONS[name]
    refusal = extension.refused.get(door)
    if refusal is None:
        results = DOORS[door](extension.options(), tmp_path)
        assert results[extension.number] == pytest.approx(number_of(extension, results))
    elif door == "command":
        with pytest.raises(AssertionError):
            DOORS[door](extension.options(), tmp_path)
        assert re.search(refusal, capsys.readouterr().err)
    else:
        with pytest.raises((TypeError, ValueError), match=refusal):
            DOORS[door](extension.options(), tmp_path)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_results_of_an_extension_are_shown_compared_and_copied(name):
    extension = EXTENSIONS[name]
    number = extension.number
    results = evaluate(QUERY, GALLERY, **LABELS, **extension.options())
    others = evaluate(QUERY + 0.3, GALLERY, **LABELS, **extension.options())
    assert number in str(results)
    assert number in results.to_frame().index
    assert json.loads(json.dumps(results.to_dict()))["measures"][number]["value"] == results[number]
    assert number in results.averaged
    assert results.interval(number, num_resamples=100).low <= results[number]
    assert len(results.hardest(3, by=number)) <= 3
    assert len(results.by_camera(number).mean) == 3
    assert results.by_camera_pair(number).mean.shape == (3, 3)
    comparison = compare({"a": results, "b": others}, num_resamples=100, num_permutations=100)
    assert comparison.differences[number].difference == pytest.approx(others[number] - results[number])
    title = number.replace("_", " ").capitalize().partition(" 5")[0] if number != "map" else "mAP"
    for table in (results.to_markdown("a"), results.to_latex("a"), comparison.to_markdown()):
        assert title in table
    assert copy.deepcopy(results).means == results.means
    copied = pickle.loads(pickle.dumps(replace(results, problem=None)))
    assert copied.means == results.means
    assert copied.hardest(3, by=number).tolist() == results.hardest(3, by=number).tolist()


def test_reports_and_figures_show_an_own_measure(tmp_path):
    results = evaluate(QUERY, GALLERY, **LABELS, reports=(half_in_ten, "map"))
    page = write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Half in ten" in page
    results.plot()
    plt.close("all")


def test_a_metric_whose_value_is_no_mean_is_refused_in_reports_and_left_out_of_its_results_with_a_warning():
    with pytest.raises(ValueError, match="`MedianFirst` must have a value that is the mean of its values"):
        evaluate(QUERY, GALLERY, **LABELS, reports=(MedianFirst(),))
    metric = updated(MedianFirst())
    with pytest.warns(UserWarning, match="The results lack the value of `MedianFirst`"):
        assert "median_first" not in metric.results()


def test_the_results_of_an_own_metric_do_not_hold_its_samples():
    metric = updated(HalfInTen())
    results = metric.results()
    metric.reset()
    row = next(name for name in results.protocol.reports if name == "half_in_ten").row
    assert results["half_in_ten"] == pytest.approx(expected_number())
    assert [values.shape for values in row.function.args] == [(NUM_QUERIES,)]


def by_short_lists(**options):
    lists = evaluate(QUERY, GALLERY, **LABELS, ties="stable").nearest(5).index
    return evaluate_lists(lists, **LABELS, reports=(WholeInTen(), "map"), **options)


def test_the_values_of_an_own_metric_for_its_whole_gallery_are_not_compared_with_those_of_short_lists():
    lists = by_short_lists()
    exact = evaluate(QUERY, GALLERY, **LABELS, ties="stable", reports=(WholeInTen(), "map"))
    of_metric = updated(WholeInTen(ties="stable")).results()
    assert exact["whole_in_ten"] == of_metric["whole_in_ten"] > lists["whole_in_ten"]
    few = {"num_resamples": 100, "num_permutations": 100}
    assert compare({"exact": exact, "lists": lists}, **few).differences["whole_in_ten"].difference == 0
    assert list(compare({"metric": of_metric, "lists": lists}, **few).differences) == ["map"]


def test_two_own_measures_of_one_name_are_never_taken_for_each_other():
    def row(value):
        return Measure("constant", lambda ranks, *_: torch.full((ranks.num_queries,), value), "own")

    with pytest.raises(ValueError, match="measures of your own with different names; got 'constant' twice"):
        evaluate(QUERY, GALLERY, **LABELS, reports=(row(0.25), "map", row(0.5)))
    protocol = replace(MINE, reports=(row(0.25), "map"))
    for options in ({}, {"k": 3}):
        results = evaluate(QUERY, GALLERY, **LABELS, protocol=protocol, reports=(row(0.5), "map"), **options)
        assert results["constant"] == 0.5


def test_an_own_measure_is_loaded_where_measures_has_it(tmp_path, monkeypatch):
    results = updated(HalfInTen()).results()
    monkeypatch.setitem(MEASURES, "half_in_ten", HalfInTen().measure)
    path = results.save(tmp_path / "results.npz")
    assert RetrievalResults.load(path).means == results.means
    monkeypatch.delitem(MEASURES, "half_in_ten")
    with pytest.raises(ValueError, match=r"a measure that `MEASURES` lacks: .*MEASURES\['half_in_ten'\] = M"):
        RetrievalResults.load(path)


def test_a_comparison_of_an_own_measure_is_saved_where_measures_has_it(tmp_path, monkeypatch):
    results = [evaluate(QUERY + shift, GALLERY, **LABELS, reports=(half_in_ten, "map")) for shift in (0.0, 0.3)]
    comparison = compare(*results, num_resamples=10, num_permutations=10)
    path = tmp_path / "comparison.npz"
    with pytest.raises(ValueError, match=NOT_SAVED["save and load"]):
        comparison.save(path)
    monkeypatch.setitem(MEASURES, "half_in_ten", Measure("half_in_ten", row_function, "own"))
    loaded = Comparison.load(comparison.save(path))
    assert str(loaded) == str(comparison)
    monkeypatch.delitem(MEASURES, "half_in_ten")
    with pytest.raises(ValueError, match=r"a measure that `MEASURES` lacks: .*MEASURES\['half_in_ten'\] = M"):
        Comparison.load(path)


REFUSED = [
    (
        lambda ranks: ranks.rank,
        TypeError,
        r"`reports` must hold functions with a name, or `Measure\('name', function, ",
    ),
    (Measure("map", row_function, "own"), ValueError, "none of `MEASURES`; got 'map'"),
    (Measure("top_5", row_function, "own"), ValueError, "identifiers without a number at the end, .*; got 'top_5'"),
    (Measure("a b", row_function, "own"), ValueError, "identifiers .*; got 'a b'"),
    (Measure("own", lambda *_: 0.5, "own"), ValueError, r"`own` must return a tensor .* \[12\]; got float"),
    (Measure("own", lambda *_: torch.zeros(3), "own"), ValueError, r"`own` must return a tensor .*; got \[3\]"),
    (5, TypeError, "`reports` must hold names only; got 5"),
]


@pytest.mark.parametrize(("report", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_measure_is_refused(report, error, message):
    with pytest.raises(error, match=message):
        evaluate(QUERY, GALLERY, **LABELS, reports=(report,))


def test_drawn_galleries_refuse_an_own_measure():
    protocol = Protocol("drawn", "a test", gallery_draw=GalleryDraw(), reports=("map",))
    with pytest.raises(ValueError, match=r"has expectations of map, .* only; got 'half_in_ten' to report"):
        evaluate(QUERY, GALLERY, **LABELS, protocol=protocol, reports=(half_in_ten,))


def test_a_function_in_the_table_of_measures_is_an_error_that_says_what_it_holds(monkeypatch):
    monkeypatch.setitem(MEASURES, "wrong", half_in_ten)
    with pytest.raises(TypeError, match=r"`MEASURES` must hold rows, `Measure\(name, .*; got .*'wrong'"):
        evaluate(QUERY, GALLERY, **LABELS, reports=("wrong",))


def test_the_name_of_an_own_class_is_free_and_has_no_number_at_its_end():
    for name, expected in {"HalfInTen": "half_in_ten", "Minp": "minp_metric", "Top5": "top5_metric"}.items():
        assert type(name, (HalfInTen,), {})().measure.name == expected
