"""Claims: a TREC run takes no longer to its mAP than by pytrec_eval, and boxes in text are read faster than by globox.

    python benchmarks/reader_speed.py [PART ...]     # of trec, yolo, boxes

trec: a run of 1,000 queries with 1,000 items each, 1,000,000 lines, and 50 judged items for each query. yolo: 5,000
files of ground truths and 5,000 files of detections, ten boxes in each; the loop is that of Ultralytics, an array of
split lines for each file, in float32 and without checks. boxes: ground truths and detections of 3,000 images with eight
boxes each, in the files of YOLO, Pascal VOC and Cartucho. globox has no reader of VOC's detections, a file for each
class: it reads the same ones in Cartucho's files. The times are of the CPU, with one thread. pytrec_eval and globox may
not be installed: pip install --group bench.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.claims import compare, interleaved, is_there, main
from harness.load import set_threads
from reid_torchmetrics.data import VOC_CLASSES, read_cartucho, read_ground_truth, read_retrieved, read_voc, read_yolo
from reid_torchmetrics.tasks import evaluate_lists

NUM_QUERIES = LENGTH = 1000
NUM_ITEMS, NUM_JUDGED = 5000, 50
NUM_FILES, NUM_BOXES, WIDTH, HEIGHT = 5000, 10, 640, 480
ROUNDS = 5


def write_lists(folder: Path) -> tuple[Path, Path]:
    """Write a run and its judgements."""
    random = np.random.default_rng(0)
    run, judgements = folder / "run.txt", folder / "qrels.txt"
    with run.open("w", encoding="utf-8") as file:
        for query in range(NUM_QUERIES):
            items = random.permutation(NUM_ITEMS)[:LENGTH].tolist()
            scores = (np.sort(random.random(LENGTH))[::-1] * 50).tolist()
            rows = zip(items, scores, strict=True)
            file.writelines(f"{query} Q0 d{item} {rank} {score:.6f} t\n" for rank, (item, score) in enumerate(rows, 1))
    with judgements.open("w", encoding="utf-8") as file:
        for query in range(NUM_QUERIES):
            items = random.permutation(NUM_ITEMS)[:NUM_JUDGED].tolist()
            file.writelines(f"{query} 0 d{item} 1\n" for item in items)
    return run, judgements


def trec() -> None:
    """Mean average precision of a run in files."""
    if not is_there("pytrec_eval"):
        return
    import pytrec_eval  # noqa: PLC0415

    set_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run, judgements = write_lists(Path(folder))

        def ours() -> float:
            return float(evaluate_lists(read_retrieved(run), read_ground_truth(judgements), reports=("map",))["map"])

        def peer() -> float:
            with judgements.open(encoding="utf-8") as file:
                truth = pytrec_eval.parse_qrel(file)
            with run.open(encoding="utf-8") as file:
                lists = pytrec_eval.parse_run(file)
            rows = pytrec_eval.RelevanceEvaluator(truth, {"map"}).evaluate(lists)
            return float(np.mean([row["map"] for row in rows.values()]))

        np.testing.assert_allclose(ours(), peer(), rtol=1e-12)
        seconds = interleaved({"ours": ours, "pytrec_eval": peer}, ROUNDS, time.process_time)
    text = "A TREC run of 1,000,000 lines takes no longer from its file to mAP than by pytrec_eval, with one thread."
    compare(text, seconds["ours"], seconds["pytrec_eval"], 1.0)


def write_boxes(folder: Path) -> tuple[Path, Path]:
    """Write ground truths and detections."""
    random = np.random.default_rng(0)
    labels, results = folder / "labels", folder / "results"
    labels.mkdir()
    results.mkdir()
    for number in range(NUM_FILES):
        classes = random.integers(0, 80, NUM_BOXES).tolist()
        shares = random.uniform(0.1, 0.9, (NUM_BOXES, 4)).tolist()
        boxes = [
            f"{label} " + " ".join(f"{share:.6f}" for share in box) for label, box in zip(classes, shares, strict=True)
        ]
        (labels / f"{number:06}.txt").write_text("".join(f"{box}\n" for box in boxes), encoding="utf-8")
        (results / f"{number:06}.txt").write_text("".join(f"{box} 0.5\n" for box in boxes), encoding="utf-8")
    return labels, results


def read_by_loop(labels: Path, results: Path) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Read the classes and the corners, in pixels, of each file."""
    size = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT], np.float32)
    files = []
    for folder in (labels, results):
        for path in sorted(folder.iterdir()):
            with path.open(encoding="utf-8") as file:
                rows = np.array([line.split() for line in file.read().strip().splitlines() if line], np.float32)
            pixels = rows[:, 1:5] * size
            halves = pixels[:, 2:] / 2
            corners = np.concatenate([pixels[:, :2] - halves, pixels[:, :2] + halves], axis=1)
            files.append((torch.from_numpy(rows[:, 0]).long(), torch.from_numpy(corners)))
    return files


