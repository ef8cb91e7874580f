"""Messages and payload go over devices that the group's backends have, the same on all processes."""

from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from torch import distributed

from reid_torchmetrics import DistributedMetricError
from reid_torchmetrics.metrics.base import DistributedWorld, process_group
from reid_torchmetrics.metrics.base.process_group import devices_of
from tests.distributed.test_world import answers, wanted

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("config", "samples", "messages", "payload"),
    [
        ("cpu:gloo,cuda:gloo", "cuda:1", "cpu", "cpu"),  # "gloo": it copies to the CPU
        ("cpu:gloo,cuda:nccl", "cuda:1", "cpu", "cuda:1"),
        ("cpu:gloo,cuda:nccl", "cpu", "cpu", "cpu"),
        ("cpu:gloo,cuda:nccl,xpu:xccl,mps:gloo", "mps", "cpu", "cpu"),
        ("cpu:gloo,cuda:nccl,xpu:xccl,mps:gloo", "xpu:0", "cpu", "xpu:0"),
        ("cpu:mpi,cuda:mpi", "cuda:0", "cpu", "cpu"),
        ("cpu:gloo,npu:hccl", "meta", "cpu", "cpu"),  # a device that the group has no backend for
        ("cuda:nccl", "cuda:1", "cuda:1", "cuda:1"),
        ("cuda:nccl", "cpu", "cuda:3", "cuda:3"),
        ("xpu:xccl", "cpu", "xpu:3", "xpu:3"),
        ("gloo", "cuda:1", "cpu", "cpu"),
        ("nccl", "cpu", "cuda:3", "cuda:3"),
        ("NCCL", "cuda:0", "cuda:0", "cuda:0"),
        ("ucc", "cuda:0", "cpu", "cpu"),
        ("fabric", "meta", "meta", "meta"),  # registered by a plugin
        ("unheard of", "cuda:0", "cpu", "cpu"),
    ],
)
def test_devices_are_told_from_what_the_backends_serve(monkeypatch, config, samples, messages, payload):
    for kind in ("cuda", "xpu"):
        monkeypatch.setattr(torch, kind, SimpleNamespace(current_device=lambda: 3))
    monkeypatch.setitem(distributed.Backend.backend_capability, "fabric", ["meta"])
    assert devices_of(config, torch.device(samples)) == (torch.device(messages), torch.device(payload))


@pytest.mark.usefixtures("process_group")
def test_a_group_of_one_process_is_a_world():
    world = DistributedWorld(None, CPU)
    assert answers(world) == wanted(1)
    for text in ("", "of 7", "\u00e4" * 95, "long " * 99):
        assert world.texts(text) == [text]
    assert world.device == CPU


@pytest.mark.usefixtures("process_group")
def test_an_error_of_all_processes_is_raised_as_it_is_and_is_over():
    error = ValueError("no " + 60 * "luck ")

    def fail(*_):
        raise error

    for call in (lambda world: world.guarded(fail), lambda world: world.all_reduce_sum(torch.empty(3), fail)):
        world = DistributedWorld(None, CPU)
        with pytest.raises(ValueError, match="no luck") as caught:
            call(world)
        assert caught.value is error
        world.conclude(error)  # all know of it
    with pytest.raises(ValueError, match="no luck"):
        DistributedWorld(None, CPU).conclude(error)
    DistributedWorld(None, CPU).conclude(None)


@pytest.mark.usefixtures("process_group")
def test_a_lack_of_memory_for_messages_is_an_error_of_all_and_may_pass():
    with mock.patch.object(process_group, "Messages", side_effect=MemoryError):
        with pytest.raises(DistributedMetricError, match=r"^process 0: no memory for messages to the others$"):
            DistributedWorld(None, CPU).texts("")
    assert DistributedWorld(None, CPU).texts("now") == ["now"]
