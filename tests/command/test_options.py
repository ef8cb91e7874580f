"""The table of options is that of the signatures, and help shows it."""

import inspect
import os
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest

import reid_torchmetrics
from reid_torchmetrics import DetectionMAP, LvisMAP, VocMAP, YoloMAP, _names, _registries
from reid_torchmetrics.command import COMMANDS, main, options
from reid_torchmetrics.command.detect import EVALUATOR_OPTIONS
from reid_torchmetrics.command.pairs import PairNumbers
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol, evaluate
from reid_torchmetrics.functional.retrieval.relevance import LABELS, SIDES
from reid_torchmetrics.functional.retrieval.scores import RERANKINGS, Rerank
from reid_torchmetrics.tasks import compare, evaluate_lists, find_duplicates
from reid_torchmetrics.tasks.lists import protocol_of_lists
from tests.profiles import each_row

IN_FILES = {"query", "gallery", "ground_truth", "self_index", "positives", "retrieved", "gains", "num_positives"}
IN_FILES |= {*map("_".join, product(SIDES, LABELS)), "scores", "same", "a", "b"}
NOT_OF_FILES = {
    "keep_shapes",
    "box_format",
    "frequencies",
    "class_metrics",
    "extended_summary",
    "backend",
    "metric",
    "confidence",
}
OF_DRAWS = {"gallery_draw_for_map", "queries_in_draw"}
"""options about drawn galleries, which lists refuse"""
OF_PROCESSES = {"compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache"}
FUNCTIONS = {
    "evaluate": [evaluate],
    "lists": [evaluate_lists],
    "detect": [DetectionMAP, LvisMAP],
    "pairs": [PairNumbers],
    "compare": [compare],
    "duplicates": [find_duplicates],
}
TYPES = {int: "N", float: "X", str: "NAME"}
LITERALS = {getattr(_names, name): name for name in vars(_names) if get_origin(getattr(_names, name)) is Literal}
LABEL = {int, str}
MAPS = {(int | str, int | str): "MAP", (str, tuple[float, float]): "RANGES"}


def kind_of(annotation):
    """The kind of value that an annotation has in the table; None if it cannot be typed."""
    members = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    if set(members) == LABEL or bool in members:
        return "flag" if bool in members else "LABEL"
    for one in members:
        if get_origin(one) in (Sequence, Iterable, Collection) and (inner := kind_of(get_args(one)[0])) is not None:
            return f"{inner}+"
    for one in members:
        if get_origin(one) is Literal:
            return LITERALS[one]
        if one in TYPES:
            return TYPES[one] + "?" * (NoneType in members and one is not str)
        if get_origin(one) is Mapping:
            return MAPS[get_args(one)]
    classes = [one.__name__ for one in members if is_dataclass(one) and one is not Protocol]
    if Rerank in members:  # tasks add its classes
        classes = [RERANKINGS[name].__name__ for name in _registries.TASKS["RERANKINGS"]]
    return f"CLASS {' '.join(classes)}" if classes else None


def of_signatures(command):
    """The kind and the default of each option."""
    found = {}
    for each in FUNCTIONS[command]:
        hints = get_type_hints(each.__init__ if each is PairNumbers else each) if not is_metric(each) else {}
        for name, parameter in inspect.signature(each).parameters.items():
            if name in IN_FILES | NOT_OF_FILES | OF_PROCESSES or (command == "lists" and name in OF_DRAWS):
                continue
            kind = kind_of(hints.get(name, parameter.annotation))
            if kind is not None:
                found.setdefault(name, (kind, parameter.default))
    return found


def is_metric(each):
    return each in (DetectionMAP, LvisMAP)


def of_table(command):
    groups = options.COMMAND_GROUPS
    own = options.TABLE["commands"][command].get("command_options", {})
    return {
        option.name: [option.kind, option.text, option.default]
        for option in options.command_options(command)
        if option.group not in groups and option.name not in own
    }


def in_words(value):
    words = {True: "yes", False: "no", None: "none", (): "none"}
    if isinstance(value, (tuple, list)) and value:
        return " ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return words[value] if value in (None, ()) or isinstance(value, bool) else str(value)


@each_row("command", FUNCTIONS)
def test_options_are_those_of_the_function(command):
    table, signatures = of_table(command), of_signatures(command)
    differing = sorted(table.keys() ^ signatures.keys())
    assert not differing, (
        f"options of `{command}` in command/options.json are not those of its function: add or remove {differing}, in"
        " `options` and in a group of the subcommand"
    )
    for name, (kind, _, default) in table.items():
        expected, given = signatures[name]
        # Names of tables are words to the function, which says what was meant.
        shown = kind.removeprefix("NAME ").removeprefix("TYPE ").removeprefix("REPORT ")
        assert shown == expected, name
        if given is not None and name != "iou_type":
            assert default == in_words(given), name


