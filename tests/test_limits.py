"""The page of limits: each line has the test that fails once it is no longer so."""

import inspect
import json
import re
from pathlib import Path
from unittest import mock

import pytest
import torch

from reid_torchmetrics import (
    DetectionMAP,
    GalleryDraw,
    KReciprocal,
    QueryExpansion,
    ReIDMeanAP,
    ReIDMetrics,
    ReIDOpenSet,
    evaluate,
    evaluate_scores,
)
from reid_torchmetrics._arrays import lacks_float64
from reid_torchmetrics.functional.detection.evaluation import sharded_images
from reid_torchmetrics.functional.retrieval import find_relevance, score_embeddings
from reid_torchmetrics.functional.retrieval.relevance import label_names
from reid_torchmetrics.functional.retrieval.scores.products import shape_on
from reid_torchmetrics.functional.retrieval.sharding import shared_samples
from reid_torchmetrics.plot import draw_boxes
from tests.distributed import threads

ROOT = Path(__file__).parents[1]
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
PAGE = " ".join((ROOT / "docs" / "limits.md").read_text(encoding="utf-8").split())
LINES = dict(re.findall(r"- \*\*(.+?)\.?\*\* (.*?)(?= - \*\*|$)", PAGE))
NOBODY_HAS_IT: list[str] = []
"""of a line that speaks of a machine that the tests have never had"""
TESTS = {
    "Hardware": ["test_the_only_gpu_of_the_results_is_one_h200"],
    "Small problems on GPUs": ["test_times_of_small_problems_were_seen"],
    "Equal items on GPUs": ["test_equal_items_have_equal_scores_on_cpus", "test_a_product_on_a_gpu_has_one_shape"],
    "Memory of GPUs": NOBODY_HAS_IT,
    "MPS and Intel's Arc": ["test_devices_without_float64_are_ranked_on_the_cpu"],
    "Re-ranking and drawn galleries": ["test_all_processes_need_all_samples"],
    "`junk_pairs`, `self_index` and `multi_query`": ["test_metrics_do_not_take_what_functions_take"],
    "Masks": ["test_masks_are_not_kept"],
    "Names as `image_id`": ["test_every_process_sorts_the_names_of_all"],
    "Names as identities, cameras and other labels": ["test_update_hashes_each_name"],
}


def test_each_line_of_the_page_has_its_tests():
    assert list(LINES) == list(TESTS)
    assert all(name in globals() for names in TESTS.values() for name in names)
    assert len(LINES) == PAGE.count("- **")


