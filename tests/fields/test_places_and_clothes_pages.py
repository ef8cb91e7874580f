"""The tables of the pages on places and clothes give recorded numbers, and so does a module's validation step."""

import contextlib
import io
import re
import warnings
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from reid_torchmetrics import ReIDMetrics, evaluate, evaluate_scores
from tests.fields.comparisons import EXACT
from tests.fields.test_pages import calls_of
from tests.fields.test_vpr import EUCLIDEAN, SIDES, positives_of
from tests.golden.field_cases import FieldCase, load_field
from tests.golden.rows_of_pages import RECORDED
from tests.test_docs_pages import DOCS, blocks

FIELDS = {"places": "vpr", "clothes": "clothes"}
ROWS = [
    pytest.param(page, call, key, id=key)
    for page in FIELDS
    for call, key in zip(calls_of(page), RECORDED[page], strict=True)
]


def of_page() -> dict[str, Any]:
    """What the last block of the page on places defines."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(blocks(DOCS / "how_to" / "places.md")[-1], names)  # noqa: S102 - our own text
    return names


def places(case: FieldCase) -> dict[str, Any]:
    """The names that the page gives to a problem."""
    positions = {f"{side}_positions": case.inputs[f"{side}_positions"] for side in SIDES}
    sides = {"queries": case.inputs["query"], "database": case.inputs["gallery"]}
    found = {
        name: evaluate(*sides.values(), **positions, protocol=protocol, **EUCLIDEAN)
        for name, protocol in (("results", "pitts30k"), ("msls", "msls"))
    }
    return of_page() | sides | found | {"gt": positives_of(case)}


def clothes(case: FieldCase) -> dict[str, Any]:
    """The names that the page gives to a problem."""
    inputs, g_pids = case.inputs, case.inputs["gallery_ids"]
    labels = inputs["query_ids"], g_pids, inputs["query_cameras"], inputs["gallery_cameras"]
    both = {f"{side}_clothes": inputs[f"{side}_clothes"] for side in SIDES}
    return {
        "evaluate_scores": evaluate_scores,
        "distmat": inputs["distances"],
        "labels": labels,
        "clothes": both,
        "g_pids": g_pids,
    }


@pytest.mark.parametrize(("page", "cell", "key"), ROWS)
def test_a_row_gives_the_recorded_number(page, cell, key):
    name, evaluator, output, first = re.fullmatch(r"(\w+)/(\w+)/(\w+)(?:\[(\d+):\])?", key).groups()
    (case,) = (each for each in load_field(FIELDS[page]) if each.name == name)
    theirs = case.outputs[evaluator][output][slice(first and int(first), None) if first else ...]
    ours = eval(cell.split("`")[1], {"places": places, "clothes": clothes}[page](case))  # noqa: S307 - our own text
    np.testing.assert_allclose(np.asarray(ours).reshape(theirs.shape), theirs, rtol=0, atol=100 * EXACT)


def validation_recalls(database: torch.Tensor, queries: torch.Tensor, cutoffs: list[int], gt: list) -> list[float]:
    """In the structure of gsv-cities' function: exact search, then whether a positive is among the first k."""
    distances = (queries[:, None].double() - database[None].double()).square().sum(2)
    predictions = distances.argsort(dim=1, stable=True)[:, : max(cutoffs)].numpy()
    hits = np.zeros(len(cutoffs))
    for row, found in zip(predictions, gt, strict=True):
        for place, k in enumerate(cutoffs):
            if np.any(np.isin(row[:k], found)):
                hits[place:] += 1
                break
    return (hits / len(queries)).tolist()


class PlaceModule(lightning.LightningModule):
    """A module of gsv-cities and OpenVPRLab: outputs are collected by hand, database first; and ours beside."""

    def __init__(self, case: FieldCase) -> None:
        super().__init__()
        self.layer, self.case, self.outputs = torch.nn.Identity(), case, []
        positions = [torch.from_numpy(case.inputs[f"{side}_positions"]) for side in reversed(SIDES)]
        self.positions, self.num_references = torch.cat(positions), len(positions[0])
        self.gt, self.theirs, self.ours = positives_of(case), [], []
        self.metrics = ReIDMetrics(protocol="pitts30k", **EUCLIDEAN)

    def on_validation_epoch_start(self):
        self.outputs = []

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        images, index = batch
        descriptors = self.layer(images)
        self.outputs.append(descriptors.detach().cpu())
        is_query = index >= self.num_references
        self.metrics.update(descriptors, positions=self.positions[index], is_query=is_query, index=index)

    def on_validation_epoch_end(self):
        features = torch.cat(self.outputs)
        database, queries = features[: self.num_references], features[self.num_references :]
        self.theirs.append(validation_recalls(database, queries, [1, 5, 10, 20], self.gt))
        self.log_dict(self.metrics)
        self.ours.append([float(value) for value in self.metrics.compute().values()])


def test_the_validation_step_of_a_place_recognition_module_has_the_same_numbers_by_the_metrics(tmp_path):
    case = load_field("vpr")[5]
    module = PlaceModule(case)
    images = torch.cat([torch.from_numpy(case.inputs[side]) for side in reversed(SIDES)])
    loader = DataLoader(TensorDataset(images, torch.arange(len(images))), batch_size=7)
    options = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have many workers|.*LeafSpec")
        trainer = lightning.Trainer(accelerator="cpu", default_root_dir=tmp_path, **options)
        for _ in range(2):
            (logged,) = trainer.validate(module, loader, verbose=False)
    for theirs, ours in zip(module.theirs, module.ours, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-6)
        assert [*logged.values()] == pytest.approx(theirs, abs=1e-6)
    np.testing.assert_allclose(module.theirs, [case.outputs["gsv"]["recalls"]] * 2, rtol=0, atol=EXACT)
