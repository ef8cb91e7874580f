"""Every option takes its values, as words and from a file of options, and nothing else."""

import json
import re
import shlex
from typing import get_args

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import GalleryDraw, KReciprocal, QueryExpansion, _names
from reid_torchmetrics.command import COMMANDS, main, options
from reid_torchmetrics.command.terminal import UsageError
from reid_torchmetrics.command.values import Instance
from tests.profiles import examples

FILES = {"evaluate": ["q"], "lists": ["a"], "detect": ["a", "b"], "pairs": ["p"], "compare": ["a", "b"]}
FILES |= {"duplicates": ["q"], "protocols": []}
NAMES = st.from_regex(r"[a-z][a-z_]{0,5}", fullmatch=True).filter(lambda name: name not in ("null", "y", "n"))
WHOLE_NUMBERS = st.integers(-1000, 10**9)
NUMBERS = st.floats(0, 1e12)
LABELS = WHOLE_NUMBERS | NAMES
BY_BASE = {
    "N": WHOLE_NUMBERS,
    "X": NUMBERS,
    "LABEL": LABELS,
    "NUMBER": NAMES | st.integers(0, 9).map(str),
    "MAP": st.dictionaries(LABELS, LABELS, max_size=3),
    "RANGES": st.dictionaries(NAMES, st.tuples(NUMBERS, NUMBERS), max_size=3),
}
TEXTS = ("NAME", "FILE", "PATTERN", "FOLDER", "NAME=ARRAY", "NAME=VALUE", "NUMBER", "LABEL")
"""kinds that take any word"""
MADE = {
    "KReciprocal": st.builds(
        KReciprocal,
        k1=st.integers(1, 99),
        k2=st.integers(1, 99),
        weight=st.floats(0, 1),
        distance=st.sampled_from(get_args(_names.OriginalDistance)),
        normalize=st.booleans(),
    ),
    "QueryExpansion": st.builds(
        QueryExpansion,
        k=st.integers(1, 99),
        alpha=st.floats(0, 9),
        expanded=st.sampled_from(get_args(_names.Expansion)),
    ),
    "GalleryDraw": st.builds(
        GalleryDraw, shots=st.none() | st.integers(1, 9), per=st.sampled_from(get_args(_names.DrawnPer))
    ),
}


def options_with_values(command):
    """The options of a subcommand that take a value behind their name, or are flags."""
    about_files = ("CONFIG", "SWITCH")
    return [row for row in options.command_options(command) if not row.is_positional and row.kind not in about_files]


def values_of(option):
    """Values of the kind of an option, by its row in the table."""
    base, *names = option.kind.rstrip("+?").split()
    if base == "CLASS":
        return st.none() | st.one_of([MADE[name] for name in names])
    if base == "flag":
        return st.booleans()
    values = BY_BASE.get(base, NAMES)
    choices = base.split("|") if "|" in base else get_args(getattr(_names, names[-1] if names else base, None))
    if choices:
        values = st.sampled_from(choices)
    if option.kind.endswith("+"):
        return st.lists(values, min_size=1, max_size=3)
    return st.none() | values if option.kind.endswith("?") else values


def in_words(option, value):
    """The words that give a value."""
    if isinstance(value, bool):
        return [option.flag if value else f"--no-{option.flag.removeprefix('--')}"]
    if isinstance(value, list):
        return [option.flag, *map(str, value)]
    if isinstance(value, dict):
        return [option.flag, json.dumps(value)]
    if isinstance(value, (KReciprocal, QueryExpansion, GalleryDraw)):
        fields = {name: "null" if field is None else str(field).lower() for name, field in vars(value).items()}
        return [f"{option.flag}.{name}={field}" for name, field in fields.items()]
    return [f"{option.flag}={'null' if value is None else value}"]


def in_file(value):
    """The value as YAML has it."""
    if isinstance(value, (KReciprocal, QueryExpansion, GalleryDraw)):
        return dict(vars(value))
    if isinstance(value, dict):
        return {key: list(element) if isinstance(element, tuple) else element for key, element in value.items()}
    return value