def test_the_only_gpu_of_the_results_is_one_h200():
    gpus = {*re.findall(r"NVIDIA [^,)|]+|nccl", RESULTS, flags=re.IGNORECASE)}
    assert gpus == {"NVIDIA H200"}
    assert "On one H100" in LINES["Hardware"]
    ranked = re.search(r"A ranking of MSMT17.+?\(([\d.]+) ms", RESULTS)[1]
    assert f"An H200 ranks MSMT17 in {float(ranked):.0f} ms" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "on the CPU" in (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")


def test_times_of_small_problems_were_seen():
    seen = re.search(r"A ranking of Market-1501.+?\(([\d.]+ ms) over ([\d.]+ ms)", RESULTS)
    assert re.findall(r"[\d.]+ ms", LINES["Small problems on GPUs"]) == [*seen.groups()]


@pytest.mark.parametrize("num_items", [5, 1500])
def test_equal_items_have_equal_scores_on_cpus(num_items):
    generator = torch.Generator().manual_seed(0)
    query, item = torch.randn(3, 300, generator=generator), torch.randn(1, 300, generator=generator)
    gallery = torch.randn(num_items, 300, generator=generator)
    gallery[::2] = item
    identities = torch.zeros(3, dtype=torch.int64), torch.zeros(num_items, dtype=torch.int64)
    scores = score_embeddings(query, gallery, find_relevance(*identities)).all()
    assert (scores[:, ::2] == scores[:, :1]).all()


def test_a_product_on_a_gpu_has_one_shape():
    shape = shape_on(torch.device("cuda"))
    assert shape.rows == shape.unit == shape.few == 1008
    assert shape.columns == shape.lanes
    assert f"each tile needs {4 * shape.rows * shape.columns / 1e6:.0f} MB" in LINES["Equal items on GPUs"]


def test_devices_without_float64_are_ranked_on_the_cpu(monkeypatch):
    assert lacks_float64(torch.device("mps"))
    monkeypatch.setattr(torch.xpu, "get_device_properties", lambda _: mock.Mock(has_fp64=False))
    assert lacks_float64(torch.device("xpu"))


@pytest.mark.parametrize(
    "option", [{"rerank": KReciprocal()}, {"rerank": QueryExpansion()}, {"gallery_draw": GalleryDraw(1)}, {}]
)
def test_all_processes_need_all_samples(option):
    """Each of two processes has a half of the samples, and is sent the others only with these options."""

    def process(world: threads.ThreadWorld) -> float:
        metric = ReIDMeanAP(**option)
        own = torch.arange(40)[world.process :: 2]
        metric.update(torch.eye(8)[own % 8], own % 8, is_query=own < 8)
        metric._processes = world
        return float(type(metric).compute(metric))

    with mock.patch.object(shared_samples, "share_samples", wraps=shared_samples.share_samples) as shared:
        first, second = threads.run(2, process)
    assert first == second
    sizes = {sum(call.args[3]) for call in shared.mock_calls}
    assert (40 in sizes) == bool(option), sizes


@pytest.mark.parametrize("name", ["junk_pairs", "self_index", "multi_query"])
def test_metrics_do_not_take_what_functions_take(name):
    assert name in inspect.signature(evaluate).parameters
    assert name == "multi_query" or name in inspect.signature(evaluate_scores).parameters
    value = {name: torch.arange(2)}
    for metric in (ReIDMeanAP, ReIDMetrics, ReIDOpenSet):
        with pytest.raises((TypeError, ValueError), match=name):
            metric(**value)
    with pytest.raises(TypeError, match=name):  # a collection leaves out what it does not know, as TorchMetrics' does
        ReIDMeanAP().update(torch.eye(2), torch.arange(2), **value)


def test_masks_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    masks = torch.zeros(1, 8, 8, dtype=torch.bool)
    masks[:, 2:5, 3:6] = True
    found = {"masks": masks, "scores": torch.tensor([0.9]), "labels": torch.tensor([1])}
    true = {"masks": masks, "labels": torch.tensor([1]), "image_id": 1}
    for keep_shapes in (False, True):
        metric = DetectionMAP(iou_type="segm", keep_shapes=keep_shapes)
        metric.update([found], [true])
        for side in metric.boxes_of([1]):
            assert "masks" not in side[0]
        if keep_shapes:
            metric.tm_to_coco("kept")
        else:
            with pytest.raises(ValueError, match="keep_shapes=True"):
                metric.tm_to_coco("kept")
    assert "counts" in json.loads(Path("kept_preds.json").read_text(encoding="utf-8"))[0]["segmentation"]
    image, boxes = torch.zeros(3, 8, 8, dtype=torch.uint8), torch.tensor([[3.0, 2.0, 6.0, 5.0]])
    drawn = [draw_boxes(image, each, each) for each in (found | {"boxes": boxes}, _without_masks(found, boxes))]
    assert (drawn[0] == drawn[1]).all()


def _without_masks(found: dict, boxes: torch.Tensor) -> dict:
    return {"boxes": boxes, "scores": found["scores"], "labels": found["labels"]}


def test_every_process_sorts_the_names_of_all():
    box = {"boxes": torch.tensor([[0.0, 0.0, 4.0, 4.0]]), "labels": torch.tensor([1])}

    def process(world: threads.ThreadWorld) -> None:
        metric = DetectionMAP()
        metric.update([box | {"scores": torch.tensor([0.9])}], [box | {"image_id": "ba"[world.process]}])
        metric._processes = world
        type(metric).compute(metric)

    with mock.patch.object(sharded_images, "number_names", wraps=sharded_images.number_names) as numbered:
        threads.run(2, process)
    assert [sorted(call.args[0]) for call in numbered.mock_calls] == [["a", "b"]] * 2


def test_update_hashes_each_name():
    metric = ReIDMeanAP()
    with mock.patch.object(label_names, "hash_names_once", wraps=label_names.hash_names_once) as hashed:
        metric.update(torch.eye(4), ["a", "b", "a", "b"])
        metric.compute()
    assert [call.args[0] for call in hashed.mock_calls].count(["a", "b"]) == 1
