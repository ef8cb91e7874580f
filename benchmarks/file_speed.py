"""Claims: from files to numbers the command costs little more than a compiled evaluator, and less than sorting.

    python benchmarks/file_speed.py [PART ...]     # of boxes, many_boxes, masks, embeddings

boxes: 5,000 images with 36,781 ground truths and 501,256 detections of 80 classes, 56 MB of JSON. many_boxes: the same
with 5,000,000 detections in one file, for memory alone. masks: 1,000 images
with 7,000 polygons and 28,000 detections as compressed run lengths. embeddings: 3,368 queries and 19,732 gallery items,
as many as Market-1501 has, with 512 dimensions, beside a script of NumPy that sorts all distances. Each evaluator is a
process of its own on one thread, from its start to its end; the times are of the CPU, and memory is the largest
resident size, both as the system counts them. "Without torch" leaves out what a process takes that imports torch alone.
The round that does not count compiles all modules to bytecode, as installers do. hotcoco may not be installed:
pip install --group bench.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from harness.claims import claim, compare, is_there, main

WIDTH, HEIGHT, NUM_CLASSES = 640, 480, 80
ROUNDS = 5
MB = 1 << 20

PYCOCOTOOLS_CALLS = """
truth = COCO({truth!r})
evaluation = COCOeval(truth, truth.loadRes({results!r}), {iou_type!r})
evaluation.evaluate()
evaluation.accumulate()
evaluation.summarize()
"""


SORTING_SCRIPT = """
import numpy as np
arrays = np.load({path!r})
queries, gallery = arrays["query_embeddings"], arrays["gallery_embeddings"]
queries /= np.linalg.norm(queries, axis=1, keepdims=True)
gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)
order = np.argsort(-queries @ gallery.T, axis=1)
precisions, first_hits = [], []
for query, places in enumerate(order):
    same_person = arrays["query_identities"][query] == arrays["gallery_identities"][places]
    same_camera = arrays["query_cameras"][query] == arrays["gallery_cameras"][places]
    hits = same_person[~(same_person & same_camera)]
    if hits.any():
        ranks = hits.nonzero()[0]
        precisions.append((np.arange(1, len(ranks) + 1) / (ranks + 1)).mean())
        first_hits.append(ranks[0] == 0)