def parsed(command, words):
    """All options that are given, with objects made."""
    arguments, others = options.parse(command, words)
    made = {name: value.make() if isinstance(value, Instance) else value for name, value in others.items()}
    about = ("config", "print_config", *(row.name for row in options.command_options(command) if row.is_positional))
    given_to_command = {name: value for name, value in vars(arguments).items() if name not in about and value}
    return {name: value for name, value in (given_to_command | made).items() if name not in about}


@pytest.mark.parametrize("command", COMMANDS)
def test_values_are_the_same_as_words_from_a_file_and_from_a_printed_file(command, tmp_path, capsys):
    rows = options_with_values(command)
    own = options.TABLE["commands"][command].get("command_options", {})
    file = tmp_path / "options.yaml"
    words = FILES[command]
    may_be_null = {row.name for row in rows if row.group not in options.COMMAND_GROUPS and row.name not in own}

    @examples(40)
    @given(st.fixed_dictionaries({}, optional={row.name: values_of(row) for row in rows}))
    def check(values):
        kept = {name: value for name, value in values.items() if name in may_be_null or value}
        expected = {name: value for name, value in own.items() if value} | kept
        line = [word for row in rows if row.name in kept for word in in_words(row, kept[row.name])]
        assert parsed(command, [*words, *line]) == expected
        if command == "protocols":  # it takes no options
            return
        file.write_text(yaml.safe_dump({name: in_file(value) for name, value in kept.items()}), encoding="utf-8")
        assert parsed(command, [*words, "--config", str(file)]) == expected
        assert main([command, *words, *line, "--print-config"]) == 0
        file.write_text(capsys.readouterr().out, encoding="utf-8")
        assert parsed(command, ["--config", str(file)]) == expected

    check()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_refuses_a_value_of_another_kind_with_its_rule(command, tmp_path):
    file = tmp_path / "options.yaml"
    for row in options_with_values(command):
        file.write_text(yaml.safe_dump({row.name: {"no": ["such", "value"]}}), encoding="utf-8")
        with pytest.raises(UsageError, match=rf"options\.yaml:1: `{row.name}` must be .*; got "):
            options.parse(command, [*FILES[command], "--config", str(file)])
    for row in options_with_values(command):
        if row.kind.split()[0].rstrip("+") not in (*TEXTS, "flag"):
            with pytest.raises(UsageError, match=rf"^`{row.name}` must be .*; got \[?'{{ \?'"):
                options.parse(command, [*FILES[command], row.flag, "{ ?"])


WORDS = {
    # words, and the options that they give; in the order of a line the last one counts
    "--k 0x10": {"k": 16},
    "--k 0b11 --radius 0X1f": {"k": 3, "radius": 31.0},
    "--k 010": {"k": 10},
    "--k 1_000": {"k": 1000},
    "--k ~": {"k": None},
    "--radius 1e3": {"radius": 1000.0},
    "--radius .inf": {"radius": float("inf")},
    "--search-cameras 007 cam2 1.5": {"search_cameras": [7, "cam2", "1.5"]},
    "--junk-identities -1 unknown": {"junk_identities": [-1, "unknown"]},
    "--camera-map.3 2 --camera-map.cam1=cam2": {"camera_map": {3: 2, "cam1": "cam2"}},
    "--camera-map {3:\\ 2,\\ '4':\\ 1} --camera-map.3 5": {"camera_map": {3: 5, 4: 1}},
    "--rerank KReciprocal": {"rerank": KReciprocal()},
    "--rerank {}": {"rerank": KReciprocal()},
    "--rerank reid_torchmetrics.QueryExpansion --rerank.k 3": {"rerank": QueryExpansion(k=3)},
    "--rerank.alpha 2": {"rerank": QueryExpansion(alpha=2.0)},
    "--rerank.class_path KReciprocal --rerank.init_args.k1 3": {"rerank": KReciprocal(k1=3)},
    "--rerank.class_path KReciprocal --rerank.init_args {k1:\\ 3}": {"rerank": KReciprocal(k1=3)},
    "--rerank null --rerank.normalize yes": {"rerank": KReciprocal(normalize=True)},
    "--rerank.k1 20 --rerank null": {"rerank": None},
    "--gallery-draw.shots null": {"gallery_draw": GalleryDraw(shots=None)},
    "--no-multi-query": {"multi_query": False},
}


