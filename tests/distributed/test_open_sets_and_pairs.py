"""Open sets and given pairs on several processes: exactly the values of one, and the same errors on all."""

import warnings

import pytest
import torch

from reid_torchmetrics import PairVerification, ReIDOpenSet
from reid_torchmetrics.functional.retrieval.evaluation import list_samples
from reid_torchmetrics.functional.world import ALONE
from reid_torchmetrics.tasks import Identification
from reid_torchmetrics.tasks.identification import FPIR_RULES
from reid_torchmetrics.tasks.metrics import PAIR_METRICS
from tests.distributed import threads
from tests.distributed.failures import message_of
from tests.distributed.problems import Problem, problem
from tests.distributed.shards import SHARDINGS, loaders
from tests.profiles import of_each

NUM_PAIRS = 61
FPIRS = (0.0, 0.2, 1 / 3, 1.0)


def identified(given: Problem, world) -> list[list]:
    metric = given.together(world.process) if world.size > 1 else given.alone()
    options, samples = metric._ranking_options(), metric._accepted_samples().samples
    lists = list_samples(samples, options, world, k=1, queries=None, max_bytes=metric.max_bytes)
    found = Identification.from_rank_lists(lists)
    rates = [found.tpir_at_fpir(FPIRS, rank, rule) for rank in (1, 3) for rule in FPIR_RULES]
    values = [found.best_score, found.mate_score, found.mate_rank, found.threshold_at_fpir(FPIRS), *rates]
    return [each.double().nan_to_num(-7.0).tolist() for each in values]


@pytest.mark.parametrize("size", [2, 3])
def test_queries_are_identified_as_on_one_process(size):
    for seed in of_each(range(20), suite=6):
        given = problem(3000 * size + seed, size)
        alone = identified(given, ALONE)
        assert threads.run(size, lambda world, given=given: identified(given, world)) == [alone] * size, seed


def open_set(process: int, size: int, sharding: str) -> list[float]:
    metric = ReIDOpenSet(FPIRS, rank=2)
    for loader in loaders("two_loaders"):
        for batch in loader.batches(SHARDINGS[sharding](len(loader), size)[process]):
            metric.update(**batch)
    assert torch.equal(metric.identification().tpir_at_fpir(FPIRS, 2).float(), metric.compute())
    return metric.compute().tolist()


def pairs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    first, second = torch.randn(2, NUM_PAIRS, 4, generator=generator).unbind()
    same = torch.rand(NUM_PAIRS, generator=generator) < 0.4
    return {"first": first, "second": torch.where(same[:, None], first + second, second), "same": same}


def fed(metric: PairVerification, positions: list[int], *, index: bool = True) -> PairVerification:
    for part in torch.tensor(positions, dtype=torch.int64).split(9):
        metric.update(**{name: values[part] for name, values in pairs().items()}, index=part if index else None)
    return metric


def verified(process: int, size: int, sharding: str) -> dict[str, float]:
    own = SHARDINGS[sharding](NUM_PAIRS, size)[process]
    metrics = {report: fed(PairVerification(report, far=0.1), own) for report in PAIR_METRICS}
    assert metrics["auc"].results().num_genuine == int(pairs()["same"].sum())
    return {report: float(metric.compute()) for report, metric in metrics.items()}


def both(process: int, size: int, sharding: str) -> tuple:
    return open_set(process, size, sharding), verified(process, size, sharding)


@pytest.mark.parametrize(
    ("size", "sharding"), [(1, "round_robin"), (2, "padded_shuffled"), (3, "uneven"), (3, "empty_first")]
)
def test_the_values_are_those_of_one_process(processes, size, sharding):
    assert processes.run(size, both, sharding) == [both(0, 1, "contiguous")] * size


def refused(compute) -> str:
    """The message; an error that all processes share is raised as it is."""
    try:
        return message_of(compute)
    except ValueError as error:
        return str(error)


def impostors_alone(process: int, size: int) -> tuple[bool, int, list[str]]:
    """Whether the value is NaN, the number of impostors, and the warnings of this process."""
    impostors = [place for place, same in enumerate(pairs()["same"].tolist()) if not same]
    metric = fed(PairVerification(), impostors[process::size])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        is_nan = bool(metric.compute().isnan())
        num_impostors = metric.results().num_impostors
    return is_nan, num_impostors, [str(warning.message) for warning in caught]


def test_impostors_alone_are_nan_on_all_processes_and_told_on_the_first(processes):
    text = "`eer` needs pairs of one identity and of two; got 0 of one identity and 37 of two, so the result is NaN."
    assert processes.run(2, impostors_alone) == [(True, 37, [text]), (True, 37, [])]


def refusals(process: int, size: int) -> list[str]:
    """What the processes say where one was given something that it, or all together, cannot use."""
    said = []
    said.append(refused(fed(PairVerification(), [*range(process, 20, size)], index=not process).compute))
    said.append(message_of(fed(PairVerification("auc" if process else "eer"), [*range(20)]).compute))
    metric = fed(PairVerification(), [*range(process, 20, size)])
    if process:
        with pytest.raises(ValueError, match="`second` must have the shape of `first`"):
            metric.update(torch.ones(2, 3), torch.ones(2, 4), torch.tensor([True, False]))
    said.append(message_of(metric.compute))
    said.append(message_of(ReIDOpenSet(0.1 * (1 + process)).compute))
    return said


def test_an_error_of_one_process_is_an_error_on_all(processes):
    first, second = processes.run(2, refusals)
    assert first == second
    for text, message in zip(
        (
            "`index` must be given for all samples or for none; got it for 10 of 20.",
            "All processes must have the same `metric`; got process 0: 'eer'; process 1: 'auc'.",
            "process 1: ValueError: `second` must have the shape of `first`, [2, 3]; got [2, 4].",
            "All processes must have the same `fpir`; got process 0: 0.1; process 1: 0.2.",
        ),
        first,
        strict=True,
    ):
        assert text in message
