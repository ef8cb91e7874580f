"""An error of one process, at any step of what it asks for, is raised on all; then the metrics work."""

from itertools import islice
from random import Random

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.world import SentRows, exchange_rows
from tests.distributed import recording
from tests.distributed.injection import fail, num_steps
from tests.distributed.scenarios import KINDS, Scenario, scenario
from tests.profiles import IS_QUICK, PROFILE, each_row

ERRORS = (MemoryError, torch.cuda.OutOfMemoryError, ValueError)
NUM_SCENARIOS = 1 if IS_QUICK else 20 if PROFILE == "nightly" else 2
NUM_STEPS = 100 if PROFILE == "nightly" else 3

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # in generators that end early
]


def steps_of(total, random):
    """Some steps, spread over all."""
    return sorted(random.sample(range(total), min(total, NUM_STEPS)))


def problems(kind):
    """Scenarios of a kind that are no error by themselves, with a process that is to fail and its steps."""
    for seed in range(1000):
        random = Random(seed)  # noqa: S311 - no secret
        size = 2 + seed % 2
        victim, drawn = random.randrange(size), KINDS[kind](random, size)
        try:
            total = num_steps(drawn, size, victim)
        except ValueError as error:  # some drawn options or samples do not fit
            if str(error).startswith("Unexpected keyword"):
                raise
            continue
        if total:
            yield drawn, size, victim, total


@each_row("kind", KINDS)
def test_an_error_at_any_step_of_one_process_is_raised_on_all(kind):
    num_failed = 0
    for number, (drawn, size, victim, total) in enumerate(islice(problems(kind), NUM_SCENARIOS)):
        for step in steps_of(total, Random(number)):  # noqa: S311
            num_failed += bool(fail(drawn, size, victim, step, ERRORS[step % len(ERRORS)]))
    assert num_failed > 0


def test_a_scenario_with_an_argument_that_no_function_has_is_not_left_out(monkeypatch):
    right = {
        "make": ReIDMeanAP,
        "feed": lambda metric, _: metric.update(torch.eye(2), [0, 1], is_query=True),
        "ask": lambda metric, _: metric.compute(),
    }
    renamed = {
        "make": lambda **options: ReIDMeanAP(colour=1, **options),
        "feed": lambda metric, _: metric.update(torch.eye(2), [0, 1], colour=1),
        "ask": lambda metric, _: metric.results(colour=1),
    }
    for part, function in renamed.items():
        drawn = Scenario(**right | {part: function}, name="renamed")
        monkeypatch.setitem(KINDS, "renamed", lambda *_, drawn=drawn: drawn)
        with pytest.raises((TypeError, ValueError), match="colour"):
            next(problems("renamed"))


def test_an_error_outside_of_guarded_is_found():
    def exchange(world):
        world.guarded(lambda: None)
        if world.process:
            raise MemoryError
        world.broadcast(torch.zeros(2), 0)  # the other process tells of its error, and does not come here

    with pytest.raises(recording.DivergedError, match="process 1: end"):
        recording.run(2, exchange)


def test_an_error_inside_of_guarded_is_raised_on_all():
    def rows(world):
        if world.process:
            raise MemoryError
        return [torch.zeros(1, dtype=torch.int64)]

    outcomes, _ = recording.run(2, lambda world: exchange_rows(world, [1, 1], SentRows(lambda: rows(world))))
    assert {str(outcome.error) for outcome in outcomes} == {"process 1: MemoryError: "}


def test_every_kind_of_scenario_is_drawn():
    names = {scenario(seed, 2).name for seed in range(300)}
    assert {"ReIDMetrics", "DetectionMAP", "EmbeddingQuality", "PairVerification", "stream"} <= names
