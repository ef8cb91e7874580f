"""States that only grow: what a step costs, and that nothing is lost in forward, merging, moving and processes."""

from unittest import mock

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from tests.metrics.reid.samples import batches, fed


def test_update_keeps_the_tensors_that_it_is_given():
    embeddings = torch.randn(4, 3)
    metric = ReIDMeanAP()
    metric.update(embeddings, torch.arange(4))
    assert metric.embeddings[0].data_ptr() == embeddings.data_ptr()


def test_a_view_is_cloned_so_that_its_batch_does_not_stay_alive():
    batch = torch.randn(100, 3)
    metric = ReIDMeanAP()
    metric.update(batch[:4], torch.arange(100)[:4], index=torch.arange(100)[96:])
    for held in (metric.embeddings, metric.identities, metric.index):
        assert held[0].untyped_storage().nbytes() == held[0].numel() * held[0].element_size()


def test_a_view_of_a_buffer_that_is_filled_again_is_cloned_again():
    buffer = np.zeros((8, 4), np.float32)
    view = torch.from_numpy(buffer)[:4]
    metric = ReIDMeanAP()
    for value in (1, 2, 3):
        buffer[:] = value  # which torch does not notice
        metric.update(view, torch.arange(4))
    assert [float(block[0, 0]) for block in metric.embeddings] == [1, 2, 3]


def test_forward_copies_no_sample_that_it_has_seen():
    metric = ReIDMeanAP()
    for batch in batches():
        metric(**batch)
    held = [block.data_ptr() for block in metric.embeddings]
    metric(**batches()[0])
    assert [block.data_ptr() for block in metric.embeddings[:-1]] == held


def test_a_move_to_where_the_samples_are_visits_none_of_them():
    metric = fed(ReIDMeanAP(), batches())
    held = metric.embeddings
    metric.to("cpu")
    assert metric.embeddings is held


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float16)])
def test_a_cast_that_only_one_batch_needs_is_made(dtypes):
    metric = ReIDMeanAP()
    for dtype in dtypes:
        metric.update(torch.randn(4, 3, dtype=dtype), torch.arange(4))
    metric.to(torch.float16)  # unlike that of `set_dtype` it changes no integer, so that all depends on the embeddings
    assert [block.dtype for block in metric.embeddings] == [torch.float16] * 2


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("dist_sync_on_step", [False, True])
def test_forward_that_fails_loses_nothing(error, dist_sync_on_step):
    given = batches()
    metric = fed(ReIDMeanAP(dist_sync_on_step=dist_sync_on_step), given)
    expected_value = metric.compute()
    with mock.patch.object(ReIDMeanAP, "summarize", side_effect=error("stopped")):
        with pytest.raises(error, match="stopped"):
            metric(**given[0])
    assert metric.compute() == expected_value


def test_a_collection_keeps_the_batch_of_a_step_once():
    metrics = ReIDMetrics(dist_sync_on_step=True)
    for number in (1, 2):
        metrics(torch.eye(6), torch.arange(6) % 2)
        assert {len(member.embeddings) for member in metrics.values()} == {number}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": torch.ones(2, 9)}, "must have the same embedding dimension; got 6 and 9"),
        ({"cameras": None}, "`cameras` must be given for all samples or for none; got it for 8 of 10"),
    ],
)
def test_samples_that_do_not_fit_together_are_refused_when_they_were_merged(change, message):
    metric, other = fed(ReIDMeanAP(), batches()[:1]), ReIDMeanAP()
    cameras = torch.zeros(2).long()
    other.update(**({"embeddings": torch.ones(2, 6), "identities": torch.arange(2), "cameras": cameras} | change))
    other.merge_state(metric)
    with pytest.raises(ValueError, match=message):
        other.compute()


def test_merged_samples_come_behind_those_that_were_there():
    first, second = fed(ReIDMeanAP(), batches()[:2]), fed(ReIDMeanAP(), batches()[2:])
    held = [*first.identities, *second.identities]
    first.merge_state(second)
    assert all(one is other for one, other in zip(first.identities, held, strict=True))


class Unusual(Exception):  # noqa: N818
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def test_an_error_that_cannot_be_copied_refuses_a_batch_as_it_is():
    with pytest.raises(Unusual, match="not today"), fed(ReIDMeanAP(), batches())._deferring_errors():
        raise Unusual("not", "today")


def test_a_synchronization_without_a_process_group_is_refused():
    metric = fed(ReIDMeanAP(distributed_available_fn=lambda: True), batches())
    with pytest.raises(RuntimeError, match="combined over processes only after"):
        metric.compute()
    assert not metric._is_synced


@pytest.mark.usefixtures("process_group")
def test_a_group_of_one_process_computes():
    metrics = fed(ReIDMetrics(), batches())
    values = metrics.compute()
    assert values == fed(ReIDMetrics(sync_on_compute=False), batches()).compute()
    assert not any(metric._is_synced for metric in metrics.values(copy_state=False))
    assert fed(metrics, batches(seed=2)[3:]).compute() != values


@pytest.mark.usefixtures("process_group")
def test_an_exception_in_compute_leaves_the_metric_usable():
    metric = fed(ReIDMeanAP(), batches())
    with mock.patch.object(ranking, "count_sharded_ranks", side_effect=RuntimeError("out of memory")):
        with pytest.raises(RuntimeError, match="out of memory"):
            metric.compute()
    assert not metric._is_synced
    assert metric.compute() == fed(ReIDMeanAP(sync_on_compute=False), batches()).compute()


@pytest.mark.parametrize("make", [ReIDMeanAP, ReIDMetrics])
def test_a_metric_that_has_computed_forgets_its_value_when_it_is_given_a_checkpoint(make):
    metric, other = fed(make(), batches()), fed(make(), batches(seed=3))
    for each in (metric, other):
        each.persistent(mode=True)
    before = metric.compute()
    metric.load_state_dict(other.state_dict())
    assert metric.compute() == other.compute() != before


def test_modules_parameters_and_constants_are_kept_as_in_every_module():
    metric = ReIDMeanAP()
    metric.scale, metric.head, metric.note = 1, torch.nn.Linear(2, 2), "a"
    metric.scale = torch.nn.Parameter(torch.ones(2))  # no longer a plain attribute
    assert {name for name, _ in metric.named_parameters()} == {"scale", "head.weight", "head.bias"}
    for name in ("scale", "head"):
        with pytest.raises(TypeError, match=f"'{name}'"):
            setattr(metric, name, 3)
    metric.head = None
    assert [name for name, _ in metric.named_modules()] == [""]
    with pytest.raises(RuntimeError, match="higher_is_better"):
        metric.higher_is_better = False