def yolo() -> None:
    """Boxes in text files."""
    set_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        labels, results = write_boxes(Path(folder))
        ours = partial(read_yolo, labels, results, image_sizes=(WIDTH, HEIGHT))
        peer = partial(read_by_loop, labels, results)
        _, ground_truths = ours()
        for ground_truth, (_, corners) in zip(ground_truths, peer(), strict=False):
            torch.testing.assert_close(ground_truth["boxes"].float(), corners, rtol=0, atol=1e-3)
        seconds = interleaved({"ours": ours, "a loop": peer}, ROUNDS, time.process_time)
    text = "YOLO's boxes in 2 x 5,000 files are read in little more time than by a NumPy loop, with one thread."
    compare(text, seconds["ours"], seconds["a loop"], 1.3)


def write_forms(folder: Path) -> dict[str, Path]:
    """Write the same boxes in the files of YOLO, Pascal VOC and Cartucho; return the folders by their names."""
    random = np.random.default_rng(0)
    names = ("yolo", "yolo_results", "voc", "voc_results", "cartucho", "cartucho_results")
    folders = {name: folder / name for name in names}
    for path in folders.values():
        path.mkdir()
    lines_of_class: dict[str, list[str]] = {name: [] for name in VOC_CLASSES}
    for number in range(3000):
        classes = random.integers(0, len(VOC_CLASSES), 8).tolist()
        sizes = random.uniform(20, 200, (8, 2)).round(2)
        corners = (random.random((8, 2)) * ([WIDTH, HEIGHT] - sizes)).round(2)
        edges = np.concatenate([corners, corners + sizes], 1).round(2)
        shares = np.concatenate([corners + sizes / 2, sizes], 1) / [WIDTH, HEIGHT, WIDTH, HEIGHT]
        texts: dict[str, list[str]] = {name: [] for name in names if name != "voc_results"}
        for label, box, share, score in zip(classes, edges, shares, random.random(8).round(6), strict=True):
            name = VOC_CLASSES[label]
            in_pixels = " ".join(f"{edge:.2f}" for edge in box)
            in_shares = " ".join(f"{value:.6f}" for value in share)
            texts["yolo"].append(f"{label} {in_shares}")
            texts["yolo_results"].append(f"{label} {in_shares} {score}")
            texts["cartucho"].append(f"{name} {in_pixels}")
            texts["cartucho_results"].append(f"{name} {score} {in_pixels}")
            lines_of_class[name].append(f"{number:06} {score} {in_pixels}")
            tags = zip(("xmin", "ymin", "xmax", "ymax"), in_pixels.split(), strict=True)
            bounds = "".join(f"<{tag}>{edge}</{tag}>" for tag, edge in tags)
            flags = "<pose>Unspecified</pose><truncated>0</truncated><difficult>0</difficult>"
            texts["voc"].append(f"<object><name>{name}</name>{flags}<bndbox>{bounds}</bndbox></object>")
        size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>"
        head = f"<annotation><folder>images</folder><filename>{number:06}.jpg</filename>{size}"
        texts["voc"] = [head, *texts["voc"], "</annotation>"]
        for name, lines in texts.items():
            suffix = "xml" if name == "voc" else "txt"
            (folders[name] / f"{number:06}.{suffix}").write_text("\n".join(lines), encoding="utf-8")
    for name, lines in lines_of_class.items():
        (folders["voc_results"] / f"comp4_det_test_{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    return folders


def boxes() -> None:
    """Boxes in the files of YOLO, Pascal VOC and Cartucho."""
    if not is_there("globox"):
        return
    from globox import Annotation, AnnotationSet, BoxFormat  # noqa: PLC0415

    def read_shares(folder: Path, *, has_scores: bool) -> Any:
        parser = partial(
            Annotation.from_txt,
            box_format=BoxFormat.XYWH,
            relative=True,
            image_size=(WIDTH, HEIGHT),
            conf_last=has_scores,
        )
        return AnnotationSet.from_folder(folder, extension=".txt", parser=parser)

    set_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folders = write_forms(Path(name))
        yolo_files, voc_files, cartucho_files = (
            (folders[form], folders[f"{form}_results"]) for form in ("yolo", "voc", "cartucho")
        )
        ways: dict[str, tuple[Callable[[], Any], Callable[[], Any], float]] = {
            "YOLO": (
                partial(read_yolo, *yolo_files, image_sizes=(WIDTH, HEIGHT)),
                lambda: [read_shares(folder, has_scores=folder is yolo_files[1]) for folder in yolo_files],
                0.5,
            ),
            "Pascal VOC": (
                partial(read_voc, *voc_files),
                lambda: [AnnotationSet.from_pascal_voc(voc_files[0]), AnnotationSet.from_txt(cartucho_files[1])],
                0.8,
            ),
            "Cartucho": (
                partial(read_cartucho, *cartucho_files, VOC_CLASSES),
                lambda: [AnnotationSet.from_txt(folder) for folder in cartucho_files],
                0.8,
            ),
        }
        for form, (ours, peer, limit) in ways.items():
            ground_truths, *_ = peer()
            for image in ours()[1]:
                corners = [box.ltrb for box in ground_truths[f"{image['image_id']}.jpg"].boxes]
                np.testing.assert_allclose(image["boxes"].numpy(), corners, rtol=0, atol=1e-9)
            seconds = interleaved({"ours": ours, "globox": peer}, ROUNDS, time.process_time)
            text = f"Files of {form} of 3,000 images are read faster than by globox, with one thread."
            compare(text, seconds["ours"], seconds["globox"], limit)


if __name__ == "__main__":
    main(trec, yolo, boxes)
