"""The rows are complete: every label, rule and argument of the source has one, and each decides something."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from reid_torchmetrics import EmbeddingMetric, ReIDMetrics, evaluate, evaluate_lists, evaluate_scores
from reid_torchmetrics.command.options import command_options
from reid_torchmetrics.functional.retrieval import MEASURES, Protocol, find_protocol
from reid_torchmetrics.functional.retrieval.evaluation import ProtocolOptions
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, LABEL_OPTIONS, LABELS, NAMED_LABELS, SampleLabels
from reid_torchmetrics.functional.retrieval.relevance.label_names import RULES_BY_LABEL
from reid_torchmetrics.tasks import RankCounter, evaluate_stream
from tests.contracts import expected
from tests.contracts.entry_points import PROTOCOL, REFUSED_BY_ALL
from tests.contracts.problems import DRAWN, FORMS, SINGULAR, Problem, Row, feature_of, make_problem
from tests.contracts.rows import ROWS
from tests.contracts.test_numbers import ENTRY_POINTS, PROBLEMS

ADD_A_ROW = "add a `Row` to `ROWS` in tests/contracts/rows.py that has it"
ADD_A_LABEL = f"{ADD_A_ROW}, its values to `DRAWN`, and what the reference calls it to `SINGULAR`"
ADD_A_RULE = f"{ADD_A_ROW}, and an argument of its name to `sort_gallery` in tests/reference/relevance.py"
DEFAULTS = find_protocol(PROTOCOL)


def required(labels: Iterable[str] = tuple(LABELS), label_options: Iterable[str] = LABEL_OPTIONS) -> dict[str, str]:
    """The features that some row must have, each with what to add where none has it."""
    features = {f"label {name}": ADD_A_LABEL for name in labels}
    features |= {f"names as {name}": ADD_A_ROW for name in NAMED_LABELS}
    features |= {f"{kind} as {EXTRA}": ADD_A_ROW for kind in ("integers", "names")}
    features |= {f"{rule} of {name}": ADD_A_ROW for name, label in LABELS.items() for rule in label.compared_by}
    features |= {f"several {name}": ADD_A_ROW for name, label in LABELS.items() if label.may_be_several}
    features |= {f"{name} by name": ADD_A_ROW for name in RULES_BY_LABEL}
    features |= {f"ties {name}": ADD_A_ROW for name in TIE_POLICIES}
    features |= {f"ground_truth as {form}": ADD_A_ROW for form in FORMS}
    features |= dict.fromkeys(("junk_pairs", "self_index"), ADD_A_ROW)
    kinds = {name: get_args(kind)[0] for name, kind in get_type_hints(ProtocolOptions).items() if name != "reports"}
    for name in (*label_options, *kinds):
        what_to_add = ADD_A_RULE if name in label_options else ADD_A_ROW
        features |= dict.fromkeys(features_of_option(name, kinds.get(name)), what_to_add)
    return features


def features_of_option(name: str, kind: Any) -> list[str]:
    """The features of an option: one for each of its words, or for the value that a flag has not by default."""
    if get_origin(kind) is Literal:
        return [feature_of(name, word) for word in get_args(kind)]
    if kind is bool:
        return [feature_of(name, not getattr(DEFAULTS, name))]
    return [name]


def without_row(features: Mapping[str, str], rows: Iterable[Row]) -> list[str]:
    """What no row has, and what to add."""
    covered = set().union(*(row.features for row in rows))
    return [f"{feature}: {what_to_add}" for feature, what_to_add in features.items() if feature not in covered]


def test_every_label_and_every_rule_has_a_row():
    assert without_row(required(), ROWS) == []
    assert LABELS.keys() - {"index", EXTRA} == SINGULAR.keys()
    assert LABELS.keys() == DRAWN.keys()


def test_a_label_or_a_rule_without_a_row_would_be_found():
    features = required(labels=(*LABELS, "mood"), label_options=(*LABEL_OPTIONS, "must_rain"))
    assert without_row(features, ROWS) == [f"label mood: {ADD_A_LABEL}", f"must_rain: {ADD_A_RULE}"]
    fewer = [row for row in ROWS if "clothes drop_other" not in row.features]
    assert without_row(required(), fewer) == [f"clothes drop_other: {ADD_A_RULE}"]


def test_the_reference_knows_every_rule():
    in_the_place_of_junk = {"missing_identities"}  # `expected.py` takes samples without an identity for junk
    assert set(LABEL_OPTIONS) == {*expected.RULES} | in_the_place_of_junk


def test_names_of_rows_are_unique():
    assert len(PROBLEMS) == len(ROWS)


NOT_OF_RANKED_ITEMS = {
    "acg": "of several labels only, in a row of its own",
    "bpref": "of judged negatives, which only lists have",
    "anmrr_shrec22": "as anmrr, with another penalty",
    "median_rank_lower": "as median_rank",
    "median_rank_floor": "as median_rank",
}


def test_every_measure_is_reported_or_has_a_reason():
    reported = {expected.split(report)[0] for report in ROWS[0].reports}
    lacking = MEASURES.keys() - reported - NOT_OF_RANKED_ITEMS.keys()
    assert not lacking, f"add {sorted(lacking)} to `REPORTS` in tests/contracts/problems.py, or the reason why not here"


EMBEDDINGS = {
    **dict.fromkeys(("query", "gallery", "embeddings", "positives"), "what is ranked; `positives` of lists are lists"),
    **dict.fromkeys(("scores", "distances", "retrieved"), "what is ranked"),
    **dict.fromkeys(("similarity", "packed", "rerank", "multi_query", "statistics"), "how scores come about"),
    **dict.fromkeys(("max_bytes", "key", "is_query", "counter", "counts"), "how samples come"),
    **dict.fromkeys(("max_rank", "ranks", "reports", "prefix", "postfix", "directions"), "what is told"),
    **dict.fromkeys(("gains", "num_positives", "missing_queries", "unknown_queries"), "of lists alone"),
    "protocol": "its fields have rows",
}
OF_TORCHMETRICS = (
    *("compute_on_cpu", "dist_sync_on_step", "process_group", "dist_sync_fn", "distributed_available_fn"),
    *("sync_on_compute", "compute_with_cache"),
)
OF_COMMANDS = (
    *("stream", "names", "labels", "file_names", "order", "captions", "config", "print_config"),
    *("form", "ground_truth_form", "one_based", "exact", "recall_k"),
    *("format", "decimals", "json", "save", "report", "images", "pictures", "fail_under"),
)
NEUTRAL = {
    "evaluate": EMBEDDINGS,
    "evaluate_scores": EMBEDDINGS,
    "evaluate_lists": EMBEDDINGS,
    "evaluate_stream": EMBEDDINGS,
    "RankCounter": EMBEDDINGS,
    "RankCounter.count": EMBEDDINGS,
    "EmbeddingMetric.update": EMBEDDINGS,
    "ReIDMetrics": {*EMBEDDINGS, *OF_TORCHMETRICS},
    "command evaluate": {*EMBEDDINGS, *OF_COMMANDS},
    "command lists": {*EMBEDDINGS, *OF_COMMANDS},
}
"""arguments that are no kind of truth"""


def arguments_by_entry_point() -> dict[str, list[str]]:
    """The names of all arguments, without the sides of labels."""
    functions = [evaluate, evaluate_scores, evaluate_lists, evaluate_stream, RankCounter, ReIDMetrics]
    named = {function.__name__: function for function in functions}
    named |= {"RankCounter.count": RankCounter.count, "EmbeddingMetric.update": EmbeddingMetric.update}
    arguments = {}
    for name, function in named.items():
        parameters = inspect.signature(function).parameters.values()
        arguments[name] = [
            each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name != "self"
        ]
    arguments["RankCounter.count"] += SampleLabels.__annotations__
    for command in ("evaluate", "lists"):
        arguments[f"command {command}"] = [name for _, name, *_ in command_options(command)]
    return arguments


def without_side(argument: str) -> str:
    """The label that an argument gives to a side, or the argument."""
    for side in ("query_", "gallery_", "positive_"):
        if argument.removeprefix(side) in LABELS:
            return argument.removeprefix(side)
    return argument


def arguments_without_row(arguments: Mapping[str, Iterable[str]]) -> list[str]:
    """The arguments that no row gives, with what to add."""
    options = {*get_type_hints(ProtocolOptions), "ties", "ground_truth", "junk_pairs", "self_index"}
    return [
        f"`{name}` of {entry_point}: {ADD_A_ROW}, or add it to `NEUTRAL` in tests/contracts/test_rows.py if it is none"
        for entry_point, names in arguments.items()
        for name in names
        if without_side(name) not in {*LABELS, *options, *NEUTRAL[entry_point]}
    ]


def test_every_argument_of_every_entry_point_has_a_row():
    assert arguments_without_row(arguments_by_entry_point()) == []


@pytest.mark.parametrize("argument", ["query_mood", "gallery_mood", "must_rain"])
def test_an_argument_without_a_row_would_be_found(argument):
    missing = arguments_without_row({"evaluate": ["query", "query_identities", argument]})
    assert len(missing) == 1
    assert missing[0].startswith(f"`{argument}` of evaluate: add a `Row`")


def test_every_field_of_protocols_has_a_row():
    options = {*get_type_hints(ProtocolOptions)}
    of_words = {"name", "source"}
    of_benchmarks = {"needs_groups", "needs_lists"}  # they say which rows a benchmark takes
    of_scores = {"similarity", "reads_codes", "ties"}
    assert {field.name for field in fields(Protocol)} == options | of_words | of_benchmarks | of_scores


def test_every_refusal_of_a_table_is_of_a_row():
    features = set().union(*(row.features for row in ROWS))
    unused = {
        f"{name}: {key}"
        for name, entry_point in ENTRY_POINTS.items()
        for key in (*entry_point.refuses, *REFUSED_BY_ALL)
        if not any(feature == key or feature.startswith(f"{key} ") for feature in features)
    }
    assert not unused, f"add a `Row` to `ROWS` in tests/contracts/rows.py that each is refused for: {sorted(unused)}"


WITHOUT_EFFECT = {
    "missing_identities error": "all entry points refuse it",
    "missing_identities junk": "the reference takes samples without an identity for junk in any case",
    "empty_target_action error": "all entry points refuse it",
}
"""features of options that change no number of the reference, with the reason"""


def changed_options() -> dict[str, list[tuple[Row, str]]]:
    """The rows with each feature of an option that differs from the protocol's value, and the option."""
    changed: dict[str, list[tuple[Row, str]]] = {}
    for row in ROWS:
        protocol = DEFAULTS.with_options(row.options)
        for name, value in row.options.items():
            feature = feature_of(name, value)
            if getattr(protocol, name) != getattr(DEFAULTS, name) and feature not in WITHOUT_EFFECT:
                changed.setdefault(feature, []).append((row, name))
    return changed


