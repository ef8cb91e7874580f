"""The contract of a sample label: what every row of `LABELS` must satisfy, and rows that do not."""

import inspect
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints
from unittest import mock

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, _names, evaluate, evaluate_lists, evaluate_scores
from reid_torchmetrics.functional.retrieval import Protocol, find_protocol, find_relevance
from reid_torchmetrics.functional.retrieval.evaluation import ProtocolOptions
from reid_torchmetrics.functional.retrieval.evaluation.evaluate import EvaluateOptions
from reid_torchmetrics.functional.retrieval.relevance import (
    EXTRA,
    LABEL_OPTIONS,
    LABEL_RULES,
    LABELS,
    SIDES,
    BatchLabels,
    SampleLabels,
    why_needed,
)
from reid_torchmetrics.functional.retrieval.relevance.labels import Label
from reid_torchmetrics.tasks import RankCounter
from reid_torchmetrics.tasks.streams import rank_counter
from tests.contracts import expected
from tests.contracts.problems import DRAWN, SINGULAR, BothSides, Problem, Row, make_problem
from tests.contracts.rows import ROWS
from tests.profiles import each_row

LABELS_PY = "functional/retrieval/relevance/labels.py"
RANK_COUNTER_PY = "tasks/streams/rank_counter.py"
POSITIONAL = ("identities", "cameras")
"""labels with a place of their own in signatures"""


def missing_of(label: Label) -> list[str]:
    """What a row of `LABELS` lacks, each with what to add."""
    missing = [*missing_names(label), *missing_rules(label), *missing_from_tests(label)]
    return [f"{label.name!r} {text}" for text in missing]


def missing_names(label: Label) -> list[str]:
    """The signatures, types and files that do not know a label."""
    name = label.name
    is_streamed = label.decides and label.sides == SIDES
    keys = {
        f"`BatchLabels` in {LABELS_PY}": (BatchLabels, [name], is_streamed or name in ("index", *POSITIONAL)),
        f"`SampleLabels` in {LABELS_PY}": (SampleLabels, [name], not is_streamed or name in POSITIONAL),
        f"`QueryLabels` and `SideLabels` in {LABELS_PY}": (
            EvaluateOptions,
            [f"{side}_{name}" for side in label.sides],
            name in ("index", *POSITIONAL),
        ),
        f"`StreamOptions` in {RANK_COUNTER_PY}": (
            rank_counter.StreamOptions,
            [f"positive_{name}"],
            not is_streamed or name in POSITIONAL,
        ),
    }
    missing = [
        f"is not among the keys of {where}: add `{key}`"
        for where, (typed, names, is_none) in keys.items()
        for key in names
        if not is_none and key not in get_type_hints(typed)
    ]
    if name != EXTRA and name not in get_args(_names.LabelField):
        missing.append(
            "is no `LabelField`: add it in _names.py, by which files have it; `FIELD_NAMES` in data/array_names.py may"
            " say what else a column is called"
        )
    return missing


def missing_rules(label: Label) -> list[str]:
    """The places that do not know the option of a label's name."""
    name = label.name
    if not label.rules:
        return []
    missing = []
    default, *_ = label.rules
    if default != "keep":
        missing.append(f"has rules that begin with {default!r}: the first one must be 'keep', which drops nothing")
    if name not in LABEL_OPTIONS:
        missing.append("is no option of labels: `LABEL_OPTIONS` in from_labels.py lists `LABEL_RULES`")
    parameter = inspect.signature(find_relevance).parameters.get(name)
    if parameter is None or parameter.default != default:
        missing.append(f"is no option of `find_relevance`: add `{name}={default!r}`, and to `label_rules` there")
    if name not in {field.name: field.default for field in fields(Protocol)}:
        missing.append("is no field of `Protocol`: add one in functional/retrieval/evaluation/protocol.py")
    kinds = get_type_hints(ProtocolOptions)
    if name not in kinds or set(get_args(get_args(kinds[name])[0])) != label.rules.keys():
        missing.append(
            "is no key of `RelevanceOptions` in functional/retrieval/evaluation/protocol.py with the type"
            f" {list(label.rules)}: add it, and a type in _names.py"
        )
    if name not in get_type_hints(rank_counter.StreamOptions):
        missing.append(f"is no key of `StreamOptions` in {RANK_COUNTER_PY}: add `{name}`")
    return missing