@pytest.mark.parametrize(
    ("evaluator", "metric"), [("coco", DetectionMAP), ("lvis", LvisMAP), ("voc", VocMAP), ("yolo", YoloMAP)]
)
def test_evaluators_have_the_options_of_their_metric(evaluator, metric):
    names = inspect.signature(metric).parameters.keys() & of_table("detect").keys()
    assert set(EVALUATOR_OPTIONS[evaluator]) == names


def test_every_row_is_an_option_of_a_command():
    read = {name for command in COMMANDS for _, name, *_ in options.command_options(command)}
    read |= {f"{command}.{name}" for command in COMMANDS for _, name, *_ in options.command_options(command)}
    unread = sorted(options.TABLE["options"].keys() - read)
    assert not unread, f"add {unread} to a group of a command in command/options.json"


@pytest.mark.parametrize("name", options.TABLE["classes"])
def test_fields_of_objects_are_those_of_the_class(name):
    made = getattr(reid_torchmetrics, name)
    hints = get_type_hints(made)
    expected = {}
    for field in fields(made):
        kind = "BOOL" if hints[field.name] is bool else kind_of(hints[field.name])
        expected[field.name] = (kind, in_words(field.default))
    rows = options.TABLE["classes"][name]
    assert {field: (kind, default) for field, (kind, _, default) in rows.items()} == expected


def test_every_class_of_the_table_is_one_of_an_option():
    named = {
        name
        for command in COMMANDS
        for option in options.command_options(command)
        for name in option.value_kind.classes
    }
    assert named == options.TABLE["classes"].keys()


@pytest.mark.parametrize("command", ["evaluate", "lists"])
def test_defaults_of_rules_are_those_of_market1501(command):
    chosen = PROTOCOLS["market1501"]
    others = {"cmc_same_camera": "as same_camera", "search_cameras": "all"}
    rows = {option.name: option.default for option in options.command_options(command) if option.group == "rules"}
    assert rows == {name: others.get(name, in_words(getattr(chosen, name))) for name in rows}
    default = inspect.signature(FUNCTIONS[command][0]).parameters["protocol"].default
    default = protocol_of_lists(default, {})  # that of lists depends on their labels
    shown = of_table(command)
    assert shown["protocol"][2] == default
    assert shown["reports"][2] == " ".join(PROTOCOLS[default].reports)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_option_and_imports_nothing_large(command):
    code = (
        f"import sys\nfrom reid_torchmetrics.command import main\nstatus = main(['{command}', '--help'])\n"
        "sys.exit(status or bool({'torch', 'numpy', 'yaml'} & sys.modules.keys()))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600).stdout
    for group, name, kind, text, *_ in options.command_options(command):
        assert f"\n{group}:\n" in said
        assert text
        assert (f"\n  {name}" if kind[0] == "@" else f"\n  --{name.replace('_', '-')}") in said
    assert said.count(f"\n  reid-torchmetrics {command}") >= 3
    assert "_" not in "".join(word for word in said.split() if word.startswith("--"))


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_help_are_parsed(command, capsys):
    main([command, "--help"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"  reid-torchmetrics {command}")]
    for line in lines:
        options.parse(command, shlex.split(line)[2:])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("reid-torchmetrics ev", {"evaluate "}),
        ("reid-torchmetrics diag", {"diagnose "}),
        ("reid-torchmetrics diagnose det", {"detect "}),
        ("reid-torchmetrics diagnose evaluate --multi", {"--multi-query "}),
        ("reid-torchmetrics evaluate --multi", {"--multi-query "}),
        ("reid-torchmetrics evaluate q.npz --protocol market", {"market1501", "market1501_official"}),
        ("reid-torchmetrics lists a b --rule tr", {"trapezoid "}),
        ("reid-torchmetrics evaluate --rerank Que", {"QueryExpansion "}),
        ("reid-torchmetrics evaluate --labels labels_of", {"labels_of_queries.csv "}),
        ("reid-torchmetrics evaluate q.npz --gallery-draw.per identity_", {"identity_and_camera "}),
    ],
)
def test_a_shell_completes_words(line, expected, tmp_path):
    pytest.importorskip("argcomplete")
    settings = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    settings |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words")}
    words = [sys.executable, "-m", "reid_torchmetrics"]
    (tmp_path / "labels_of_queries.csv").touch()
    subprocess.run(words, env=os.environ | settings, cwd=tmp_path, check=True, timeout=600, capture_output=True)
    assert {*(tmp_path / "words").read_text(encoding="utf-8").split("\n")} == expected


def test_a_command_that_was_meant_is_named(capsys):
    assert main(["evalute", "q.npz"]) == 2
    assert "there is no command 'evalute', which may be 'evaluate'; there are" in capsys.readouterr().err