@pytest.mark.parametrize("line", WORDS)
def test_words_mean_what_they_meant_to_lightnings_parser(line):
    assert parsed("evaluate", ["q", *shlex.split(line)]) == WORDS[line]


FILES_AND_WORDS = [
    ("k: 5", "--config c.yaml --k 3", {"k": 3}),
    ("k: 5", "--k 3 --config c.yaml", {"k": 5}),
    ("rerank: {k1: 30}", "--config c.yaml --rerank.k2 9", {"rerank": KReciprocal(k1=30, k2=9)}),
    ("rerank.k1: 30\nrerank.k2: 3", "--config c.yaml", {"rerank": KReciprocal(k1=30, k2=3)}),
    ("rerank: {class_path: QueryExpansion, init_args: {k: 3}}", "--config c.yaml", {"rerank": QueryExpansion(k=3)}),
    ("camera_map: {3: 2}", "--config c.yaml --camera-map.4 1", {"camera_map": {3: 2, 4: 1}}),
    ("radius: 1e3\nmax_rank: 0x10", "--config c.yaml", {"radius": 1000.0, "max_rank": 16}),
    ("reports: null\nmulti_query: yes", "--config c.yaml", {"reports": None, "multi_query": True}),
]


@pytest.mark.parametrize(("text", "line", "expected"), FILES_AND_WORDS)
def test_the_last_one_of_a_file_and_words_counts(tmp_path, monkeypatch, text, line, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    assert parsed("evaluate", ["q", *line.split()]) == expected


def test_a_file_of_options_may_name_the_files_to_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text("query: q\ngallery: [a, b]\n", encoding="utf-8")
    arguments, _ = options.parse("evaluate", ["--config", "c.yaml"])
    assert (arguments.query, arguments.gallery) == ("q", ["a", "b"])
    (tmp_path / "c.yaml").write_text("retrieved: a\npositives: c\n", encoding="utf-8")
    for words, expected in (["a b --config c.yaml", ("a", "c")], ["--config c.yaml a b", ("a", "b")]):
        arguments, _ = options.parse("lists", words.split())
        assert (arguments.retrieved, arguments.positives) == expected


@pytest.mark.parametrize("command", options.COMMANDS)
def test_a_message_names_each_option_as_users_write_it(command):
    files = [option.name for option in options.command_options(command) if option.is_positional]
    for option in options.command_options(command):
        word = option.name if option.is_positional else option.flag
        assert options.in_options(command, f"`{option.name}` must be") == f"`{word}` must be"
        assert options.in_options(command, f"a rule, or `{word}`") == f"a rule, or `{word}`"
        if option.kind == "flag":
            without = f"--no-{word[2:]}"
            assert options.in_options(command, f"`{option.name}=False`") == f"`{without}`"
            arguments, given = options.parse(command, [*files, without])
            assert (vars(arguments) | given)[option.name] is False


@pytest.mark.parametrize(
    ("command", "message", "expected"),
    [
        ("evaluate", "Pass `missing_identities='junk'`.", "Pass `--missing-identities junk`."),
        ("evaluate", "`junk_identities=('lynx', 'x')`", "`--junk-identities lynx x`"),
        ("evaluate", "by `names={'identities': NAME}`", "by `--names identities=NAME`"),
        ("evaluate", "`k=None` and `multi_query=True`", "`--k null` and `--multi-query`"),
        ("evaluate", "`camera_map={3: 2}`", "`--camera-map '{3: 2}'`"),
        ("detect", '`area_ranges={"all": (0, 1e10)}`', "`--area-ranges '{all: [0, 1e10]}'`"),
        ("evaluate", "`query_cameras` and `gallery_labels`", "`cameras` of the query and `labels` of the gallery"),
        ("detect", "`target[3]` of `preds`", "`ground_truths[3]` of `detections`"),
        ("detect", "Use `LvisMAP`.", "Use `--evaluator lvis`."),
        ("evaluate", "`rerank.k1` of `feat`", "`--rerank.k1` of `feat`"),
    ],
)
def test_a_message_of_a_function_is_told_in_words_of_the_command(command, message, expected):
    assert options.in_options(command, message) == expected


@pytest.mark.parametrize("head", ["labels.csv: ", "`labels.csv` has: ", "labels.csv:3: ", "a.csv and labels.csv: "])
def test_a_message_about_a_file_keeps_the_names_of_its_columns(head, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.csv").touch()
    message = options.in_options("evaluate", f"{head}one of `scores`, `k`; pass `names={{'scores': NAME}}`")
    assert message == f"{head}one of `scores`, `k`; pass `--names scores=NAME`"


def test_lines_of_the_ground_truth_are_told_with_their_own_option(command, tmp_path):
    (tmp_path / "ranked.run").write_text("0 Q0 3 1 0.5 x\n", encoding="utf-8")
    (tmp_path / "truth.txt").write_text("0 3\n1 4\n", encoding="utf-8")
    message = command("lists", "ranked.run", "truth.txt").err
    assert "an argument such as `--ground-truth-form pairs` says" in message
    np.save(tmp_path / "x.npy", np.eye(2))
    message = command("evaluate", "x.npy", "--ground-truth", "truth.txt").err
    assert "an argument such as `--ground-truth-form pairs` says" in message


REFUSED = {
    "evaluate q --rule rect": "`--rule` must be one of 'rectangle', .*; got 'rect', which may be 'rectangle'",
    "evaluate q --rul trapezoid": "unrecognized arguments: --rul, which may be `--rule`",
    "evaluate q --max_rank 5": "unrecognized arguments: --max_rank, which may be `--max-rank`",
    "evaluate q --batch-size 5": "unrecognized arguments: --batch-size, which may be `--max-bytes`",
    "evaluate q --rerank.nope 5": "`--rerank` must be null or KReciprocal with options among k1, .*; got 'nope'",
    "evaluate q --rerank.k1 20 --rerank.alpha 3": "`--rerank` must be null or KReciprocal .*; got 'k1, alpha'",
    "evaluate q --rerank.k1 abc": "`--rerank.k1` must be a whole number; got 'abc'",
    "evaluate q --rerank {k1:\\ [1]}": r"`--rerank.k1` must be a whole number; got \[1\]",
    "evaluate q --rerank {init_args:\\ 5}": "`--rerank` must be null or KReciprocal .*; got '{init_args: 5}'",
    "evaluate q --rerank.k1 3 --rerank.class_path QueryExpansion": "`--rerank` must be null or QueryExp.*; got 'k1'",
    "evaluate q --rerank KReciprocal --rerank.alpha 3": "`--rerank` must be null or KReciprocal with .*; got 'alpha'",
    "evaluate q -hx": "unrecognized arguments: -hx; the form is ",
    "evaluate q --rerank os.path": "`--rerank` must be null or KReciprocal .*; got 'os.path'",
    "evaluate q --gallery-draw.per nope": "`--gallery-draw.per` must be one of 'identity', 'identity_and_camera'; got",
    "evaluate q --camera-map {1:\\ 2.5}": r"`--camera-map` must be cameras by cameras, such as {3: 2}; got {'1': 2.5}",
    "detect a b --area-ranges.all 5": "`--area-ranges` must be two numbers for each name, .*; got {'all': '5'}",
    "evaluate q --k true": "`--k` must be a whole number or null; got 'true'",
    "evaluate q --max-rank null": "`--max-rank` must be a whole number; got 'null'",
    "evaluate q -x": "unrecognized arguments: -x; files have no flag: `reid-torchmetrics evaluate .query. .gallery ...",
    "lists a b c": "unrecognized arguments: c; the form is `reid-torchmetrics lists retrieved .positives. .options.`",
    "detect a": "`detect` must have `detections`; got none",
    "lists": "`lists` must have `retrieved`; got none",
}


@pytest.mark.parametrize("line", REFUSED)
def test_wrong_words_are_told_with_the_option_the_rule_and_what_was_meant(command, line):
    outcome = command(*shlex.split(line))
    assert outcome.status == 2
    assert re.match(f"reid-torchmetrics: {REFUSED[line]}", outcome.err), outcome.err