def missing_from_tests(label: Label) -> list[str]:
    """The tables of tests that lack a label, so that no entry point would be tried with it."""
    name = label.name
    missing = []
    if name not in DRAWN:
        missing.append("has no values in `DRAWN` of tests/contracts/problems.py: add how they are drawn")
    if label.decides and name != EXTRA and name not in SINGULAR:
        missing.append("has no name for the reference in `SINGULAR` of tests/contracts/problems.py: add it")
    if not any(name in row.labels for row in ROWS):
        missing.append("has no `Row` in tests/contracts/rows.py: add one, so that all entry points are tried with it")
    if label.rules and name not in expected.RULES:
        missing.append("is no rule of the reference: add an argument to `sort_gallery` in tests/reference/relevance.py")
    without_row = [rule for rule in label.rules if not any(row.options.get(name) == rule for row in ROWS)]
    missing += [
        f"has no `Row` with the option {name}={rule!r} in tests/contracts/rows.py: add one" for rule in without_row
    ]
    return missing


def check_label(label: Label) -> None:
    """Raise an AssertionError unless a row keeps the contract of a label; its message says what to add."""
    missing = missing_of(label)
    assert not missing, "\n".join(["", *missing])
    check_values(label)
    check_entry_points(label)


def check_values(label: Label) -> None:
    """A label has its dtype, is checked by its row, and is needed by its rules and only then."""
    values = label.empty(length=3, device=torch.device("cpu"))
    assert values.dtype == label.dtype, f"{label.name!r}: `empty` must have its dtype {label.dtype}"
    for rule in label.rules:
        reasons = why_needed({label.name: rule})
        assert (label.name in reasons) == (rule != "keep"), f"{label.name!r} must be needed by its rules but 'keep'"
    if not label.is_extra:
        with pytest.raises((TypeError, ValueError), match="`argument`"):
            label.check("argument", object(), 3)


def check_entry_points(label: Label) -> None:
    """One call, lists, metrics and streams take a label, under each of its rules."""
    for rule in label.rules or (None,):
        problem = problem_with(label, rule)
        try_functions(label, problem)
        try_metric(problem)
        if label.decides and label.sides == SIDES:
            try_stream(problem)


def problem_with(label: Label, rule: str | None) -> Problem:
    """A problem whose samples have identities and a label, under a rule of the label's name."""
    options: dict[str, Any] = {} if rule is None else {label.name: rule}
    if label.name == "positions":
        options["radius"] = 15.0
    if label.is_extra:
        options["must_agree"] = ("side",)
    labels = ("identities",) if label.name == "identities" else ("identities", label.name)
    problem = make_problem(Row(label.name, labels, options=options, has_junk=False))
    if label.sides == SIDES:
        return problem
    one_side = {side: getattr(problem.labels[label.name], side) if side in label.sides else None for side in SIDES}
    return replace(problem, labels={**problem.labels, label.name: BothSides(**one_side)})


def try_functions(label: Label, problem: Problem) -> None:
    """The one-call functions take a label, but for `index`, which numbers the samples of a metric."""
    if not label.decides:
        return
    protocol = find_protocol("market1501").with_options(problem.row.options)
    labels = problem.labels_of("query_", "gallery_")
    by_embeddings = evaluate(problem.query, problem.gallery, similarity="dot", protocol=protocol, **labels)
    by_scores = evaluate_scores(problem.scores, protocol=protocol, **labels)
    assert repr(by_scores.means) == repr(by_embeddings.means), f"{label.name!r}: scores and embeddings differ"
    if label.sides == SIDES:
        order = problem.scores.argsort(descending=True, dim=1, stable=True)
        evaluate_lists(order, protocol=protocol, **labels)


def try_metric(problem: Problem) -> None:
    """A metric takes a label in batches."""
    metric = ReIDMeanAP(protocol=find_protocol("market1501").with_options(problem.row.options), similarity="dot")
    for side in SIDES:
        labels = {
            name: problem.as_argument(name, getattr(values, side))
            for name, values in problem.labels.items()
            if getattr(values, side) is not None
        }
        metric.update(getattr(problem, side), is_query=side == "query", **labels)
    metric.results()


