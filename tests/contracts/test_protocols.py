"""The contract of a protocol: what every row of `PROTOCOLS` must satisfy, and rows that do not."""

import re
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any, get_args
from unittest import mock

import pytest

from reid_torchmetrics import GalleryDraw, ReIDMetrics, _names
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol, evaluate
from reid_torchmetrics.functional.retrieval.evaluation.protocol import PROTOCOL_FIELDS
from reid_torchmetrics.functional.retrieval.relevance import LABEL_OPTIONS
from tests.command import protocol_words
from tests.contracts.entry_points import numbers_of
from tests.contracts.expected import Numbers, expected_numbers
from tests.contracts.missing import assert_nothing_missing
from tests.contracts.problems import Problem, Row, make_problem
from tests.contracts.test_numbers import differing
from tests.profiles import each_row

DOCS = (Path(__file__).parents[2] / "docs" / "protocols.md").read_text(encoding="utf-8")
NOT_OPTIONS = ("name", "source", "similarity", "ties", "reads_codes", "needs_groups", "needs_lists")
"""fields that say which rows a benchmark takes, and who defines it"""
LABEL_OF_FIELD = {"radius": "positions", "needs_groups": "groups", "clothes": "clothes"}
"""the label that a problem has because of a field"""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_conventions_of_a_protocol_name_no_benchmark_and_no_person(name):
    _, _, *conventions = protocol_words.in_words(PROTOCOLS[name]).splitlines()
    words = re.findall(r"\w+", "\n".join(conventions).lower().replace("-", ""))
    assert not {"person", "persons", "people", "vehicle", *get_args(_names.ProtocolName)}.intersection(words)


def check_protocol(protocol: Protocol) -> None:
    """Raise an AssertionError unless a row keeps the contract of a protocol; its message says what to add."""
    name = protocol.name
    found = {
        "is no `ProtocolName`: add it in _names.py": name in get_args(_names.ProtocolName),
        "is not in docs/protocols.md: add it to a table there": f"`{name}`" in DOCS,
        "has no `source`: say who defines it, and who computes it so": bool(protocol.source),
    }
    assert_nothing_missing(name, found)
    names = {"Protocol": Protocol, "GalleryDraw": GalleryDraw}
    assert eval(repr(protocol), names) == protocol, f"the `repr` of {name!r} must make it again"  # noqa: S307
    with mock.patch.dict(PROTOCOLS, {name: protocol}):
        check_numbers(protocol, problem_of(protocol))
        lists = {"ground_truth": [[0]]} if protocol.needs_lists else {}
        collection = ReIDMetrics(protocol=name, **lists)
    expected = [*protocol.reports]
    assert list(collection) == expected, f"`ReIDMetrics(protocol={name!r})` has {list(collection)}, not {expected}"


def problem_of(protocol: Protocol) -> Problem:
    """A problem with the labels or the lists that a protocol reads."""
    plain = Protocol("", "")
    changed = {field.name for field in fields(Protocol) if getattr(protocol, field.name) != getattr(plain, field.name)}
    labels = ["identities", "cameras"]
    labels += [label for name, label in LABEL_OF_FIELD.items() if name in changed]
    if protocol.radius is not None:
        labels = ["positions"] if "groups" not in labels else ["positions", "groups"]
    options = {name: getattr(protocol, name) for name in changed.difference(NOT_OPTIONS, {"reports"})}
    if "camera_map" in options:
        options["camera_map"] = dict(options["camera_map"])
    row = Row(
        protocol.name,
        () if protocol.needs_lists else tuple(labels),
        options=options,
        ties=protocol.ties or "pessimistic",
        truth="lists by name" if protocol.needs_lists else None,
        has_junk=not protocol.queries_in_draw,
        reports=protocol.reports,
    )
    problem = make_problem(row)
    return replace(problem, lists=lists_of(protocol, problem)) if protocol.needs_lists else problem


