"""Every number is the same at every entry point, whatever two fields of whatever protocol are changed together.

A number that some entry point computes by another field, or by a field of another ranking, differs there. Protocols are
drawn, and fields and their values are read from the dataclass: a new field needs its values in `VALUES` unless its type
lists them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import GalleryDraw
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import LABEL_OPTIONS
from tests.contracts.entry_points import (
    FUNCTIONS,
    METRICS,
    collection,
    feed,
    numbers_of,
    results_of_evaluate,
    words_of_refusal,
)
from tests.contracts.expected import Numbers, expected_numbers
from tests.contracts.problems import EXTRA_LABELS, Problem, Row, make_problem
from tests.contracts.test_numbers import difference
from tests.contracts.test_protocols import LABEL_OF_FIELD, lists_of
from tests.profiles import examples

VALUES: dict[str, Sequence[Any]] = {
    "camera_map": ((), ((3, 2), (4, 1))),
    "search_cameras": (None, (1, 2)),
    "junk_identities": ((), (-1,), (-1, 2)),
    "radius": (None, 10.0),
    "must_agree": ((), ("side",), ("cameras",)),
    "must_differ": ((), ("batch",), ("cameras", "batch")),
    "positive_lists": (("ok",), ("ok", "good")),
    "junk_lists": (("junk", "good"), ("junk",)),
    "k": (None, 3),
    "ties": (None, *TIE_POLICIES),
    "gallery_draw": (None, GalleryDraw(), GalleryDraw(None), GalleryDraw(per="identity_and_camera")),
}
"""values of fields whose type does not list them"""
NOT_CHANGED = {
    **dict.fromkeys(("name", "source"), "words"),
    **dict.fromkeys(("similarity", "reads_codes"), "how scores come about, before they are ranked"),
    "reports": "all numbers that a protocol can report are compared",
    "missing_identities": "rows of its own, as the reference takes samples without an identity for junk",
}
COMPARED = ("map", "minp", "rank_1", "rank_5", "precision_5", "ndcg_5")
"""numbers, some of which each field decides"""
PLAIN = Protocol("plain", "nobody")


def values_by_field(protocol: type = Protocol) -> dict[str, Sequence[Any]]:
    """The values of each field: those in `VALUES`, or those that its type lists."""
    kinds = get_type_hints(protocol)
    values: dict[str, Sequence[Any]] = {}
    for field in fields(protocol):
        kinds_of_field = (kinds[field.name], *get_args(kinds[field.name]))
        words = [word for kind in kinds_of_field if get_origin(kind) is Literal for word in get_args(kind)]
        if type(None) in kinds_of_field:
            words.insert(0, None)
        if kinds[field.name] is bool:
            words = [False, True]
        if field.name not in NOT_CHANGED:
            values[field.name] = VALUES.get(field.name, words)
    return values


def changed_protocol(name: str, pair: Sequence[str], random: Random) -> Protocol:
    """A protocol with drawn values of two fields, which reports all that it can.

    Raises:
        ValueError: fields that do not fit each other.
    """
    changes = {field: random.choice(values_by_field()[field]) for field in pair}
    return reporting_all(replace(PROTOCOLS[name], **changes, reports=("map", "rank_1")))


def reporting_all(protocol: Protocol) -> Protocol:
    reports = [report for report in COMPARED if can_report(protocol, report)]
    return replace(protocol, reports=tuple(reports))


def can_report(protocol: Protocol, report: str) -> bool:
    measure, k = parse_report(report)
    return not protocol.draws(measure) or measure.has_expectation(k)


def problem_of(protocol: Protocol, seed: int) -> Problem:
    """A problem with the labels or the lists that a protocol reads."""
    options = {}
    for name in values_by_field():
        if getattr(protocol, name) != getattr(PLAIN, name):
            options[name] = getattr(protocol, name)
    labels = ["identities", "cameras"]
    labels += [label for field, label in LABEL_OF_FIELD.items() if field in options]
    labels += ["labels"] if {*protocol.must_agree, *protocol.must_differ} & EXTRA_LABELS.keys() else []
    without_effect = {"ties", "needs_groups", "needs_lists"}
    without_effect |= {*LABEL_OPTIONS, "cmc_same_camera"} if protocol.needs_lists else {"positive_lists", "junk_lists"}
    if "camera_map" in options:
        options["camera_map"] = dict(protocol.camera_map)
    row = Row(
        protocol.name,
        () if protocol.needs_lists else tuple(labels),
        options={name: value for name, value in options.items() if name not in without_effect},
        ties=protocol.ties or "pessimistic",
        truth="lists by name" if protocol.needs_lists else None,
        has_junk=not protocol.queries_in_draw,
        reports=protocol.reports,
    )
    problem = make_problem(row, seed)
    return replace(problem, lists=lists_of(protocol, problem)) if protocol.needs_lists else problem


def from_file(results: RetrievalResults, folder: Path) -> Numbers:
    return numbers_of(RetrievalResults.load(results.save(folder / "results.npz")))


def by_file(problem: Problem, folder: Path) -> Numbers:
    return from_file(results_of_evaluate(problem), folder)


def by_file_of_metric(problem: Problem, folder: Path) -> Numbers:
    metric = collection(problem)
    feed(metric, problem)
    return from_file(metric.results(), folder)


ENTRY_POINTS = {
    **FUNCTIONS,
    **METRICS,
    "a file of results": replace(FUNCTIONS["evaluate"], evaluate=by_file),
    "a file of a metric's results": replace(METRICS["the collection"], evaluate=by_file_of_metric),
}


def reference_knows(problem: Problem) -> bool:
    """Whether the reference has the numbers: of draws from the queries it knows those of the benchmark alone."""
    options = problem.row.options
    is_benchmark = options.get("gallery_draw") == GalleryDraw() and "search_cameras" not in options
    return is_benchmark or not options.get("queries_in_draw")


def faults_of(problem: Problem, folder: Path) -> list[str]:
    """What differs between the reference and the entry points; all of those that know the features refuse, or none."""
    numbers: dict[str, Numbers] = {}
    refusals: dict[str, str] = {}
    faults = []
    for name, entry_point in ENTRY_POINTS.items():
        words = [words for words in words_of_refusal(problem.row, entry_point) if words in entry_point.refuses.values()]
        try:
            numbers[name] = entry_point.evaluate(problem, folder)
        except (TypeError, ValueError, RuntimeError, AssertionError) as error:
            message = " ".join(str(error).split())
            if not any(re.search(text, message) for text in words):
                refusals[name] = message
            continue
        if words:
            faults.append(f"{name} gives numbers where it must refuse: {words}")
    if refusals and numbers:
        faults.append(f"{[*numbers]} give numbers where others refuse: {refusals}")
    if refusals or not numbers:
        return faults
    expected = expected_numbers(problem) if reference_knows(problem) else numbers["evaluate"]
    for name, found in numbers.items():
        text = difference(found, expected, ENTRY_POINTS[name])
        if text:
            faults.append(f"{name}: {text}")
    return faults


@pytest.mark.parametrize("name", values_by_field())
def test_a_field_of_protocols_has_values_to_draw(name):
    assert len(values_by_field()[name]) > 1, f"add values of {name!r} to `VALUES` in {__file__}, or a reason why not"


def test_a_new_field_without_values_would_be_found():
    @dataclass(frozen=True)
    class Longer(Protocol):
        weather: str = "rain"
        season: Literal["summer", "winter"] = "summer"

    values = values_by_field(Longer)
    assert (values["weather"], values["season"]) == ([], ["summer", "winter"])


@given(
    st.sampled_from(sorted(PROTOCOLS)),
    st.sampled_from(list(combinations(values_by_field(), 2))),
    st.integers(0, 2**16),
)
@examples(24)
@pytest.mark.filterwarnings("ignore")
def test_numbers_are_the_same_at_all_entry_points_for_two_changed_fields(name, pair, seed):
    random = Random(seed)  # noqa: S311 - nothing is to be kept secret
    try:
        protocol = changed_protocol(name, pair, random)
    except ValueError:
        return  # `Protocol` says that the values do not fit each other
    if protocol.needs_groups and (protocol.needs_lists or protocol.leave_one_out):
        return  # neither lists nor one set of samples have groups
    with TemporaryDirectory() as folder:
        assert faults_of(problem_of(protocol, seed), Path(folder)) == []


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "changes",
    [{}, {"same_camera": "all", "cmc_same_camera": "keep"}, {"same_camera": "keep", "cmc_same_camera": "all"}],
)
@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
def test_drawn_galleries_follow_the_camera_rule_of_each_number(changes, seed, tmp_path):
    protocol = replace(PROTOCOLS["cuhk03_openreid"], gallery_draw_for_map=True, **changes)
    assert faults_of(problem_of(reporting_all(protocol), seed), tmp_path) == []