def try_stream(problem: Problem) -> None:
    """A stream takes a label of queries, of positives and of blocks."""
    places = range(len(problem.gallery))
    others = [place for place in places if is_other(problem, place)]
    related = [place for place in places if place not in others]
    of_positives = {
        name: BothSides(values.query, [values.gallery[place] for place in related])
        for name, values in problem.labels.items()
    }
    counter = RankCounter(
        problem.query,
        problem.gallery[related],
        **replace(problem, labels=of_positives).labels_of("query_", "positive_"),
        **problem.row.options,
        similarity="dot",
    )
    if not others:
        return
    labels = {
        name: problem.as_argument(name, [values.gallery[place] for place in others])
        for name, values in problem.labels.items()
    }
    counter.ranks(counter.count(problem.gallery[others], key=0, **labels))


def is_other(problem: Problem, place: int) -> bool:
    """Whether a gallery item is a positive of no query."""
    if "positions" in problem.labels:
        return False
    return problem.labels["identities"].gallery[place] not in problem.labels["identities"].query


@each_row("name", LABELS)
@pytest.mark.filterwarnings("ignore")
def test_a_label_keeps_its_contract(name):
    assert LABELS[name].name == name
    check_label(LABELS[name])


def test_streams_take_the_options_that_type_checkers_are_told():
    labels = {f"{side}_{name}" for name in rank_counter._FURTHER_LABELS for side in ("query", "positive")}
    assert labels | {*LABEL_OPTIONS, "self_index"} == get_type_hints(rank_counter.StreamOptions).keys()
    assert {*rank_counter._FURTHER_LABELS} == get_type_hints(SampleLabels).keys()


def test_a_rule_that_nobody_chose_is_its_first_value(monkeypatch):
    monkeypatch.setitem(LABEL_RULES, "mood", {"keep": "drop nothing", "drop_same": "drop the same mood"})
    monkeypatch.setitem(LABELS, "mood", MOOD)
    assert why_needed({"radius": 2.0}).keys() == {"positions"}
    counter = RankCounter(torch.eye(2), torch.eye(2), [1, 2], [1, 2])
    assert counter.ranks(0).rank.tolist() == [1, 1]
    assert "mood" in why_needed({"mood": "drop_same"})


MOOD = Label("mood", "mood", rules={"keep": "drop nothing", "drop_same": "drop the same mood"})


def test_a_label_that_nothing_else_knows_is_told_what_to_add():
    with mock.patch.dict(LABELS, {"mood": MOOD}), pytest.raises(AssertionError) as caught:
        check_label(MOOD)
    text = str(caught.value)
    for words in (
        f"'mood' is not among the keys of `SampleLabels` in {LABELS_PY}: add `mood`",
        f"'mood' is not among the keys of `QueryLabels` and `SideLabels` in {LABELS_PY}: add `gallery_mood`",
        f"'mood' is not among the keys of `StreamOptions` in {RANK_COUNTER_PY}: add `positive_mood`",
        "'mood' is no `LabelField`: add it in _names.py",
        "'mood' is no field of `Protocol`: add one in functional/retrieval/evaluation/protocol.py",
        "'mood' is no option of `find_relevance`: add `mood='keep'`, and to `label_rules` there",
        "'mood' has no values in `DRAWN` of tests/contracts/problems.py: add how they are drawn",
        "'mood' has no `Row` with the option mood='drop_same' in tests/contracts/rows.py: add one",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (replace(LABELS["clothes"], rules={"drop_same": "a", "keep": "b"}), "the first one must be 'keep'"),
        (
            replace(LABELS["clothes"], rules={"keep": "a", "drop_all": "b"}),
            r"with the type \['keep', 'drop_all'\]: add it",
        ),
        (replace(LABELS["sequences"], sides=("gallery",), name="night"), "'night' is no `LabelField`"),
    ],
)
def test_a_label_that_breaks_the_contract_is_told_so(label, message):
    with pytest.raises(AssertionError, match=message):
        check_label(label)
