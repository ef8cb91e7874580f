"""The simulated device itself: it refuses what CUDA refuses, counts what waits, and computes what the CPU does."""

import copy

import pytest
import torch

from reid_torchmetrics.functional import segments
from tests.device.waiting import counted

REFUSED = {
    "a sum over devices": (lambda here: here + torch.ones(3), "same device"),
    "a join over devices": (lambda here: torch.cat([here, torch.ones(3)]), "same device"),
    "a choice over devices": (lambda here: torch.where(here > 1, torch.ones(3), here), "same device"),
    "indices of the CPU": (lambda here: here[torch.tensor([0])], "same device"),
    "a mask of the CPU": (lambda here: here[torch.tensor([True, False, True])], "same device"),
    "an index of the device": (lambda here: torch.ones(3)[here.long()], "same device"),
    "writing elsewhere": (lambda here: torch.ones(3).add_(here), "same device"),
    "writing a number elsewhere": (lambda here: torch.ones(()).add_(here[0]), "same device"),
    "a generator of the CPU": (
        lambda here: torch.rand(3, device=here.device, generator=torch.Generator()),
        "for generator",
    ),
    "a product of integers": (lambda here: here.long()[None] @ here.long()[:, None], "not implemented"),
    "a sorted mask": (lambda here: (here > 1).sort(), "not implemented"),
    "the order of a mask": (lambda here: (here > 1).argsort(stable=True), "not implemented"),
    "the best of a mask": (lambda here: (here > 1).topk(1), "not implemented"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operations_that_cuda_refuses_are_refused(simulated, name):
    work, message = REFUSED[name]
    with pytest.raises(RuntimeError, match=message):
        work(torch.arange(3.0, device=simulated))


@pytest.mark.parametrize("work", [torch.Tensor.numpy, torch.Tensor.__array__])
def test_numpy_does_not_see_the_device(simulated, work):
    with pytest.raises(TypeError, match="to numpy"):
        work(torch.arange(3.0, device=simulated))


RANDOM_ORDER = {
    "running sums of floats": lambda here: here.cumsum(0),
    "sums of weights": lambda here: here.long().bincount(here),
    "the median of rows": lambda here: here[None].median(1),
}


@pytest.mark.parametrize("name", RANDOM_ORDER)
def test_sums_in_any_order_are_refused_where_they_must_not_be(simulated, name, deterministic):
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        RANDOM_ORDER[name](torch.arange(3.0, device=simulated))


def test_operands_on_the_cpu_that_cuda_accepts_are_accepted(simulated):
    here = torch.arange(3.0, device=simulated)
    number = torch.tensor(2.0)
    assert (here + number).tolist() == [2, 3, 4]
    assert torch.where(here > 1, number, here).tolist() == [0, 1, 2]
    here[0] = number
    assert here.masked_fill(here > 1, number).tolist() == [2, 1, 2]
    assert here.cumsum(0).tolist() == [2, 3, 5]


WAITS = {
    "a number that is read": (lambda here: float(here[0]), 1),
    "a condition": (lambda here: bool((here > 0).any()), 1),
    "a list": (lambda here: here.tolist(), 1),
    "a copy to the CPU": (lambda here: here.cpu(), 1),
    "a copy from the CPU": (lambda here: torch.tensor([1, 2], device=here.device), 1),
    "a copy that is not waited for": (lambda here: torch.ones(3).to(here.device, non_blocking=True), 0),
    "positions": (lambda here: here.nonzero(), 1),
    "what a mask takes": (lambda here: here[here > 0], 1),
    "what two masks take": (lambda here: here[None][here[None] > 0], 1),
    "a number where a mask says": (lambda here: here.clone().__setitem__(here > 0, 2), 0),
    "a number at indices": (
        lambda here: here.clone().__setitem__(torch.zeros_like(here).long(), 2),
        int(torch.__version__ < "2.15"),  # newer ones fill there
    ),
    "numbers where a mask says": (lambda here: here.clone().__setitem__(here > 0, here[:2]), 1),
    "repetitions of unknown number": (lambda here: here.repeat_interleave(here.long()), 1),
    "repetitions of known number": (lambda here: here.repeat_interleave(here.long(), output_size=3), 0),
    "what is distinct": (lambda here: here.unique(), 1),
    "a comparison": (lambda here: torch.equal(here, here.clone()), 1),
    "counts": (lambda here: here.long().bincount(), 2),
    "arithmetic": (lambda here: (here + 1).sort().values.cumsum(0).clamp(max=2), 0),
    "views": (lambda here: here[1:].view(2, 1).T.unbind(), 0),
}


@pytest.mark.parametrize("name", WAITS)
def test_waits_are_counted(simulated, name):
    work, expected = WAITS[name]
    here = torch.arange(3.0, device=simulated)
    waits = counted(lambda: work(here)).waits
    assert sum(waits.values()) == expected, waits


def test_kernels_are_counted_without_views(simulated):
    here = torch.arange(3.0, device=simulated)
    assert counted(lambda: (here[1:] + 1).view(2, 1).exp_()).kernels == {"add": 1, "exp_": 1}


def test_values_written_to_a_view_are_in_its_base(simulated):
    here = torch.zeros(2, 3, device=simulated)
    here[0].fill_(1)
    here.view(-1)[4:].add_(2)
    assert here.tolist() == [[1, 1, 1], [0, 2, 2]]
    assert here.view(torch.int32)[0, 0].item() == 0x3F800000


def test_versions_and_copies_are_those_of_the_wrapper(simulated):
    here = torch.zeros(2, device=simulated)
    here.add_(1)
    assert here._version == 1
    other = copy.deepcopy(here)
    other.add_(1)
    assert (here.tolist(), other.tolist()) == ([1, 1], [2, 2])
    assert f"{here[0]:.1f} {here}" == "1.0 simulated tensor([1., 1.])"


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (8,), (3, 5), (2, 3, 4)])
def test_running_sums_are_those_of_the_cpu(device, deterministic, shape):
    values = torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(0)).float()
    for dim in range(len(shape)):
        found = segments.running_sums(values.to(device), dim)
        assert torch.equal(found.cpu(), values.cumsum(dim))  # whole numbers are added up exactly in any order
