"""A cause is tried only under suspicion, and once until `reset`, and told once; what explains it silences it."""

import math
import warnings
from dataclasses import replace

import pytest

from reid_torchmetrics import AdviceWarning
from reid_torchmetrics.diagnosis.causes import Cause, Finding, find_causes, is_beyond_chance, warn_of
from reid_torchmetrics.functional.world import WarningLog


def never(case):
    case.append("never")
    return False


def always(case):
    case.append("always")
    return True


def cause(name, suspect, values, **options):
    def find(case):
        case.append(f"try {name}")
        return values

    return Cause(name, f"{name} has {{num}}.", find, suspect, **options)


def told(causes, log):
    case = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of(find_causes(causes, case, log), log)
    assert all(warning.category is AdviceWarning for warning in caught)
    return case, [str(warning.message) for warning in caught]


def test_trials_run_under_suspicion_alone_which_is_asked_once():
    causes = [cause("a", never, {"num": 1}), cause("b", never, {}), cause("c", always, None), cause("d", always, None)]
    assert told(causes, WarningLog()) == (["never", "always", "try c", "try d"], [])


def test_a_metric_object_tries_and_tells_a_cause_once_until_reset_and_a_function_in_each_call():
    causes = [cause("a", always, {"num": 1}), cause("b", always, None)]
    log = WarningLog(set())
    assert told(causes, log) == (["always", "try a", "try b"], ["a has 1."])
    assert told(causes, log) == ([], [])
    for _ in range(2):
        assert told(causes, WarningLog()) == (["always", "try a", "try b"], ["a has 1."])


def test_a_fact_is_looked_for_at_each_result_until_it_is_told():
    facts = []
    row = Cause("a", "a has {num}.", find=lambda _: {"num": len(facts)} if facts else None)
    log = WarningLog(set())
    assert told([row], log)[1] == []
    facts += [1, 2]
    assert told([row], log)[1] == ["a has 2."]
    assert told([row], log)[1] == []


def test_a_cause_that_explains_another_one_silences_it_in_this_call_and_in_later_ones():
    causes = [cause("a", always, {"num": 1}), cause("b", always, {"num": 2}, explained_by=("a",))]
    log = WarningLog(set())
    assert told(causes, log)[1] == ["a has 1."]
    assert told(causes, log)[1] == []
    assert told([causes[1]], WarningLog())[1] == ["b has 2."]


def test_a_cause_that_several_processes_found_is_told_once():
    findings = [Finding("a", "first"), Finding("b", "other"), Finding("a", "second")]
    for log in (WarningLog(), WarningLog(set())):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of(findings, log)
        assert [str(warning.message) for warning in caught] == ["first", "other"]


@pytest.mark.parametrize(("number", "chance"), [(12, 1 / 30), (60, 0.3), (400, 0.6)])
def test_right_answers_that_luck_explains_once_in_a_million_times_are_beyond_chance(number, chance):
    surpasses = [is_beyond_chance(num_right, number, chance) for num_right in range(number + 1)]
    first = surpasses.index(True)
    assert all(surpasses[first:])
    at_least = sum(
        math.comb(number, hits) * chance**hits * (1 - chance) ** (number - hits) for hits in range(first, number + 1)
    )
    assert at_least < 1e-6
    assert first <= number * chance + 6 * math.sqrt(number * chance) + 6


def test_nothing_is_beyond_chance_without_answers_or_where_luck_is_always_right():
    assert not is_beyond_chance(0, 0, 0.5)
    assert not is_beyond_chance(50, 50, 1.0)
    assert is_beyond_chance(50, 50, 0.0)


def test_a_cause_that_another_process_explains_is_not_told():
    findings = [Finding("b", "b has 2.", ("a",)), Finding("a", "a has 1.")]
    with pytest.warns(AdviceWarning, match="a has 1") as told:
        warn_of(findings, WarningLog())
    assert len(told) == 1


def test_a_cheap_trial_is_its_own_suspicion_and_is_asked_until_it_finds_something():
    found = [None, {"num": 1}]
    causes = [cause("a", None, None), cause("b", None, None)]
    causes[1] = replace(causes[1], find=lambda case: found[0])
    log = WarningLog(set())
    assert told(causes, log)[1] == []
    found.reverse()
    assert told(causes, log)[1] == ["b has 1."]
    assert told(causes, log)[1] == []
