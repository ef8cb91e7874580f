"""`diagnose` answers on a device as on the CPU."""

import torch

from reid_torchmetrics import DetectionMAP, diagnose
from reid_torchmetrics.functional.retrieval import evaluate


def states(diagnosis):
    return [(answer.name, answer.state) for answer in diagnosis]


def of_embeddings(device):
    embeddings = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)).to(device)
    labels = torch.arange(40).to(device) % 5
    return states(diagnose(evaluate(embeddings, query_identities=labels)))


def of_boxes(device):
    corners = 200 * torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    boxes = torch.cat([corners, corners + 50], 1).to(device)
    item = {"boxes": boxes, "labels": torch.arange(20).to(device) % 3}
    metric = DetectionMAP().to(device)
    metric.update([item | {"scores": torch.linspace(0.1, 0.9, 20).to(device)}], [item])
    return states(diagnose(metric))


def test_answers_are_those_of_the_cpu(device):
    for ask in (of_embeddings, of_boxes):
        assert ask(device) == ask("cpu")
