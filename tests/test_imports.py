"""The package in processes of their own: what an import loads, and the engine without the tools."""

import ast
import contextlib
import io
import json
import shutil
import subprocess
import sys

import pytest

from tests.test_architecture import PACKAGE, ROOT, TOOLS

RUN = f"""
import json, sys

for folder, script in json.load(sys.stdin):
    sys.path.insert(0, folder)
    exec(script, {{"__name__": "__main__"}})
    assert sys.modules["{PACKAGE}"].__file__.startswith(folder)
    sys.path.remove(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "{PACKAGE}"]:
        del sys.modules[name]
    print("== end")
"""
LARGE = {"matplotlib", "PIL", "lightning", "pytorch_lightning", "pandas"}
NEW_OBJECTS = f"""
import gc
import {PACKAGE}.coco
num_new = sum(len(gc.get_objects(generation)) for generation in (0, 1))
print(gc.isenabled(), gc.get_freeze_count(), num_new < len(gc.get_objects()) / 20)
"""
# TorchMetrics itself loads matplotlib where it is installed, and so Pillow: they are forgotten, to be seen again.
LOADED = f"""
import sys
import {PACKAGE}.tasks
print(*sys.modules)
import torchmetrics
for name in [*sys.modules]:
    if name.partition(".")[0] in {LARGE}:
        del sys.modules[name]
print(*sys.modules)
import {PACKAGE}.metrics
print(*sys.modules)
import {PACKAGE}.integrations
print(*sys.modules)
import PIL
print(*sys.modules)
"""
UNNAMED_ROWS = """
import gc, pkgutil
from importlib import import_module
import reid_torchmetrics.metrics.detection, reid_torchmetrics.metrics.reid, reid_torchmetrics.tasks
from reid_torchmetrics import _registries
registries = [value for value in gc.get_objects() if isinstance(value, _registries.Registry)]
of_engine = [set(registry._rows) for registry in registries]
for module in pkgutil.walk_packages(reid_torchmetrics.tasks.__path__, "reid_torchmetrics.tasks."):
    import_module(module.name)
for registry, names in zip(registries, of_engine, strict=True):
    for name in sorted(registry._rows.keys() - names - registry._tasks().keys()):
        print(f"{registry._title}[{name!r}]")
"""
NOTHING_OF = {
    "coco import COCOeval": ("functional.retrieval", "tasks.lists", "files.opened_files"),
    "diagnosis import note_images": ("functional.retrieval", "tasks.lists", "diagnosis.expected"),
    "diagnosis import compare_shards": ("functional.detection", "tasks.evaluators", "diagnosis.expected"),
    "data import read_samples": ("functional.detection", "tasks.evaluators", "files.coco_rows"),
    "tasks import rerank_k_reciprocal": ("functional.detection", "tasks.lists"),
}
"""uses of one half of the package, and what they must not import"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory) -> dict[str, list[str]]:
    """What scripts print one after the other in a process, each with the package, or a copy without some rooms, anew.

    The first one is the first to import torch.
    """
    source = str(ROOT.parent)
    steps = {"new objects": (source, NEW_OBJECTS), "loaded": (source, LOADED), "unnamed rows": (source, UNNAMED_ROWS)}
    for use in NOTHING_OF:
        steps[use] = (source, f"import sys\nfrom {PACKAGE}.{use}\nprint(*sys.modules)")
    for name, rooms in DELETED.items():
        folder = tmp_path_factory.mktemp("copy")
        shutil.copytree(ROOT, folder / PACKAGE, ignore=shutil.ignore_patterns(*rooms, "*.pyc.*"))
        script = EVERY_TASK if name == "tools" else ENGINE_ALONE + EVERY_KIND
        steps[name] = (str(folder), WITHOUT_FORK + script)
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, input=json.dumps(list(steps.values())), capture_output=True, text=True, check=True)
    outputs = [output.splitlines() for output in done.stdout.split("== end\n")]
    return dict(zip(steps, outputs[:-1], strict=True))


def test_importing_the_package_loads_neither_matplotlib_nor_pillow_nor_lightning_nor_pandas(printed):
    loaded = [{name.partition(".")[0] for name in line.split()} for line in printed["loaded"]]
    tasks, before, *after, seen = loaded
    assert PACKAGE in tasks
    assert "torchmetrics" not in tasks
    for names in (tasks, *after):
        assert not names & LARGE
    assert "torchmetrics" in before
    assert seen & LARGE == {"PIL"}  # a large import would be found


@pytest.mark.parametrize("use", NOTHING_OF)
def test_a_use_of_one_half_imports_nothing_of_the_other(use, printed):
    (loaded,) = printed[use]
    assert not {f"{PACKAGE}.{other}" for other in NOTHING_OF[use]} & {*loaded.split()}


def test_every_row_that_a_task_adds_is_named_so_that_its_look_up_imports_the_task(printed):
    unnamed = printed["unnamed rows"]
    assert not unnamed, f"add the names to `_ROWS_OF_TASKS` in __init__.py, or to their type there: {unnamed}"


def test_the_collector_looks_at_no_module_of_torch_as_a_new_object_after_an_import_of_coco(printed):
    assert printed["new objects"] == ["True 0 True"]


WITHOUT_FORK = """
import os, torch