def lists_of(protocol: Protocol, problem: Problem) -> list[dict[str, list[int]]]:
    """Lists of each query by the names of a protocol; the last query has no positive."""
    random = Random(1)  # noqa: S311 - nothing is to be kept secret
    names = (*protocol.positive_lists, *protocol.junk_lists)
    lists = []
    for _ in problem.query:
        items = random.sample(range(len(problem.gallery)), 3 * len(names))
        lists.append({name: items[3 * place : 3 * place + 3] for place, name in enumerate(names)})
    lists[-1] = {name: [] for name in names}
    return lists


def check_numbers(protocol: Protocol, problem: Problem) -> None:
    """The numbers under the name are those of the slow reference by its fields, which may be written out as well."""
    name, arguments = protocol.name, arguments_of(problem)
    found = numbers_of(evaluate(problem.query, protocol=name, similarity="dot", **arguments))
    assert found.means.keys() == {*protocol.reports}, f"{name!r} reports {list(found.means)}"
    expected = expected_numbers(problem)
    for field in Numbers._fields:
        text = differing(getattr(found, field), getattr(expected, field), 1e-12)
        assert not text, (
            f"{field} {text} under {name!r}: a field decides something that tests/contracts/expected.py, or"
            " `problem_of` in tests/contracts/test_protocols.py, does not know; teach them the field"
        )
    not_for_truth = {*LABEL_OPTIONS, "cmc_same_camera"} if protocol.needs_lists else {"positive_lists", "junk_lists"}
    fields_to_write = [field for field in PROTOCOL_FIELDS if field not in {*NOT_OPTIONS, *not_for_truth}]
    options = {field: getattr(protocol, field) for field in fields_to_write}
    base = Protocol("plain", "nobody", needs_groups=protocol.needs_groups)
    written_out = evaluate(
        problem.query,
        protocol=base,
        similarity="dot",
        ties=problem.row.ties,
        **options | {"reports": protocol.reports},
        **arguments,
    )
    assert repr(dict(written_out.means)) == repr(dict(found.means)), (
        f"`evaluate` with the fields of {name!r} written out gives other numbers: it must take every field"
    )


def arguments_of(problem: Problem) -> dict[str, Any]:
    """The gallery and the labels, or lists, as arguments of `evaluate`."""
    arguments = problem.labels_of("query_", "gallery_")
    if problem.lists is not None:
        arguments["ground_truth"] = problem.ground_truth()
    if problem.row.is_leave_one_out:
        return {name: value for name, value in arguments.items() if not name.startswith("gallery_")}
    return {"gallery": problem.gallery, **arguments}


@each_row("name", PROTOCOLS)
@pytest.mark.filterwarnings("ignore")
def test_a_protocol_keeps_its_contract(name):
    assert PROTOCOLS[name].name == name
    check_protocol(PROTOCOLS[name])


MARKET = PROTOCOLS["market1501"]


def _ignoring_k(protocol: Protocol, options: Any) -> Protocol:
    """`Protocol.with_options` without its `k`."""
    return _CHANGED(protocol, {name: value for name, value in options.items() if name != "k"})


_CHANGED = Protocol.with_options


@pytest.mark.filterwarnings("ignore")
def test_a_protocol_that_breaks_the_contract_is_told_what_to_add():
    with pytest.raises(AssertionError, match="'mine' is no `ProtocolName`: add it"):
        check_protocol(replace(MARKET, name="mine"))
    with mock.patch(f"{__name__}.get_args", return_value=("mine",)):
        with pytest.raises(AssertionError, match="'mine' is not in docs/protocols"):
            check_protocol(replace(MARKET, name="mine"))
    with pytest.raises(AssertionError, match="'market1501' has no `source`"):
        check_protocol(replace(MARKET, source=""))
    with (
        mock.patch.object(Protocol, "with_options", _ignoring_k),
        pytest.raises(AssertionError, match="with the fields of 'happywhale' written out gives other numbers"),
    ):
        check_protocol(PROTOCOLS["happywhale"])
    plain = expected_numbers(problem_of(replace(PROTOCOLS["ltcc"], reports=PROTOCOLS["ltcc_cc"].reports)))
    with (
        mock.patch(f"{__name__}.expected_numbers", return_value=plain),
        pytest.raises(AssertionError, match=r"under 'ltcc_cc': a field decides something that .* does? not know"),
    ):
        check_protocol(PROTOCOLS["ltcc_cc"])
