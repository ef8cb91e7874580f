"""Messages and payload go over devices that the group's backends have, the same on all processes."""

from types import SimpleNamespace

import pytest
import torch
from torch import distributed

from reid_torchmetrics.metrics.base.process_group import devices_of


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