torch.set_num_threads(2)  # so that our own threads work
for name in ("fork", "register_at_fork"):
    vars(os).pop(name, None)  # as on systems without it
"""
ENGINE_ALONE = f"""
import torch
import {PACKAGE}
from {PACKAGE} import DetectionMAP, GalleryDraw, ReIDMetrics, evaluate
from {PACKAGE}.functional.detection import evaluate_images

samples = torch.eye(4)[[0, 1, 0, 1]], torch.tensor([0, 1, 0, 1])
metrics, results = ReIDMetrics(), evaluate(*(each[place] for each in samples for place in (slice(2), slice(2, 4))))
metrics.update(*samples, is_query=torch.arange(4) < 2)
box = {{"boxes": torch.tensor([[0.0, 0.0, 50.0, 50.0]]), "labels": torch.tensor([1])}}
images = [box | {{"scores": torch.ones(1)}}], [box]
detection = DetectionMAP()
detection.update(*images)
print(results["map"], float(metrics.compute()["map"]), float(detection.compute()["map"]), sep="\\n")
print(evaluate_images(*images)["map"])
found = evaluate_images(*images)
assert "map_50" in found.class_table()
for ask in (
    results.plot,
    results.identification,
    results.to_markdown,
    results.nearest(1).knn_accuracy,
    metrics.duplicates,
    lambda: evaluate(*[samples[0]] * 2, *[samples[1]] * 2, gallery_draw=GalleryDraw(1)),
    lambda: evaluate(*[samples[0]] * 2, *[samples[1]] * 2, rerank=object()),
    found.confusion_matrix,
    lambda: evaluate_images(*images, across_classes=True),
    lambda: DetectionMAP(metric="lrp"),
    lambda: DetectionMAP(metric="f1_50"),
    found.best_f1,
    lambda: evaluate_images(*images, evaluator="voc"),
    lambda: DetectionMAP(iou_type="rotated"),
):
    try:
        ask()
    except ModuleNotFoundError as error:
        print(error)
    else:
        raise AssertionError(ask)
"""


EVERY_KIND = f"""
import warnings
import torch
from {PACKAGE} import DetectionMAP, ReIDMetrics, evaluate, evaluate_scores
from {PACKAGE}.functional.detection import evaluate_images

torch.manual_seed(0)
first, second, labels = torch.randn(40, 8), torch.randn(80, 8), torch.arange(80) % 20
sides = (labels[:40], labels)
corners = torch.rand(60, 2) * 400
box = {{"boxes": torch.cat([corners, corners + 40], 1), "labels": labels[:60]}}
images = [box | {{"boxes": box["boxes"] / 640, "scores": torch.rand(60)}}], [box]
metrics, detection = ReIDMetrics(), DetectionMAP()
metrics.update(second[:40], sides[0], is_query=True)
metrics.update(second, sides[1], is_query=False)
detection.update(*images)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(evaluate(first, second, *sides).means, evaluate_scores(second[:40] @ second.T, *sides).means)
    print(metrics.compute(), metrics.results().means)
    print(detection.compute(), evaluate_images(*images).means)
