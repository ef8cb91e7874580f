"""Samples that share `index`: they are the same sample, or it is said that they are not."""

import re
import warnings

import pytest
import torch

from reid_torchmetrics import DistributedMetricError, ReIDMeanAP
from reid_torchmetrics.tasks import KReciprocal

RULE = "`index` must be the number of a sample in its data set, the same only for repetitions of the sample; got "
CHANGED = (
    "Samples that came again on their process, {} of them, have another embedding: among samples with the same `index`"
    " only the first counts. Was `reset` forgotten after the last evaluation, or does `index` begin anew in each batch?"
    " It must be the sample's number in its data set."
)


def samples(number: int = 12, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "embeddings": torch.randn(number, 6, generator=generator),
        "identities": torch.arange(number) % 4,
        "cameras": torch.arange(number) % 3,
        "index": torch.arange(number),
    }


def at(given: dict[str, torch.Tensor], positions) -> dict[str, torch.Tensor]:
    return {name: column[positions] for name, column in given.items()}


def said(metric) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.compute()
    return [str(warning.message) for warning in caught]


def fed(*given: dict, metric=None):
    metric = ReIDMeanAP() if metric is None else metric
    for batch in given:
        metric.update(**batch)
    return metric


def test_an_index_that_begins_anew_in_each_batch_is_refused():
    batches = [at(samples(), slice(first, first + 3)) | {"index": torch.arange(3)} for first in (0, 3, 6, 9)]
    with pytest.raises(ValueError, match="^" + re.escape(RULE)) as caught:
        fed(*batches).compute()
    assert (
        str(caught.value)
        == RULE + "0 for identity 0 at camera 0 and for identity 3 at camera 0, and 2 more such numbers."
    )


@pytest.mark.parametrize(
    ("column", "came"),
    [
        ("identities", "5 for identity 1 at camera 2 and for identity 2 at camera 2."),
        ("cameras", "5 for identity 1 at camera 2 and for identity 1 at camera 3."),
    ],
)
def test_one_other_label_is_refused_by_every_method(column, came):
    again = at(samples(), [5])
    metric = fed(samples(), again | {column: again[column] + 1})
    for ask in (metric.compute, metric.results, metric.nearest):
        with pytest.raises(ValueError, match="^" + re.escape(RULE + came) + "$"):
            ask()
    metric.reset()
    assert fed(samples(), metric=metric).compute() == fed(samples()).compute()


def test_the_same_images_in_other_batches_round_otherwise_and_are_no_other_samples():
    given = samples(60)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        again = given | {"embeddings": given["embeddings"].to(dtype)}
        assert said(fed(given, again, at(given, [3, 3, 5]))) == []


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize("metric", [ReIDMeanAP, lambda: ReIDMeanAP(rerank=KReciprocal(k1=3, k2=2))])
def test_only_samples_that_count_need_be_finite(metric):
    bad = at(samples(), [4]) | {"embeddings": torch.full((1, 6), torch.nan)}
    assert fed(samples(), bad, metric=metric()).compute() == fed(samples(), metric=metric()).compute()
    with pytest.warns(UserWarning, match=r"1 of 13 embeddings are NaN .* first at `index` \[4\]"):
        assert fed(bad, samples(), metric=metric()).compute().isnan()


def _own(process: int, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return at(given, slice(process, None, 2))


def other_labels(process: int, size: int) -> list[str]:
    """Process 1 has the samples 2 and 4 of process 0 under other labels."""
    metric = fed(_own(process, samples()))
    if process == 1:
        again = at(samples(), [2, 4])
        metric.update(**again | {"identities": again["identities"] + 1})
    messages = []
    for ask in (metric.compute, lambda: metric.nearest(2)):
        with pytest.raises((DistributedMetricError, ValueError)) as caught:
            ask()
        messages.append(str(caught.value))
    metric.reset()
    assert fed(_own(process, samples()), metric=metric).compute() == pytest.approx(WHOLE, abs=1e-6)
    return messages


WHOLE = float(fed(samples()).compute())


def test_other_labels_on_another_process_are_refused_on_all(processes):
    text = (
        "ValueError: " + RULE + "2 for identity 2 at camera 2 and for identity 3 at camera 2, and 1 more such numbers."
    )
    assert processes.run(2, other_labels) == [[f"process 0: {text}"] * 2] * 2


def changed(process: int, size: int) -> tuple[list[str], float]:
    """Process 0 was not reset; process 1 has a sample of process 0, another view of it, and holds one sample twice."""
    metric = fed(_own(process, samples()))
    metric.update(**(at(samples(seed=1), [0, 2]) if process == 0 else at(samples(seed=1), [4])))
    if process:
        metric.update(**at(samples(), [1]))
    return said(metric), float(metric.compute())


@pytest.mark.needs("diagnosis")
def test_other_embeddings_are_counted_over_the_processes_and_said_on_the_first(processes):
    """A sampler may repeat a sample on another process, where an augmentation may give another view of it."""
    outcomes = processes.run(2, changed)
    assert [texts for texts, _ in outcomes] == [[CHANGED.format(2)], []]
    assert [value for _, value in outcomes] == [pytest.approx(WHOLE, abs=1e-6)] * 2


def finite_where_it_counts(process: int, size: int, rerank: bool) -> float:
    metric = ReIDMeanAP(rerank=KReciprocal(k1=3, k2=2) if rerank else None)
    fed(_own(process, samples()), metric=metric)
    if process:
        metric.update(**at(samples(), [4]) | {"embeddings": torch.full((1, 6), torch.nan)})
    return float(metric.compute())


@pytest.mark.parametrize("rerank", [False, True])
def test_a_repetition_of_a_lower_process_need_not_be_finite(processes, rerank):
    whole = fed(samples(), metric=ReIDMeanAP(rerank=KReciprocal(k1=3, k2=2) if rerank else None)).compute()
    assert processes.run(2, finite_where_it_counts, rerank) == [pytest.approx(float(whole), abs=1e-6)] * 2