print(np.mean(precisions), np.mean(first_hits))
"""


def write_embeddings(folder: Path) -> Path:
    """Write queries and a gallery of 751 persons and 6 cameras, each embedding near that of its person."""
    random = np.random.default_rng(0)
    persons = random.standard_normal((751, 512))
    arrays: dict[str, Any] = {}
    for role, number in (("query", 3368), ("gallery", 19_732)):
        identities = random.integers(0, len(persons), number)
        embeddings = persons[identities] + 4 * random.standard_normal((number, persons.shape[1]))
        arrays[f"{role}_embeddings"] = embeddings.astype(np.float32)
        arrays[f"{role}_identities"] = identities
        arrays[f"{role}_cameras"] = random.integers(0, 6, number)
    path = folder / "embeddings.npz"
    np.savez(path, **arrays)
    return path


def boxes_of(random: np.random.Generator, number: int) -> Any:
    """Boxes within the image, most of them small, as x, y, width and height."""
    sizes = 1 + random.random((number, 2)) ** 2 * [WIDTH / 2, HEIGHT / 2]
    corners = random.random((number, 2)) * ([WIDTH, HEIGHT] - sizes)
    return np.concatenate([corners, sizes], 1).round(2)


def write_many_boxes(folder: Path) -> tuple[Path, Path]:
    """Write a data set, and ten times as many detections as `write_boxes` does."""
    return write_boxes(folder, 5_000_000)


def write_boxes(folder: Path, num_detections: int = 501_256) -> tuple[Path, Path]:
    """Write a data set and detections, a fifth of which are near a ground truth."""
    random = np.random.default_rng(0)
    num_images, num_ground_truths = 5000, 36_781
    true_boxes = boxes_of(random, num_ground_truths)
    true_images = random.integers(1, num_images + 1, num_ground_truths)
    true_classes = random.integers(1, NUM_CLASSES + 1, num_ground_truths)

    boxes = boxes_of(random, num_detections)
    images = random.integers(1, num_images + 1, num_detections)
    classes = random.integers(1, NUM_CLASSES + 1, num_detections)
    near = random.integers(num_ground_truths, size=num_detections // 5)
    boxes[: len(near)] = (true_boxes[near] + random.normal(0, 2, (len(near), 4))).clip(1).round(2)
    images[: len(near)], classes[: len(near)] = true_images[near], true_classes[near]
    scores = random.random(num_detections).round(4)

    annotations = [
        {"id": number, "image_id": image, "category_id": label, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
        for number, (image, label, box) in enumerate(
            zip(true_images.tolist(), true_classes.tolist(), true_boxes.tolist(), strict=True), 1
        )
    ]
    results = [
        {"image_id": image, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in zip(
            images.tolist(), classes.tolist(), boxes.tolist(), scores.tolist(), strict=True
        )
    ]
    return write(folder, num_images, annotations, results)


def write_masks(folder: Path) -> tuple[Path, Path]:
    """Write a data set of polygons, and detections as run lengths of polygons near them."""
    from reid_torchmetrics.functional.detection.inputs import RunLengths  # noqa: PLC0415 - not for boxes

    random = np.random.default_rng(0)
    num_images, num_ground_truths, num_detections = 1000, 7000, 28_000
    images = random.integers(1, num_images + 1, num_ground_truths)
    classes = random.integers(1, NUM_CLASSES + 1, num_ground_truths)
    centers = random.random((num_ground_truths, 1, 2)) * [WIDTH, HEIGHT]
    angles = np.sort(random.random((num_ground_truths, 12)) * 2 * np.pi, 1)
    radii = 10 + 60 * random.random((num_ground_truths, 1))
    corners = centers + radii[..., None] * np.stack([np.cos(angles), np.sin(angles)], 2)
    corners = corners.clip(0, [WIDTH, HEIGHT]).round(2)
    annotations = []
    for number, polygon in enumerate(corners.reshape(num_ground_truths, -1).tolist()):
        annotation = {"id": number + 1, "image_id": int(images[number]), "category_id": int(classes[number])}
        annotation |= {"segmentation": [polygon], "area": 100.0, "iscrowd": 0, "bbox": [0, 0, WIDTH, HEIGHT]}
        annotations.append(annotation)

    near = random.integers(num_ground_truths, size=num_detections)
    moved = (corners[near] + random.normal(0, 3, (num_detections, 1, 2))).clip(0, [WIDTH, HEIGHT])
    polygons = [[polygon] for polygon in moved.reshape(num_detections, -1).tolist()]
    masks = RunLengths.from_polygons(polygons, (HEIGHT, WIDTH)).to_coco(compressed=True)
    results = [
        {
            "image_id": int(images[number]),
            "category_id": int(classes[number]),
            "segmentation": mask,
            "score": round(random.random(), 4),
        }
        for number, mask in zip(near.tolist(), masks, strict=True)
    ]
    return write(folder, num_images, annotations, results)


def write(folder: Path, num_images: int, annotations: list[Any], results: list[Any]) -> tuple[Path, Path]:
    """Write both files."""
    images = [
        {"id": image, "file_name": f"{image:012}.jpg", "height": HEIGHT, "width": WIDTH}
        for image in range(1, num_images + 1)
    ]
    categories = [{"id": label, "name": f"class {label}"} for label in range(1, NUM_CLASSES + 1)]
    data_set = {"images": images, "annotations": annotations, "categories": categories}
    paths = folder / "truth.json", folder / "results.json"
    for path, contents in zip(paths, (data_set, results), strict=True):
        path.write_text(json.dumps(contents), encoding="utf-8")
    return paths


def written(write_files: Callable[[Path], Any], folder: str) -> Any:
    """Write files in another process, because the system counts the peak of this one for the processes it starts."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(write_files, Path(folder)).result()