print(len(told))
"""


@pytest.mark.parametrize("deleted", ["tasks", "tasks and tools"])
def test_the_engine_computes_the_same_without_tasks_and_tools_and_warns_of_no_mistake(deleted, printed):
    lines = printed[deleted]
    missing = [line for line in lines if line.startswith("No module named")]
    numbers, (*numbers_of_kinds, num_told) = lines[:4], lines[4 + len(missing) :]
    assert [*map(float, numbers)] == pytest.approx([1.0] * 4)
    first_missing = "plot" if "tools" in deleted else "tasks"  # which figures need
    assert missing[0] == f"No module named '{PACKAGE}.{first_missing}'"
    assert {*missing[1:]} == {f"No module named '{PACKAGE}.tasks'"}
    assert int(num_told) == 0
    *with_tools, num_told_by_tools = printed_here(EVERY_KIND)
    assert numbers_of_kinds == with_tools
    assert int(num_told_by_tools) >= 3


EVERY_TASK = f"""
import torch
from {PACKAGE} import DetectionMAP, EmbeddingQuality, GalleryDraw, KReciprocal, PairVerification, ReIDOpenSet
from {PACKAGE} import compare, evaluate, evaluate_lists, find_duplicates, index_recall, tasks, verify_pairs
from {PACKAGE}.functional.detection import evaluate_images

torch.manual_seed(0)
embeddings, labels = torch.randn(40, 8), torch.arange(40) % 4
quality = EmbeddingQuality(("rankme", "alignment", "hubness"))
quality.update(embeddings, labels)
print(*map(float, quality.compute().values()))
open_set = ReIDOpenSet(0.5)
open_set.update(embeddings, labels, is_query=True)
open_set.update(embeddings, labels + 2, is_query=False)
print(float(open_set.compute()), evaluate(embeddings, embeddings, labels, labels + 2).identification())
pairs = PairVerification()
pairs.update(embeddings[1:], embeddings[:-1], labels[1:] > 1)
print(float(pairs.compute()), verify_pairs(embeddings[:, 0], labels == 0))
print(find_duplicates(embeddings, threshold=0.5), open_set.duplicates(0.5))
lists = torch.cdist(embeddings, embeddings).argsort(1)
print(evaluate_lists(lists, query_identities=labels, gallery_identities=labels), index_recall(lists, *[embeddings] * 2))
models = [evaluate(torch.randn(40, 8), embeddings, labels, labels) for _ in range(2)]
print(compare(*models, num_resamples=9, num_permutations=9))
print(evaluate(torch.randn(40, 8), embeddings, labels, labels, gallery_draw=GalleryDraw(1)))
print(evaluate(torch.randn(40, 8), embeddings, labels, labels, rerank=KReciprocal(k1=4)))
counter = tasks.RankCounter(embeddings, embeddings.flip(1), query_identities=labels, positive_identities=labels)
print(tasks.evaluate_stream(counter, counter.count(embeddings + 1, labels + 9, key=0)))

corners, labels = torch.rand(60, 2) * 400, torch.arange(60) % 20
box = {{"boxes": torch.cat([corners, corners + 40], 1), "labels": labels}}
moved = {{"boxes": box["boxes"] + torch.rand(60, 4) * 10, "labels": labels // 2, "scores": torch.rand(60)}}
detection = DetectionMAP(metric="lrp")
detection.update([moved], [box])
results = detection.results(across_classes=True)
print(float(detection.compute()), results.error_breakdown().gains, results.confusion_matrix().num_confused)
for evaluator in ("lvis", "voc", "ultralytics", "yolov4"):
    print(evaluate_images([moved], [box], evaluator=evaluator).means)
turned = [each | {{"rotated_boxes": torch.cat([each["boxes"], torch.rand(60, 1)], 1)}} for each in (moved, box)]
print(evaluate_images(turned[:1], turned[1:], iou_type="rotated").means)
"""


DELETED = {"tasks": ("tasks",), "tasks and tools": ("tasks", *TOOLS), "tools": tuple(TOOLS)}


def printed_here(script: str) -> list[str]:
    """What a script prints with all rooms."""
    with contextlib.redirect_stdout(io.StringIO()) as written:
        exec(script, {"__name__": "__main__"})  # noqa: S102
    return written.getvalue().splitlines()


def test_tasks_compute_the_same_without_the_tools(printed):
    assert printed["tools"] == printed_here(EVERY_TASK)


def test_no_module_has_the_name_of_what_a_package_imports_for_type_checkers():
    num_imports = 0
    for path in ROOT.rglob("__init__.py"):
        for block in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(block, ast.If) or ast.unparse(block.test) != "TYPE_CHECKING":
                continue
            for node in [node for node in block.body if isinstance(node, ast.ImportFrom) and node.level]:
                folder = path.parent.joinpath(*node.module.split("."))
                hidden = [alias.name for alias in node.names if (folder / f"{alias.name}.py").exists()]
                assert not hidden, f"{path.relative_to(ROOT)}: mypy takes a module for {hidden}"
                num_imports += 1
    assert num_imports
