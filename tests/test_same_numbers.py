"""The comparison with an earlier commit: nothing differs from itself, and a changed copy is found."""

import shutil
from random import Random

import numpy as np
import pytest
import torch

from tests.profiles import each_row, of_each
from tests.same_numbers import __main__ as script
from tests.same_numbers.answers import named_values, public, readable, solve
from tests.same_numbers.checkouts import ROOT
from tests.same_numbers.differences import Summary, differing_names, numbers_of
from tests.same_numbers.kinds import KINDS
from tests.same_numbers.problems import Made, Problem, Question
from tests.same_numbers.worker import digest_of


@each_row("kind", KINDS)
def test_problems_of_each_kind_are_drawn_and_solved_alike_twice_and_most_of_them_are_right(kind):
    seeds = of_each(range(5), suite=3)
    problems, again = ([KINDS[kind](Random(f"{kind} {seed}")) for seed in seeds] for _ in range(2))  # noqa: S311
    assert list(map(digest_of, problems)) == list(map(digest_of, again))
    answers = [solve(problem) for problem in problems]
    assert differing_names(answers[0], solve(again[0])) == []
    are_right = ["raises" not in str(values.get("call")) for values in answers]
    assert sum(are_right) > len(are_right) / 2 or kind == "hostile"


@pytest.mark.slow
@pytest.mark.nightly
def test_a_changed_copy_is_found_and_this_checkout_does_not_differ_from_itself(tmp_path, capsys):
    options = {"most_problems": 5, "most_values": 5}
    kinds = ["verification", "overlaps"]
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "src/reid_torchmetrics/tasks/verification/all_pairs.py"
    source = path.read_text(encoding="utf-8")
    assert "def threshold_at_far(" in source
    path.write_text(source.replace("def threshold_at_far(", "def threshold_of_far("), encoding="utf-8")
    verification, overlaps = script.compare(tmp_path, kinds, range(4), **options)
    assert (verification.num_problems, overlaps.num_problems, overlaps.num_different) == (4, 4, 0)
    assert verification.names.keys() <= {"threshold_at_far([N.N])", "results.threshold_at_far([N.N])"}
    assert verification.num_different == verification.num_raised_once > 0
    printed = capsys.readouterr().out
    assert "    threshold_at_far([0.1])\n        earlier  raises AttributeError" in printed
    assert "verification --seed" in printed


def test_values_are_compared_to_the_bit_and_all_nan_are_equal():
    nan, other_nan = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert dict(named_values("x", nan)) == dict(named_values("x", other_nan))
    assert dict(named_values("x", torch.tensor(0.0))) != dict(named_values("x", torch.tensor(-0.0)))
    assert dict(named_values("x", torch.tensor(1.0))) != dict(named_values("x", torch.tensor(1.0).double()))
    assert dict(named_values("x", torch.zeros(2, 1))) != dict(named_values("x", torch.zeros(1, 2)))
    assert [readable(value) for value in dict(named_values("x", [0.1, 2**70])).values()] == ["0.1", str(2**70)]


def test_without_words_there_are_numbers_of_any_size_and_types_of_errors():
    values = dict(named_values("x", {"text": "1 query", "texts": np.array(["a"]), "count": 1, "large": 2**70}))
    numbers = numbers_of(values | {"error": "raises ValueError: no"})
    assert numbers == {"x.count": values["x.count"], "x.large": 2**70, "error": "raises ValueError"}


def test_a_problem_that_differs_is_counted_by_what_differs():
    values = {"new": "1", "same": "2", "error": "raises ValueError: no"}
    summary = Summary("boxes")
    for earlier in (values, {"same": "2", "error": values["error"]}, values | {"same": "3"}, {"new": "1", "same": "2"}):
        summary.count(earlier, values, differing_names(earlier, values))
    counted = summary.num_different, summary.num_lacking, summary.num_raised, summary.num_raised_once
    assert counted == (3, 1, 3, 1)
    assert summary.names == {"new": 1, "same": 1, "error": 1}
    assert differing_names({"a": "1"}, {"a": "2", "b": "raises ValueError: no"}) == ["b", "a"]


def test_a_name_that_a_checkout_lacks_is_a_value():
    values = solve(Problem(Made("no_such_function", {}), (Question(""),)))
    assert values == {"call": "raises NotPublicError: no_such_function"}
    values = solve(
        Problem(Made("verify_pairs", {"scores": [1.0, 0.0], "same": [True, False]}), (Question("no_such", {}),))
    )
    assert values["no_such"] == "raises AttributeError: 'Verification' object has no attribute 'no_such'"
    assert public("verify_pairs") is public("verify_pairs")


def test_the_command_line_names_an_unknown_kind(capsys):
    with pytest.raises(SystemExit):
        script.main(["HEAD", "boxs"])
    assert "unknown kind 'boxs'; the kinds are embeddings, " in capsys.readouterr().err


def test_the_command_line_names_an_unknown_revision():
    # A copy of the tree without its history knows no revision, and git says so.
    with pytest.raises(SystemExit, match=r"no-such-revision|not a git repository"):
        script.main(["no-such-revision", "boxes", "--problems", "1"])