@pytest.mark.parametrize("feature", changed_options())
def test_every_rule_changes_the_numbers_of_a_row(feature):
    assert any(changes(row, without_option(row, name)) for row, name in changed_options()[feature])


def without_option(row: Row, name: str) -> Row:
    return replace(row, options={other: value for other, value in row.options.items() if other != name})


def changes(row: Row, other: Row) -> bool:
    """Whether two rows have different numbers."""
    return repr(expected.expected_numbers(make_problem(row))) != repr(expected.expected_numbers(make_problem(other)))


DECIDES_ALL = {"identities", "positions"}
"""labels that say who is relevant"""


@pytest.mark.parametrize("label", [name for name in SINGULAR if name not in DECIDES_ALL])
def test_every_label_changes_the_numbers_of_a_row(label):
    rows = [row for row in ROWS if label in row.labels and row.truth is None]
    assert any(changes(row, without_label(row, label)) for row in rows if row.options.keys() <= {label})


def without_label(row: Row, label: str) -> Row:
    labels = tuple(name for name in row.labels if name != label)
    names = tuple(name for name in row.names if name != label)
    return replace(without_option(row, label), labels=labels, names=names)


@pytest.mark.parametrize("policy", [name for name in TIE_POLICIES if name != "pessimistic"])
def test_every_tie_policy_changes_the_numbers_of_a_row(policy):
    rows = [row for row in ROWS if row.ties == policy]
    assert any(changes(row, replace(row, ties="pessimistic")) for row in rows), (
        f"no `Row` of tests/contracts/rows.py has other numbers under {policy!r} than under 'pessimistic': add one"
    )


@pytest.mark.parametrize("argument", ["junk_pairs", "self_index", "lists"])
def test_every_list_of_pairs_changes_the_numbers_of_all_its_rows(argument):
    problems = [problem for problem in map(make_problem, ROWS) if getattr(problem, argument) is not None]
    assert problems
    for problem in problems:
        assert told(problem) != told(without_pairs(problem, argument)), problem.row.name


def without_pairs(problem: Problem, argument: str) -> Problem:
    empty = None if problem.lists is None else [{name: [] for name in lists} for lists in problem.lists]
    return replace(problem, **{argument: empty if argument == "lists" else None})


def told(problem: Problem) -> str:
    return repr(expected.expected_numbers(problem))