def cost_of(words: Sequence[str]) -> tuple[float, float]:
    """Return the CPU seconds and the peak memory in MB of a process on one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{words} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MB


def python(text: str) -> list[str]:
    """Return the words that run a program of Python."""
    return [sys.executable, "-c", text]


def measure(truth: Path, results: Path, iou_type: str) -> dict[str, list[tuple[float, float]]]:
    """Return the costs of each process."""
    texts = {"truth": str(truth), "results": str(results), "iou_type": iou_type}
    calls = PYCOCOTOOLS_CALLS.format(**texts)
    module = [sys.executable, "-m", "reid_torchmetrics"]
    words = {
        "torch": python("import torch"),
        "hotcoco": python(f"from hotcoco import COCO, COCOeval{calls}"),
        "command": [*module, "detect", str(truth), str(results), "--iou-type", iou_type],
        "COCOeval": python(f"from reid_torchmetrics.coco import COCO, COCOeval{calls}"),
    }
    return costs_in_turns(words)


def costs_in_turns(words: dict[str, Sequence[str]]) -> dict[str, list[tuple[float, float]]]:
    """Return the costs of each process, which take turns, after one round that does not count."""
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in words}
    for number in range(ROUNDS + 1):
        for name, command in words.items():
            cost = cost_of(command)
            if number:
                costs[name].append(cost)
    return costs


def claim_costs(shape: str, costs: dict[str, list[tuple[float, float]]], limits: tuple[float, float]) -> None:
    """Claim the CPU time of the command and of `COCOeval` over that of hotcoco."""
    medians = {name: statistics.median(seconds for seconds, _ in rounds) for name, rounds in costs.items()}
    for name, limit in (("command", limits[0]), ("COCOeval", limits[1])):
        seconds = medians[name] - medians["torch"]
        title = "`detect`" if name == "command" else "`coco.COCOeval`"
        text = f"{title} of COCO's files of {shape} costs little more than hotcoco, without importing torch."
        detail = f"{seconds:.3g} s of {medians[name]:.3g} s over {medians['hotcoco']:.3g} s"
        claim(text, seconds / medians["hotcoco"], limit, "times", detail=detail)


def boxes() -> None:
    """Boxes of the size of COCO val2017."""
    if not is_there("hotcoco"):
        return
    with tempfile.TemporaryDirectory() as folder:
        truth, results = written(write_boxes, folder)
        costs = measure(truth, results, "bbox")
    claim_costs("boxes", costs, (1.5, 1.7))
    peaks = {name: statistics.median(peak for _, peak in rounds) for name, rounds in costs.items()}
    text = "`detect` of COCO's files of boxes needs little memory over importing torch."
    claim(text, peaks["command"] - peaks["torch"], 160, "MB")


def many_boxes() -> None:
    """Five million boxes in one file."""
    with tempfile.TemporaryDirectory() as folder:
        truth, results = written(write_many_boxes, folder)
        _, torch = cost_of(python("import torch"))
        _, peak = cost_of([sys.executable, "-m", "reid_torchmetrics", "detect", str(truth), str(results)])
    claim("`detect` of 5,000,000 boxes in one file needs little memory over importing torch.", peak - torch, 900, "MB")


def masks() -> None:
    """Polygons and run lengths."""
    if not is_there("hotcoco"):
        return
    with tempfile.TemporaryDirectory() as folder:
        truth, results = written(write_masks, folder)
        costs = measure(truth, results, "segm")
    claim_costs("masks", costs, (2.5, 2.7))


def embeddings() -> None:
    """Embeddings of the size of Market-1501, with random labels."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(write_embeddings, folder)
        words = {
            "command": [sys.executable, "-m", "reid_torchmetrics", "evaluate", str(path)],
            "sorting": python(SORTING_SCRIPT.format(path=str(path))),
        }
        costs = costs_in_turns(words)
    seconds = {name: [second for second, _ in rounds] for name, rounds in costs.items()}
    text = "`evaluate` of a file of Market-1501's size costs less than a script of NumPy that sorts all distances."
    compare(text, seconds["command"], seconds["sorting"], 0.48)


if __name__ == "__main__":
    main(boxes, many_boxes, masks, embeddings)
