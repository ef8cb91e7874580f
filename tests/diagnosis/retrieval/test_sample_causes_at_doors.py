"""Mistakes in the samples are told at every entry point that can see them, once, on one and on two processes."""

import warnings

import pytest

from reid_torchmetrics import AdviceWarning
from reid_torchmetrics.diagnosis.retrieval import RETRIEVAL_CAUSES
from tests.diagnosis.retrieval import doors
from tests.diagnosis.retrieval.wrong_samples import WRONG
from tests.profiles import each_row

NOT_SEEN = {
    "copied_queries": {"evaluate_lists"},
    "repeated_samples": {"evaluate_lists", "evaluate_stream", "--stream"},
    "zero_embeddings": {"evaluate_lists", "evaluate_stream", "--stream", "evaluate_scores", "distances"},
}
"""entry points that are not given what shows a mistake"""
BEGINNINGS = {
    name: RETRIEVAL_CAUSES[name].message.split("{")[0][:40] or RETRIEVAL_CAUSES[name].message.split("}")[-1][:20]
    for name in WRONG
}


def told(call, *args) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args)
    return [str(warning.message) for warning in caught if warning.category is AdviceWarning]


def check(cause: str, texts: list[str], *where: str) -> None:
    """Raise an AssertionError unless the cause alone was told, once."""
    assert len(texts) == 1, (where, texts)
    assert BEGINNINGS[cause] in texts[0], where


def draws(cause: str) -> dict:
    """One mistake of each cause."""
    return dict(list(WRONG[cause].items())[:1])


@each_row("cause", WRONG)
@each_row("door", doors.DOORS)
def test_a_mistake_is_told_once_at_every_door(cause, door):
    for mistake, draw in draws(cause).items():
        texts = told(doors.call, door, draw)
        if door in NOT_SEEN.get(cause, ()):
            assert texts == []
        else:
            check(cause, texts, mistake)


@pytest.mark.parametrize("words", [(), ("--stream",)])
@each_row("cause", WRONG)
def test_a_mistake_is_told_once_by_the_command(cause, words):
    for mistake, draw in draws(cause).items():
        lines = [line for line in doors.by_command(*draw(), *words) if BEGINNINGS[cause] in line]
        expected = 0 if set(words) & NOT_SEEN.get(cause, set()) else 1
        assert len(lines) == expected, mistake


def told_on_process(process: int, size: int, cause: str) -> list[str]:
    # Samples at the end that are those at the beginning are told to be padding.
    (draw,) = [WRONG[cause]["middle"]] if cause == "repeated_samples" else draws(cause).values()
    return told(doors.on_process, process, size, draw())


@each_row("cause", WRONG)
def test_a_mistake_is_told_once_by_the_first_of_two_processes(cause, processes):
    first, second = processes.run(2, told_on_process, cause)
    check(cause, first)
    assert second == []


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("zeros in front", "would match as numbers, such as '00000' and '0'"),
        ("case", "would match regardless of case"),
        ("axes", "have their axes in another order on one side"),
        ("frames", "begin at 7,999 in the queries and at 0 in the gallery"),
        ("degrees", "are degrees, or have another origin, on the side of the queries"),
    ],
)
def test_a_reading_in_which_labels_match_is_named(mistake, words):
    for door in doors.DOORS:
        (text,) = told(doors.call, door, WRONG["unlike_labels"][mistake])
        # A counter keeps the names of its queries alone.
        if door != "evaluate_stream" or "match" not in words:
            assert words in text, door
